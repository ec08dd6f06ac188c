package topics

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// show prints headers, one a line; a null value is printed as null.
func show(hs []kgo.RecordHeader) string {
	var s strings.Builder
	for _, h := range hs {
		if h.Value == nil {
			fmt.Fprintf(&s, "%s null\n", h.Key)
			continue
		}
		fmt.Fprintf(&s, "%s=%s\n", h.Key, h.Value)
	}
	return s.String()
}

// mixed are headers of every sort, with a user's header twice.
func mixed() []kgo.RecordHeader {
	return append(headers(
		"traceparent", "00-1", "delay-until", "1767225605123", "a", "1", "delay-target-topic", "orders",
		"delay-target-key", "k", "delay-due", "forged", "delay-source", "forged", "a", "2", "delay-attempt", "9",
		"delay-for", "1s", "delay-retry", "forged", "delay-seq", "forged", "Delay-For", "mine", "delay-id", "x",
		"__delay.errors.code", "old", "__delay.errors.cut", "old"), kgo.RecordHeader{Key: "null"})
}

func TestAppendDelivered(t *testing.T) {
	d := Delivered{Topic: "delay-requests", Partition: 3, Fired: T + 2,
		Origin: Origin{Offset: 42, Timestamp: T - 5000, Due: T}, Attempt: 0}
	const users = "traceparent=00-1\na=1\na=2\nnull null\n"
	const source = "delay-due=1767225605123\ndelay-source=delay-requests/3/42\n"
	const more = "delay-source-timestamp=1767225600123\ndelay-fired=1767225605125\n"
	for _, c := range []struct {
		emit    Emit
		attempt int
		added   string
	}{
		{EmitSource, 0, source},
		{EmitSource, 2, source + "delay-tries=2\n"},
		{EmitAll, 0, source + more},
		{EmitAll, 2, source + more + "delay-tries=2\n"},
		{EmitNone, 2, ""},
	} {
		d.Emit, d.Attempt = c.emit, c.attempt
		got, _ := AppendDelivered(nil, mixed(), &d, nil)
		equal(t, show(got), users+c.added)
	}
}

// What asked by headers of a former prefix loses those, too, whatever its route calls ours now.
func TestAppendDeliveredOfAFormerPrefix(t *testing.T) {
	in := headers("a", "1", "delay-until", "1767225605123", "Delay-For", "mine", "x-wheel-until", "1767225605123", "x-wheel-due", "forged", "delay-seq", "forged", "b", "2")
	for _, c := range []struct{ asked, now, want string }{
		{"delay-", "x-wheel-", "a=1\nb=2\nx-wheel-due=0\nx-wheel-source=a/1/0\n"},
		{"x-wheel-", "delay-", "a=1\nb=2\ndelay-due=0\ndelay-source=a/1/0\n"},
		{"", "x-wheel-", "a=1\ndelay-until=1767225605123\nDelay-For=mine\nb=2\nx-wheel-due=0\nx-wheel-source=a/1/0\n"},
	} {
		got, _ := AppendDelivered(nil, in, &Delivered{Topic: "a", Partition: 1, Prefix: c.now, Asked: c.asked}, nil)
		equal(t, show(got), c.want)
	}
}

// What neighbours share is written anew when it changes.
func TestAppendDeliveredOfNeighbours(t *testing.T) {
	d := Delivered{Emit: EmitAll}
	for _, c := range []struct {
		prefix, topic string
		partition     int32
		fired         int64
	}{{"delay-", "a", 1, 5}, {"delay-", "a", 2, 5}, {"delay-", "b", 2, 5}, {"delay-", "b", 2, 6}, {"x-wheel-", "c", 2, 6}, {"dw.", "d", 2, 6}, {"delay-", "a", 1, 5}} {
		d.Prefix, d.Topic, d.Partition, d.Fired = c.prefix, c.topic, c.partition, c.fired
		got, _ := AppendDelivered(nil, nil, &d, nil)
		equal(t, show(got), fmt.Sprintf("%[1]sdue=0\n%[1]ssource=%[2]s/%[3]d/0\n%[1]ssource-timestamp=0\n%[1]sfired=%[4]d\n", c.prefix, c.topic, c.partition, c.fired))
	}
}

// A retry is the request as it was written, and one header behind it.
func TestAppendRetry(t *testing.T) {
	r := Retry{Due: T, Attempt: 1, Origin: Origin{Offset: 42, Timestamp: 7, Due: 8}}
	got, _ := AppendRetry(nil, mixed(), ours, r, nil)
	equal(t, show(got), show(mixed())+"delay-retry=a8098c1a:billing:3:42:7:8:1:1767225605123\n")
	r.Origin.Timestamp = -7 // no timestamp of Kafka's
	got, _ = AppendRetry(nil, mixed(), NewMark(otherID, "a:b/ü %", 12), r, nil)
	equal(t, show(got), show(mixed())+"delay-retry=a8098c1b:a%3Ab%2F%C3%BC+%25:12:42:-1:8:1:1767225605123\n")
}

// A retry is read by the names that its request was written with, whatever its route calls them by then; and what it says of them is read by nothing else.
func TestRetryKeepsItsNames(t *testing.T) {
	request := headers("x-wheel-until", "1767225605123", "x-wheel-target-topic", "later", "delay-target-topic", "sooner", "x-wheel-expires", "1767225699000")
	q, err := parser(t, "p1^x-wheel-").Parse(request, Stamp{Millis: T}, 42, ours)
	if err != nil || string(q.Target) != "later" {
		t.Fatalf("%+v, %v", q, err)
	}
	tried := func(names string) []kgo.RecordHeader {
		hs, _ := AppendRetry(nil, request, ours, Retry{Due: T + 60_000, Attempt: 2, Origin: q.First(42, T), Names: names}, nil)
		return hs
	}
	for _, spec := range []string{"p1", "p1^x-wheel-", "p1!^y-wheel-", "p1!pe", "p1~5/kr"} {
		p := parser(t, spec)
		hs := tried(NamesOf(parser(t, "p1^x-wheel-")))
		got, err := p.Parse(hs, Stamp{Millis: T + 2, Key: []byte("k")}, 50, ours)
		if err != nil || string(got.Target) != "later" || got.Expires != T+93_877 || !got.Retry || got.Attempt != 2 || got.Origin != q.First(42, T) {
			t.Errorf("by %s: %+v, %v", spec, got, err)
		}
		if name := ParserOf(p, hs, 50, &ours).Name(HeaderUntil); name != "x-wheel-until" {
			t.Errorf("by %s it has %s", spec, name)
		}
	}
	for names, want := range map[string]string{"": "sooner", "^x-wheel-": "later", "!": "sooner", "^": "later", "!z": "later", "^x wheel": "later", "^delay-": "later"} { // made up: as its route has it
		got, err := parser(t, "p1^x-wheel-").Parse(tried(names), Stamp{Millis: T}, 50, ours)
		if err != nil || string(got.Target) != want || !got.Retry {
			t.Errorf("with names %q: %+v, %v", names, got, err)
		}
	}
	for _, spec := range []string{"p1", "p1!", "p1!pe", "p1^x-wheel-", "p1!p^x-wheel-", "r1+10000+2000+3600000+200", "r1+10000+2000+3600000+200!s^y."} {
		p := parser(t, spec)
		if names := strings.TrimPrefix(NamesOf(p), forRetry); !strings.HasSuffix(spec, names) && names != "!" || ParserOf(p, tried(NamesOf(p)), 50, &ours) != p {
			t.Errorf("%s has the names %q", spec, names)
		}
	}
	theirs := NewMark(ours.id, "other", ours.number)
	if p := parser(t, "p1"); ParserOf(p, tried("^x-wheel-"), 50, &theirs) != p {
		t.Error("what another group has tried is read by its names")
	}
	elsewhere := ours.In(9)
	if q, err := parser(t, "p1^x-wheel-").Parse(tried("^x-wheel-"), Stamp{Millis: T + 5}, 50, elsewhere); err != nil || q.Retry {
		t.Errorf("mirrored: %+v, %v", q, err)
	}
}

// Whatever was tried meanwhile, a retry names the first request, and is as long as the one before.
func TestRetriesNameTheFirstRequestAndDoNotGrow(t *testing.T) {
	p := parser(t, "p1")
	written := headers("a", "1", "delay-for", "5s", "delay-target-topic", "orders", "delay-target-partition", "1", "delay-retry", "a8098c1b:billing:3:41:1767225605123:1:1:1767225605123")
	hs := written
	q, err := p.Parse(hs, Stamp{Millis: T}, 42, ours)
	if err != nil {
		t.Fatal(err)
	}
	want := Origin{Offset: 42, Timestamp: T, Due: T + 5000}
	for attempt := 1; attempt < 9; attempt++ {
		offset := int64(41 + attempt)
		as, _, _ := ours.Written(hs, offset)
		hs, _ = AppendRetry(nil, as, ours, Retry{Due: T + int64(attempt)*60_000, Attempt: attempt, Origin: q.First(offset, T)}, nil)
		equal(t, show(hs[:len(hs)-1]), show(written))
		if q, err = p.Parse(hs, Stamp{Millis: T + 2}, offset+1, ours); err != nil {
			t.Fatal(err)
		}
		equal(t, q, Request{Due: T + int64(attempt)*60_000, Target: []byte("orders"), TargetBy: HeaderTargetTopic, Partition: 1, Retry: true, Attempt: attempt, Origin: want})
		as, r, retried := ours.Written(hs, offset+1)
		equal(t, show(as), show(written))
		equal(t, r, Retry{Due: q.Due, Attempt: attempt, Origin: want})
		equal(t, retried, true)
	}
}

// A retry is believed in the partition and by the group that it was written for. Another group that
// reads the partition passes it over; where it was copied to, it is the request that it was.
func TestWhoseRetry(t *testing.T) {
	written := headers("a", "1", "delay-for", "5s")
	first := Origin{Offset: 7, Timestamp: T, Due: T + 5000}
	request := Request{Due: T + 5000, Partition: -1}
	mirrored := Request{Due: 1 + 5000, Partition: -1} // it was written then
	for _, tt := range []struct {
		name   string
		value  string
		behind string // a header behind it
		want   Request
	}{
		{name: "ours", value: "a8098c1a:billing:3:7:1767225605123:1767225610123:2:1767225699000",
			want: Request{Due: 1767225699000, Partition: -1, Retry: true, Attempt: 2, Origin: first}},
		{name: "throttled, not attempted", value: "a8098c1a:billing:3:0:0:0:0:1767225699000",
			want: Request{Due: 1767225699000, Partition: -1, Retry: true}},
		{name: "of a record without a timestamp", value: "a8098c1a:billing:3:41:-1:1:1:1767225699000",
			want: Request{Due: 1767225699000, Partition: -1, Retry: true, Attempt: 1, Origin: Origin{Offset: 41, Timestamp: -1, Due: 1}}},
		{name: "of another group", value: "a8098c1a:orders:3:7:1:1:1:1767225699000", want: Request{Kind: KindOfAnotherGroup, Partition: -1}},
		{name: "of a group whose name begins like ours", value: "a8098c1a:billin:3:7:1:1:1:1767225699000", want: Request{Kind: KindOfAnotherGroup, Partition: -1}},
		{name: "of another topic", value: "a8098c1b:billing:3:7:1:1:1:1767225699000", want: mirrored},
		{name: "of another group in another topic", value: "a8098c1b:orders:3:7:1:1:1:1767225699000", want: mirrored},
		{name: "of another partition", value: "a8098c1a:billing:33:7:1:1:1:1767225699000", want: mirrored},
		{name: "of another group in another partition", value: "a8098c1a:orders:2:7:1:1:1:1767225699000", want: mirrored},
		{name: "it does not look back", value: "a8098c1a:billing:3:42:1:1:1:1767225699000", want: request},
		{name: "first due before all times", value: "a8098c1a:billing:3:7:1:-1:1:1767225699000", want: request},
		{name: "negative attempts", value: "a8098c1a:billing:3:7:1:1:-1:1767225699000", want: request},
		{name: "more attempts than there can be", value: "a8098c1a:billing:3:7:1:1:1073741825:1767225699000", want: request},
		{name: "no due time", value: "a8098c1a:billing:3:7:1:1:1:0", want: request},
		{name: "due beyond all times", value: "a8098c1a:billing:3:7:1:1:1:999999999999999", want: request},
		{name: "a number is missing", value: "a8098c1a:billing:3:7:1:1:1767225699000", want: request},
		{name: "a number too many", value: "a8098c1a:billing:3:7:1:1:1:1767225699000:1", want: request},
		{name: "a leading zero", value: "a8098c1a:billing:3:07:1:1:1:1767225699000", want: request},
		{name: "nothing", value: "", want: request},
		{name: "behind it stands another header", value: "a8098c1a:billing:3:7:1:1:1:1767225699000", behind: "b", want: request},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hs := append(written[:2:2], headers("delay-retry", tt.value)...)
			if tt.behind != "" {
				hs = append(hs, headers(tt.behind, "x")...)
			}
			q, err := parser(t, "p1").Parse(hs, Stamp{Millis: T}, 42, ours)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, q, tt.want)
			as, _, retried := ours.Written(hs, 42)
			if retried != tt.want.Retry || retried != (len(as) < len(hs)) {
				t.Errorf("written is %s, retried %v", show(as), retried)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	hs := Resolve(ours, 41, T, 7)
	equal(t, show(hs), "delay-resolve=a8098c1a:billing:3:41:1767225605123:7:-1\n")
	for _, spec := range []string{"p1", "p1+1000"} {
		q, err := parser(t, spec).Parse(hs, Stamp{Millis: T}, 42, ours)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, q, Request{Kind: KindResolve, Partition: -1, ResolveOffset: 41, ResolveDue: T, ResolveSeq: 7, ResolveBy: -1})
		q, err = parser(t, spec).Parse(hs, Stamp{Millis: T}, 42, NewMark(ourID, "orders", 3))
		if err != nil || q.Kind != KindOfAnotherGroup {
			t.Errorf("by another group: %+v, %v", q, err)
		}
	}
}

// What the user wrote comes out unchanged, in order, whatever dst and buf hold
// and however small they are.
func TestAppendKeepsWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"a", "b", "delay-until", "delay-due", "delay-x", "__delay.errors.code", "Delay-For", "__delay", "d"})
		in := rapid.SliceOf(rapid.Custom(func(t *rapid.T) kgo.RecordHeader {
			return kgo.RecordHeader{Key: names.Draw(t, "name"), Value: rapid.SliceOf(rapid.Byte()).Draw(t, "value")}
		})).Draw(t, "in")
		before := show(in)
		dst := make([]kgo.RecordHeader, 1, rapid.IntRange(1, 20).Draw(t, "room"))
		dst[0] = kgo.RecordHeader{Key: "first"}
		buf := append(make([]byte, 0, rapid.IntRange(5, 300).Draw(t, "bytes")), "first"...)
		got, buf := AppendDelivered(dst, in, &Delivered{Topic: "d", Origin: Origin{Offset: 1, Timestamp: 2, Due: 3}, Fired: 4, Emit: EmitAll}, buf)
		var want []kgo.RecordHeader
		for _, h := range in {
			if !strings.HasPrefix(strings.ToLower(h.Key), "delay-") && !strings.HasPrefix(h.Key, "__delay.errors.") {
				want = append(want, h)
			}
		}
		added := "delay-due=3\ndelay-source=d/0/1\ndelay-source-timestamp=2\ndelay-fired=4\n"
		if show(got) != "first null\n"+show(want)+added || show(in) != before || !bytes.HasPrefix(buf, []byte("first")) {
			t.Fatalf("got\n%s of\n%s", show(got), before)
		}
		for _, h := range got[len(want)+1:] {
			if cap(h.Value) != len(h.Value) {
				t.Fatalf("to append to %s would overwrite the next", h.Key)
			}
		}
		// A second record in the same slices leaves the first one alone.
		first := show(got)
		_, _ = AppendDelivered(got, in, &Delivered{Topic: "another"}, buf)
		if show(got) != first {
			t.Fatalf("got\n%s, was\n%s", show(got), first)
		}
	})
}

func TestAppendDeadLetter(t *testing.T) {
	d := DeadLetter{
		Topic: "delay-requests", Partition: 3, Offset: 42, Timestamp: T, Instance: "host-1", Attempts: 4,
		Refusal: &Refusal{Code: CodeUnparsableDue, Stage: StageParse, Header: "delay-until", Value: []byte("soon"), Message: "no"},
	}
	const ours = `__delay.errors.topic=delay-requests
__delay.errors.partition=3
__delay.errors.offset=42
__delay.errors.timestamp=1767225605123
__delay.errors.stage=PARSE
__delay.errors.code=unparsable_due
__delay.errors.message=no
__delay.errors.header=delay-until=soon
__delay.errors.instance=host-1
__delay.errors.attempts=4
`
	in := mixed()
	kept := show(slices.DeleteFunc(slices.Clone(in), func(h kgo.RecordHeader) bool { return strings.HasPrefix(h.Key, "__delay.errors.") }))
	got, buf := AppendDeadLetter(nil, in, d, nil)
	equal(t, show(got), kept+ours)
	again, _ := AppendDeadLetter(nil, got, d, buf)
	equal(t, show(again), kept+ours)

	d.Refusal = &Refusal{Code: CodeUnparsableDue, Stage: StageParse, Header: "delay-\xff", Value: []byte{0, 0xff}, Message: "no"}
	got, _ = AppendDeadLetter(nil, nil, d, nil)
	if !strings.Contains(show(got), "\n__delay.errors.header=delay-\uFFFD=0x00ff\n") {
		t.Errorf("got\n%s", show(got))
	}
	d.Refusal.Value = []byte("soon")
	got, _ = AppendDeadLetter(nil, nil, d, nil)
	if !strings.Contains(show(got), "\n__delay.errors.header=delay-\uFFFD=soon\n") {
		t.Errorf("got\n%s", show(got))
	}
	d.Refusal = &Refusal{Code: CodeNoDue, Stage: StageParse, Message: "no"}
	got, _ = AppendDeadLetter(nil, nil, d, nil)
	if strings.Contains(show(got), "__delay.errors.header") {
		t.Errorf("got\n%s", show(got))
	}
}

// A dead letter that its topic does not take whole loses the end of its value first, then the end of its key, then the request's
// headers; those that say why it is one stay, and how long everything was.
func TestFitDeadLetter(t *testing.T) {
	bytes := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i % 251)
		}
		return b
	}
	record := func(key, value, header int) *kgo.Record {
		hs, _ := AppendDeadLetter(nil, headers("h", strings.Repeat("h", header)), DeadLetter{Refusal: &Refusal{Code: CodeTooLarge}}, nil)
		return &kgo.Record{Key: bytes(key), Value: bytes(value), Headers: hs}
	}
	const all = -1
	for _, tt := range []struct {
		name               string
		key, value, header int
		limit              int
		keyLeft, valueLeft int // all: as they were; else at least so many bytes fewer than that, and down to none at zero
		headerLeft         bool
	}{
		{"it fits", 10, 100, 10, 2000, all, all, true},
		{"the value goes first", 10, 5000, 10, 2000, all, 1000, true},
		{"then the key", 5000, 5000, 10, 2000, 1000, 0, true},
		{"then the headers", 5000, 5000, 5000, 2000, 0, 0, false},
		{"headers alone", 0, 0, 5000, 2000, 0, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := record(tt.key, tt.value, tt.header)
			was := *r
			whole := RecordSize(r.Key, r.Value, r.Headers)
			cut := whole > tt.limit
			if FitDeadLetter(r, whole) {
				t.Errorf("it is cut where it just fits")
			}
			if got := FitDeadLetter(r, tt.limit); got != cut {
				t.Errorf("cut: got %v, want %v", got, cut)
			}
			size := RecordSize(r.Key, r.Value, r.Headers)
			if size > tt.limit || r.Key == nil || r.Value == nil {
				t.Errorf("%d bytes, limit %d; key %v, value %v", size, tt.limit, r.Key == nil, r.Value == nil)
			}
			if cut && tt.headerLeft && size < tt.limit-8 {
				t.Errorf("%d bytes were left of %d", size, tt.limit)
			}
			for what, c := range map[string]struct {
				got, was []byte
				left     int
			}{"key": {r.Key, was.Key, tt.keyLeft}, "value": {r.Value, was.Value, tt.valueLeft}} {
				n := len(c.got)
				if string(c.got) != string(c.was[:n]) {
					t.Errorf("what is left of the %s is not its beginning", what)
				}
				if c.left == all && n != len(c.was) || c.left == 0 && n > 0 || c.left > 0 && (n < c.left || n == len(c.was)) {
					t.Errorf("%d of %d bytes of the %s are left", n, len(c.was), what)
				}
			}
			got := show(r.Headers)
			note := fmt.Sprintf("%s=key=%d value=%d headers=%d size=%d\n", HeaderErrorCut, tt.key, tt.value, len(was.Headers), whole)
			if strings.Contains(got, note) != cut || !strings.Contains(got, "__delay.errors.code=too_large") || strings.Contains(got, "h=hh") != tt.headerLeft {
				t.Errorf("headers\n%s, want %s", got, note)
			}
		})
	}
}

func TestEmitAsText(t *testing.T) {
	for _, e := range []Emit{EmitSource, EmitAll, EmitNone} {
		text, err := e.MarshalText()
		var back Emit
		if err := errors.Join(err, back.UnmarshalText(bytes.ToUpper(text))); err != nil || back != e {
			t.Errorf("%s: %v, %v", text, back, err)
		}
	}
	if err := new(Emit).UnmarshalText([]byte("some")); err == nil || err.Error() != `"some" is not one of source, all, none` {
		t.Error(err)
	}
}
