package topics

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// T is the instant of most tests: 2026-01-01T00:00:05.123Z.
const T = 1767225605123

var (
	ourID   = [4]byte{0xa8, 0x09, 0x8c, 0x1a}
	otherID = [4]byte{0xa8, 0x09, 0x8c, 0x1b}
	ours    = NewMark(ourID, "billing", 3)
)

// headers makes headers of names and values that take turns.
func headers(pairs ...string) []kgo.RecordHeader {
	var hs []kgo.RecordHeader
	for i := 0; i < len(pairs); i += 2 {
		hs = append(hs, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return hs
}

func parser(t testing.TB, spec string) *Parser {
	t.Helper()
	p, err := ParserFor(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name    string
		headers []kgo.RecordHeader
		want    Request
	}{
		{
			name:    "every request header",
			headers: headers("delay-until", "1767225605123", "delay-target-topic", "orders", "delay-target-key", "k", "delay-target-partition", "7"),
			want:    Request{Due: T, Target: []byte("orders"), TargetBy: "delay-target-topic", Key: []byte("k"), HasKey: true, Partition: 7},
		},
		{
			name:    "no target is no fault of the record",
			headers: headers("delay-until", "1767225605123"),
			want:    Request{Due: T, Partition: -1},
		},
		{
			name:    "the last header of a name counts",
			headers: headers("delay-for", "1s", "delay-for", "2s", "delay-target-topic", "a", "delay-target-topic", "b"),
			want:    Request{Due: T + 2000, Target: []byte("b"), TargetBy: "delay-target-topic", Partition: -1},
		},
		{
			name:    "an empty last header makes the name absent",
			headers: headers("delay-until", "1", "delay-until", "", "delay-for", "1s", "delay-target-key", "k", "delay-target-key", ""),
			want:    Request{Due: T + 1000, Partition: -1},
		},
		{
			name:    "delay-until wins over delay-for",
			headers: headers("delay-for", "whatever", "delay-until", "1767225605"),
			want:    Request{Due: 1767225605000, Partition: -1},
		},
		{
			name:    "a reserved header without a value is absent",
			headers: headers("delay-for", "1s", "delay-cancel", "", "delay-replace", "", "delay-expires", "", "delay-id", "x", "delay-id", "", "delay-nonsense", ""),
			want:    Request{Due: T + 1000, Partition: -1},
		},
		{
			name:    "white space around text does not count, but a key is bytes",
			headers: headers("delay-for", " 1s\r\n", "delay-target-topic", "\torders ", "delay-target-partition", " 0 ", "delay-target-key", " k "),
			want:    Request{Due: T + 1000, Target: []byte("orders"), TargetBy: "delay-target-topic", Key: []byte(" k "), HasKey: true, Partition: 0},
		},
		{
			name: "quotes and envelopes are taken off, but a key is bytes",
			headers: headers("delay-for", `"PT1S"`, "delay-target-topic", `"orders"`, "delay-target-partition", `{"schema":{"type":"int32","optional":false},"payload":3}`,
				"delay-target-key", `"k"`, "delay-expires", `"2026-01-01T00:00:07Z"`, "delay-id", `"x"`),
			want: Request{Due: T + 1000, Target: []byte("orders"), TargetBy: "delay-target-topic", Key: []byte(`"k"`), HasKey: true, Partition: 3, Expires: 1767225607000, ID: []byte("x")},
		},
		{
			name: "what is null in JSON is absent",
			headers: headers("delay-until", "null", "delay-for", "1s", "delay-target-topic", `""`, "delay-target-partition", `"null"`, "delay-cancel", "null", "delay-replace", `""`,
				"delay-expires", `{"schema":{"type":"string","optional":true},"payload":null}`, "delay-id", "null", "delay-every", "null"),
			want: Request{Due: T + 1000, Partition: -1},
		},
		{
			name:    "emitted headers from outside mean nothing",
			headers: headers("delay-for", "1s", "delay-due", "9", "delay-attempt", "4", "delay-source", "x", "delay-hops", "3"),
			want:    Request{Due: T + 1000, Partition: -1},
		},
		{
			name:    "what looks like a copy is an ordinary request",
			headers: headers("delay-for", "1s", "delay-seq", "a8098c1a:billing:3:3:9:9", "delay-from", "4"),
			want:    Request{Due: T + 1000, Partition: -1},
		},
		{
			name:    "names that only resemble ours",
			headers: headers("delay-for", "1s", "delay", "x", "adelay-for", "9s", "Delay", "x", "DELAY_FOR", "x", "dela\u00ff-for", "x"),
			want:    Request{Due: T + 1000, Partition: -1},
		},
		{
			name:    "another case of a name without a value is absent",
			headers: headers("delay-for", "1s", "Delay-For", "", "DELAY-ID", ""),
			want:    Request{Due: T + 1000, Partition: -1},
		},
		{
			name:    "a due time in the past is due at once, not refused",
			headers: headers("delay-until", "2001-01-01T00:00:00Z"),
			want:    Request{Due: 978307200000, Partition: -1},
		},
		{
			name:    "resolve record",
			headers: headers("delay-resolve", "a8098c1a:billing:3:41:1767225605123:7:-1"),
			want:    Request{Kind: KindResolve, Partition: -1, ResolveOffset: 41, ResolveDue: T, ResolveSeq: 7, ResolveBy: -1},
		},
		{
			name:    "resolve record of another group",
			headers: headers("delay-resolve", "a8098c1a:orders:3:41:1767225605123:7:-1"),
			want:    Request{Kind: KindOfAnotherGroup, Partition: -1},
		},
		{
			name:    "copy of another group",
			headers: headers("delay-until", "1767225605123", "delay-seq", "a8098c1a:orders:3:3:9:9", "delay-from", "4", "a", "b"),
			want:    Request{Kind: KindOfAnotherGroup, Partition: -1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parser(t, "p1").Parse(tt.headers, Stamp{Millis: T}, 42, ours)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, got, tt.want)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		headers []kgo.RecordHeader
		code    Code
		header  string
		message string // a part of it
	}{
		{"nothing", nil, CodeNoDue, "", "neither delay-until nor delay-for"},
		{"a name with other signs between its words", headers("delay_for", "5s"), CodeNoDue, "", "is set; it has delay_for: write delay-for"},
		{"a name as Java writes it", headers("delayUntil", "1767225605123"), CodeNoDue, "", "is set; it has delayUntil: write delay-until"},
		{"such a name without a value", headers("delay_for", ""), CodeNoDue, "", "nor delay-for is set"},
		{"only a target", headers("delay-target-topic", "orders"), CodeNoDue, "", "neither"},
		{"unparsable delay-until does not fall back to delay-for", headers("delay-until", "soon", "delay-for", "1s"), CodeUnparsableDue, "delay-until", "an offset like"},
		{"unparsable delay-for", headers("delay-for", "soon"), CodeUnparsableDue, "delay-for", "PT5M"},
		{"epoch days", headers("delay-until", "20454"), CodeDueOutOfRange, "delay-until", "in days it is 2026-01-01T00:00:00.000Z"},
		{"a delay for an instant", headers("delay-until", "5m"), CodeUnparsableDue, "delay-until", "; it is a length of time, such as delay-for takes, and here an instant is needed"},
		{"a delay for the end", headers("delay-for", "1m", "delay-expires", `"PT5M"`), CodeInvalidExpiry, "delay-expires", "; it is a length of time, such as delay-for takes, and here an instant is needed"},
		{"an instant for a delay", headers("delay-for", "2026-01-01T00:00Z"), CodeUnparsableDue, "delay-for", "; it is an instant, such as delay-until takes, and here a length of time is needed"},
		{"days that are beyond all due times", headers("delay-until", "99999999"), CodeDueOutOfRange, "delay-until", "belongs in delay-for; in s it is 1973-03-03T09:46:39.000Z"},
		{"target with a blank", headers("delay-for", "1s", "delay-target-topic", "or ders"), CodeInvalidTarget, "delay-target-topic", "249"},
		{"target in one quote", headers("delay-for", "1s", "delay-target-topic", `"orders`), CodeInvalidTarget, "delay-target-topic", "249"},
		{"target of blanks", headers("delay-for", "1s", "delay-target-topic", "  "), CodeInvalidTarget, "delay-target-topic", "249"},
		{"target ..", headers("delay-for", "1s", "delay-target-topic", ".."), CodeInvalidTarget, "delay-target-topic", "249"},
		{"long target", headers("delay-for", "1s", "delay-target-topic", strings.Repeat("a", 250)), CodeInvalidTarget, "delay-target-topic", "249"},
		{"negative partition", headers("delay-for", "1s", "delay-target-partition", "-1"), CodeInvalidPartition, "delay-target-partition", "decimal"},
		{"large partition", headers("delay-for", "1s", "delay-target-partition", "2147483648"), CodeInvalidPartition, "delay-target-partition", "decimal"},
		{"reserved", headers("delay-for", "1s", "delay-every", "x"), CodeUnsupportedHeader, "delay-every", "not support"},
		{"reserved before no due", headers("delay-cron", "0 9 * * *"), CodeUnsupportedHeader, "delay-cron", "not support"},
		{"misspelt", headers("delay-untill", "1", "delay-for", "1s"), CodeUnsupportedHeader, "delay-untill", "did you mean delay-until?"},
		{"unknown", headers("delay-everything-else", "1"), CodeUnsupportedHeader, "delay-everything-else", "unknown"},
		{"unknown after an absent unknown", headers("delay-xxxxxxxx", "", "delay-yyyyyyyy", "1"), CodeUnsupportedHeader, "delay-yyyyyyyy", "unknown"},
		{"the bare prefix", headers("delay-", "1"), CodeUnsupportedHeader, "delay-", "unknown"},
		{"resolve of another topic", headers("delay-resolve", "a8098c1b:billing:3:41:1:1:-1"), CodeUnsupportedHeader, "delay-resolve", "does not belong"},
		{"resolve of another partition", headers("delay-resolve", "a8098c1a:billing:4:41:1:1:-1"), CodeUnsupportedHeader, "delay-resolve", "does not belong"},
		{"resolve without a group", headers("delay-resolve", "a8098c1a::3:41:1:1:-1"), CodeUnsupportedHeader, "delay-resolve", "does not belong"},
		{"resolve that does not look back", headers("delay-resolve", "a8098c1a:billing:3:42:1:1:-1"), CodeUnsupportedHeader, "delay-resolve", "does not belong"},
		{"resolve of a seq above its offset", headers("delay-resolve", "a8098c1a:billing:3:41:1:42:-1"), CodeUnsupportedHeader, "delay-resolve", "does not belong"},
		{"resolve of a negative due time", headers("delay-resolve", "a8098c1a:billing:3:41:-1:1:-1"), CodeUnsupportedHeader, "delay-resolve", "does not belong"},
		{"resolve by what lies behind it", headers("delay-resolve", "a8098c1a:billing:3:41:1:1:42"), CodeUnsupportedHeader, "delay-resolve", "does not belong"},
		{"resolve that tells not by what", headers("delay-resolve", "a8098c1a:billing:3:41:1:1"), CodeUnsupportedHeader, "delay-resolve", "does not belong"},
		{"a long id", headers("delay-for", "1s", "delay-id", strings.Repeat("x", 257)), CodeInvalidID, "delay-id", "256 bytes"},
		{"an id like a handle", headers("delay-for", "1s", "delay-id", "2026-11-22"), CodeInvalidID, "delay-id", "like a handle"},
		{"a cancel of a long id", headers("delay-cancel", strings.Repeat("x", 257)), CodeInvalidID, "delay-cancel", "256 bytes"},
		{"a replacement of a long id", headers("delay-for", "1s", "delay-replace", strings.Repeat("x", 257)), CodeInvalidID, "delay-replace", "256 bytes"},
		{"an id beside a handle", headers("delay-for", "1s", "delay-id", "x", "delay-replace", "3-8-1767225605123"), CodeInvalidID, "delay-id", "has no id"},
		{"another id than that which is replaced", headers("delay-for", "1s", "delay-id", "x", "delay-replace", "y"), CodeInvalidID, "delay-id", "no other"},
		{"a replacement in another partition", headers("delay-for", "1s", "delay-replace", "4-8-1767225605123"), CodeWrongPartition, "delay-replace", "which is 4"},
		{"what only we forward", headers("delay-for", "1s", "delay-forwarded", "a8098c1a:billing:3:4:41"), CodeUnsupportedHeader, "delay-forwarded", "only duewheel"},
		{"expiry that cannot be read", headers("delay-for", "1s", "delay-expires", "soon"), CodeInvalidExpiry, "delay-expires", "an offset like"},
		{"expiry before it is due", headers("delay-until", "1767225605123", "delay-expires", "1767225605122"), CodeExpired, "delay-expires", "before it is due"},
		{"resolve with another header", headers("delay-resolve", "a8098c1a:billing:3:41:1:1:-1", "a", "b"), CodeUnsupportedHeader, "delay-resolve", "does not belong"},
		{"resolve of another group with another header", headers("delay-resolve", "a8098c1a:orders:3:41:1:1:-1", "a", "b"), CodeUnsupportedHeader, "delay-resolve", "does not belong"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parser(t, "p1").Parse(tt.headers, Stamp{Millis: T}, 42, ours)
			var r *Refusal
			if !errors.As(err, &r) {
				t.Fatalf("got %+v, %v, want a refusal", got, err)
			}
			if r.Code != tt.code || r.Header != tt.header || r.Stage != StageParse || !strings.Contains(r.Message, tt.message) {
				t.Errorf("got %s of %q in %s: %s\nwant %s of %q: … %s …", r.Code, r.Header, r.Stage, r.Message, tt.code, tt.header, tt.message)
			}
		})
	}
}

func TestFixedDelayNeedsNoHeaderAndTakesNone(t *testing.T) {
	p := parser(t, Spec(5*time.Minute))
	q, err := p.Parse(headers("a", "b", "delay-target-topic", "orders"), Stamp{Millis: T}, 42, ours)
	if err != nil || q.Due != T+300_000 || string(q.Target) != "orders" {
		t.Errorf("got %+v, %v", q, err)
	}
	for _, name := range []string{HeaderUntil, HeaderFor} {
		_, err := p.Parse(headers(name, "1767225605123"), Stamp{Millis: T}, 42, ours)
		var r *Refusal
		if !errors.As(err, &r) || r.Code != CodeUnsupportedHeader || r.Header != name || !strings.Contains(r.Message, "fixed by its route") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// A route may have been given its fixed delay after a retry was written.
	q, err = p.Parse(headers(HeaderFor, "1s", HeaderRetry, "a8098c1a:billing:3:41:1:1:1:1767225605123"), Stamp{Millis: T}, 42, ours)
	if err != nil || q.Due != T || !q.Retry {
		t.Errorf("retry: got %+v, %v", q, err)
	}
}

// Whatever the case of its letters, a name of ours is one: passed over, it would do something else
// than what was asked, as a target that is not the default one.
func TestNamesAreLowerCase(t *testing.T) {
	all := append([]string{HeaderDue, HeaderRetry, HeaderResolve, HeaderSeq, HeaderHops}, requestNames...)
	for _, name := range all {
		title := []byte(name)
		for i := range title {
			if i == 0 || title[i-1] == '-' {
				title[i] -= 'a' - 'A'
			}
		}
		for _, written := range []string{strings.ToUpper(name), string(title), "D" + name[1:], name[:len(name)-1] + strings.ToUpper(name[len(name)-1:])} {
			for _, spec := range []string{"p1", "p1+1000"} {
				hs := headers("delay-for", "1s", written, "1767225605123")
				if spec != "p1" {
					hs = hs[1:]
				}
				_, err := parser(t, spec).Parse(hs, Stamp{Millis: T}, 42, ours)
				var r *Refusal
				if !errors.As(err, &r) || r.Code != CodeUnsupportedHeader || r.Header != written || !strings.HasSuffix(r.Message, "lower case: write "+name) {
					t.Errorf("%s by %s: got %v", written, spec, err)
				}
			}
		}
	}
	for written, want := range map[string]string{
		"Delay-Untill": "did you mean delay-until?", "Delay-Everything-Else": "is unknown", "delay-fro": "did you mean delay-for?", "delay-idd": "did you mean delay-id?",
		"delay-by": "did you mean delay-for?", "delay-in": "did you mean delay-for?", "Delay-At": "did you mean delay-until?", "delay-on": "did you mean delay-until?", // not delay-id
		"delay-target": "did you mean delay-target-topic?", "delay-topic": "did you mean delay-target-topic?", "delay-key": "did you mean delay-target-key?",
		"delay-repeat":   "did you mean delay-every, which this version does not support yet?", // not delay-replace
		"delay-attempts": "did you mean delay-attempt?", "delay-retries": "did you mean delay-attempt?",
		"delay-xy": "is unknown",
	} {
		if _, err := parser(t, "p1").Parse(headers("delay-for", "1s", written, "x"), Stamp{Millis: T}, 42, ours); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v", written, err)
		}
	}
}

func TestDelayNeedsATimestamp(t *testing.T) {
	for _, base := range []int64{-1, -1 << 63, 1e14 + 1, 1<<63 - 1} {
		for _, spec := range []string{"p1", "p1+1000"} {
			hs := headers("delay-for", "P1M")
			if spec != "p1" {
				hs = nil
			}
			_, err := parser(t, spec).Parse(hs, Stamp{Millis: base}, 42, ours)
			var r *Refusal
			if !errors.As(err, &r) || r.Code != CodeDueOutOfRange {
				t.Errorf("%s at %d: got %v", spec, base, err)
			}
		}
	}
}

func TestSpec(t *testing.T) {
	for _, tt := range []struct {
		delay time.Duration
		want  string
	}{
		{0, "p1"},
		{-time.Second, "p1"},
		{5 * time.Minute, "p1+300000"},
		{1, "p1+1"},
		{1<<63 - 1, "p1+9223372036855"},
	} {
		if got := Spec(tt.delay); got != tt.want {
			t.Errorf("Spec(%v) = %q, want %q", tt.delay, got, tt.want)
		}
		if p := parser(t, tt.want); p.delay != max(ceilMillis(tt.delay), 0) {
			t.Errorf("ParserFor(%q) delays by %d ms", tt.want, p.delay)
		}
	}
	for _, bad := range []string{"", "p2", "p1+", "p1+0", "p1+-1", "p1+1s", "p1 ", "p1+99999999999999999"} {
		if p, err := ParserFor(bad); !errors.Is(err, ErrUnknownParser) {
			t.Errorf("ParserFor(%q) = %v, %v, want ErrUnknownParser", bad, p, err)
		}
	}
}

func TestRefusalOutlivesTheRecord(t *testing.T) {
	hs := headers("delay-until", "soon")
	_, err := parser(t, "p1").Parse(hs, Stamp{Millis: T}, 42, ours)
	copy(hs[0].Value, "gone")
	var r *Refusal
	if !errors.As(err, &r) || string(r.Value) != "soon" {
		t.Errorf("got %v with %q", err, r.Value)
	}
}

// A refused request has the handle that its producer knows, where its headers say when it is due.
func TestRefusalKnowsWhenItWasDue(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		headers    []kgo.RecordHeader
		want       int64
	}{
		{"expires before it is due", "p1", headers("delay-for", "5s", "delay-expires", "1767225606"), T + 5000},
		{"replaces what lies elsewhere", "p1", headers("delay-for", "5s", "delay-replace", "77-8-1767225605123"), T + 5000},
		{"an unknown header", "p1", headers("delay-for", "5s", "delay-foo", "1"), T + 5000},
		{"no partition", "p1", headers("delay-for", "5s", "delay-target-partition", "x"), T + 5000},
		{"a long id", "p1", headers("delay-for", "5s", "delay-id", strings.Repeat("x", 257)), T + 5000},
		{"by headers of another tool", "p1", headers("deliver-after", "5s", "delay-foo", "1"), T + 5000},
		{"what is not supported of another tool", "p1", headers("schedule_target_epoch", "1767225610", "schedule_target_partition_key", "k"), 1767225610000},
		{"nothing says when", "p1", headers("delay-foo", "1"), 0},
		{"what says when cannot be read", "p1", headers("delay-until", "soon"), 0},
		{"a cancel", "p1", headers("delay-for", "5s", "delay-cancel", strings.Repeat("x", 257)), 0},
		{"a fixed delay", "p1+1000", headers("delay-foo", "1"), 0},
		{"headers that contradict each other", "p1", headers("deliver-after", "5s", "ce_deliverafter", "6s"), 0},
	} {
		_, err := parser(t, tt.spec).Parse(tt.headers, Stamp{Millis: T}, 42, ours)
		var r *Refusal
		if !errors.As(err, &r) || r.Due != tt.want {
			t.Errorf("%s: got %v, due at %d, want %d", tt.name, err, r.Due, tt.want)
		}
	}
}

// What is refused asks for nothing, whatever the request held before.
func TestRefusedAsksForNothing(t *testing.T) {
	q := Request{Due: 1, ID: []byte("a")}
	if err := parser(t, "p1").ParseInto(&q, headers("delay-id", "b", "delay-target-topic", "orders", "delay-for", "x"), Stamp{Millis: T}, 42, &ours); err == nil {
		t.Fatal("it is not refused")
	}
	equal(t, q, Request{})
}

func TestRefusalKeepsLittle(t *testing.T) {
	_, err := parser(t, "p1").Parse(headers("delay-until", strings.Repeat("x", 1<<20)), Stamp{Millis: T}, 42, ours)
	var r *Refusal
	if !errors.As(err, &r) || len(r.Value) != 256 || len(r.Message) > 1000 {
		t.Errorf("value of %d bytes, message of %d", len(r.Value), len(r.Message))
	}
	_, err = parser(t, "p1").Parse(headers("delay-"+strings.Repeat("x", 1<<20), "1"), Stamp{Millis: T}, 42, ours)
	if !errors.As(err, &r) || len(r.Header) != 256 {
		t.Errorf("header of %d bytes", len(r.Header))
	}
}

// TestAgain: reading a request once more gives the same answer.
func TestAgain(t *testing.T) {
	for _, tt := range ordinary {
		p := parser(t, tt.spec)
		q, err := p.Parse(tt.headers, Stamp{Millis: T}, 42, ours)
		if err != nil {
			t.Fatal(err)
		}
		again, err := readAgain(p, tt.headers, Stamp{}, q.Due, 42, ours)
		if err != nil || !reflect.DeepEqual(again, q) {
			t.Errorf("%s: got %+v (%v), want %+v", tt.name, again, err, q)
		}
	}
}
