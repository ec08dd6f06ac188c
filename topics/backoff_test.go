package topics

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestBackoff(t *testing.T) {
	b := Backoff{Initial: 10 * time.Second, Factor: 2, Max: time.Hour}.whole()
	for rounds, want := range []int64{10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 640_000, 1_280_000, 2_560_000, 3_600_000, 3_600_000} {
		equal(t, b.pause(rounds, 7), want)
	}
	equal(t, b.pause(mostRounds, 7), int64(3_600_000))
	equal(t, Backoff{Initial: time.Second, Factor: 1, Max: time.Hour}.whole().pause(mostRounds, 0), int64(1000))
	equal(t, Backoff{Initial: time.Millisecond, Factor: 1.5, Max: time.Hour}.whole().pause(3, 0), int64(4))        // 1.5 in whole ms is no more than 1, and it grows all the same
	equal(t, Backoff{Initial: 1500 * time.Microsecond, Factor: 1.5, Max: time.Hour}.whole().pause(3, 0), int64(6)) // 2, 3, 4.5 and 6.75 in whole ms

	b.jitter = 200
	least, most, seen := int64(1<<60), int64(0), map[int64]bool{}
	for offset := range int64(10_000) {
		n := b.pause(0, offset)
		least, most, seen[n] = min(least, n), max(most, n), true
		if n != b.pause(0, offset) {
			t.Fatal("the same record waits for another time")
		}
	}
	if least < 8000 || least > 8010 || most > 12_000 || most < 11_990 || len(seen) < 3000 {
		t.Errorf("%d pauses of %d to %d", len(seen), least, most)
	}
	short := Backoff{Initial: 500 * time.Millisecond, Factor: 2, Max: time.Hour, Jitter: 0.2}.whole()
	least, most = 1<<60, 0
	for offset := range int64(1000) {
		n := short.pause(0, offset)
		least, most = min(least, n), max(most, n)
	}
	if least != 400 || most != 600 { // what is below a second is spread, too
		t.Errorf("half a second is %d to %d ms", least, most)
	}
	if n := (backoff{initial: 1, factor: 1000, max: 1, jitter: 1000}).pause(0, 3); n < 1 {
		t.Errorf("a pause of %d", n)
	}
	for _, b := range []backoff{b, short, {initial: 1, factor: 1000, max: 1, jitter: 1000}, {initial: 7, factor: 1500, max: 3000, jitter: 0}} {
		for rounds := range 12 {
			least, most := b.bounds(rounds)
			for offset := range int64(500) {
				if n := b.pause(rounds, offset); n < least || n > most {
					t.Fatalf("%+v: after %d rounds a pause of %d, which is not %d to %d", b, rounds, n, least, most)
				}
			}
		}
	}
	least, _ = (backoff{initial: 1, factor: 1000, max: 1, jitter: 1000}).bounds(0)
	equal(t, least, int64(1))
	equal(t, Backoff{Initial: time.Second, Factor: 1.001, Max: time.Hour, Jitter: 0.57}.whole(), backoff{initial: 1000, factor: 1001, max: 3_600_000, jitter: 570})
	longest := backoff{initial: maxDelayMillis/2 - 1, factor: maxFactor, max: maxDelayMillis / 2, jitter: 1000}
	equal(t, len(longest.faults()), 0)
	least, most = longest.bounds(1)
	equal(t, [2]int64{least, most}, [2]int64{1, maxDelayMillis - 1})
	least, most = b.bounds(1)
	equal(t, [2]int64{least, most}, [2]int64{16_000, 24_000})
	// What r1 says of a record it says for ever.
	for rounds, want := range map[int]int64{0: 9520, 1: 22_087, 2: 35_590, 12: 4_189_096, 13: 4_122_112} {
		equal(t, b.pause(rounds, 7), want)
	}
}

// The spec of a parser is all that it knows: a checkpoint keeps it.
func TestBackoffSpec(t *testing.T) {
	r := Route{Retry: &Retrying{Backoff: Backoff{Initial: 10 * time.Second, Factor: 1.5, Max: time.Hour, Jitter: 0.2}}}
	equal(t, r.Spec(), "r1+10000+1500+3600000+200")
	equal(t, parser(t, r.Spec()).backoff, r.Retry.Backoff.whole())
	if FixedDelay(r.Spec()) {
		t.Error("it is taken for a fixed delay")
	}
	even := Route{Retry: &Retrying{Backoff: Backoff{Initial: time.Hour, Factor: 2, Max: time.Hour}}} // one pause may be all that there is
	equal(t, parser(t, even.Spec()).backoff, even.Retry.Backoff.whole())
	for _, bad := range []string{"r1", "r1+", "r1+10000+1500+3600000", "r1+10000+1500+3600000+200+1", "r1+0+1500+3600000+200", "r1+10000+999+3600000+200", "r1+10000+1500+9999+200",
		"r1+10000+1500+3600000+1001", "r1+010000+1500+3600000+200", "r1+10000+1500+9223372036854+200", "r1+-1+1500+3600000+200"} {
		if _, err := ParserFor(bad); !errors.Is(err, ErrUnknownParser) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A record of a retry route waits from when it came, whatever it has brought along, and goes back to where it was.
func TestRetryRoute(t *testing.T) {
	r := route(t, Route{Allow: []string{"orders", "bills"}, Retry: &Retrying{Backoff: Backoff{Initial: time.Second, Factor: 2, Max: time.Hour}, MaxAttempts: 3, FromHeaders: true}})
	byBroker, byProducer := Stamp{Millis: T, ByBroker: true}, Stamp{Millis: 5}
	inherited := headers("delay-until", "soon", "delay-for", "1s", "delay-expires", "1")
	for _, tt := range []struct {
		name    string
		headers []kgo.RecordHeader
		written Stamp
		want    Request
	}{
		{"Connect", headers("__connect.errors.topic", "orders"), byBroker, Request{Due: T + 1000, Target: []byte("orders"), TargetBy: "__connect.errors.topic"}},
		{"Connect for the second time", headers("__connect.errors.topic", "bills", "__connect.errors.topic", "orders", "delay-attempt", "1"), byBroker, Request{Due: T + 2000, Target: []byte("orders"), TargetBy: "__connect.errors.topic", Round: 1}},
		{"Spring", headers("kafka_dlt-original-topic", "orders"), byBroker, Request{Due: T + 1000, Target: []byte("orders"), TargetBy: "kafka_dlt-original-topic"}},
		{"Streams", headers("__streams.errors.topic", "orders"), byBroker, Request{Due: T + 1000, Target: []byte("orders"), TargetBy: "__streams.errors.topic"}},
		{"share group", headers("__dlq.errors.topic", "orders"), byBroker, Request{Due: T + 1000, Target: []byte("orders"), TargetBy: "__dlq.errors.topic"}},
		{"said by itself", headers("delay-target-topic", "bills", "__connect.errors.topic", "orders"), byBroker, Request{Due: T + 1000, Target: []byte("bills"), TargetBy: "delay-target-topic"}},
		{"an empty header is as good as absent", headers("delay-target-topic", "", "__connect.errors.topic", "orders"), byBroker, Request{Due: T + 1000, Target: []byte("orders"), TargetBy: "__connect.errors.topic"}},
		{"inherited times", append(inherited, headers("__connect.errors.topic", "orders")...), byBroker, Request{Due: T + 1000, Target: []byte("orders"), TargetBy: "__connect.errors.topic"}},
		{"an inherited id", headers("delay-id", "reminder-17", "__connect.errors.topic", "orders"), byBroker, Request{Due: T + 1000, Target: []byte("orders"), TargetBy: "__connect.errors.topic"}},
		{"an inherited id that is none", headers("delay-id", strings.Repeat("x", 257), "__connect.errors.topic", "orders"), byBroker, Request{Due: T + 1000, Target: []byte("orders"), TargetBy: "__connect.errors.topic"}},
		{"it is not known when it came", headers("__connect.errors.topic", "orders", "delay-attempt", " 2 "), byProducer, Request{Due: 1, AtOnce: true, Pause: 4000, Target: []byte("orders"), TargetBy: "__connect.errors.topic", Round: 2}},
		{"as often as may be", headers("__connect.errors.topic", "orders", "delay-attempt", "1000000"), byBroker, Request{Due: T + 3_600_000, Target: []byte("orders"), TargetBy: "__connect.errors.topic", Round: 1_000_000}},
		{"appended by us", headers("__connect.errors.topic", "orders", "delay-attempt", "2", "delay-retry", "a8098c1a:billing:3:7:1:1767225605123:0:1767225605123:+!"), byProducer,
			Request{Due: T, Retry: true, ByBackoff: true, Origin: Origin{7, 1, T}, Target: []byte("orders"), TargetBy: "__connect.errors.topic", Round: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q, err := r.Parser().Parse(tt.headers, tt.written, 42, ours)
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Partition = -1
			equal(t, q, tt.want)
			again, err := readAgain(r.Parser(), tt.headers, Stamp{}, q.Due, 42, ours)
			if equal(t, again, q); err != nil {
				t.Error(err)
			}
		})
	}
	for _, tt := range []struct {
		headers []kgo.RecordHeader
		code    Code
	}{
		{headers("__connect.errors.topic", "orders", "delay-attempt", "-1"), CodeInvalidAttempt},
		{headers("__connect.errors.topic", "orders", "delay-attempt", "1000001"), CodeInvalidAttempt},
		{headers("__connect.errors.topic", "orders", "delay-attempt", "x"), CodeInvalidAttempt},
	} {
		_, err := r.Parser().Parse(tt.headers, byBroker, 42, ours)
		var got *Refusal
		if !errors.As(err, &got) || got.Code != tt.code {
			t.Errorf("%s: %v, want %s", show(tt.headers), err, tt.code)
		}
	}
	for _, tt := range []struct {
		q    Request
		code Code
	}{
		{Request{Target: []byte("orders"), Round: 2}, ""},
		{Request{Target: []byte("orders"), Round: 3}, CodeExhausted},
		{Request{Target: []byte("orders"), Round: 3, Retry: true}, ""}, // accepted before the setting was changed
		{Request{Target: []byte("payments"), TargetBy: "__connect.errors.topic", Round: 2}, CodeTargetNotAllowed},
		{Request{Target: []byte("payments"), TargetBy: "__connect.errors.topic", Round: 3}, CodeExhausted}, // else it could be carried on, and delivered once more
		{Request{Target: []byte("or ders"), TargetBy: "__connect.errors.topic"}, CodeInvalidTarget},
		{Request{}, CodeNoTarget},
	} {
		switch got := r.Refuse(&tt.q, T); {
		case got == nil && tt.code != "", got != nil && got.Code != tt.code:
			t.Errorf("%+v: %v, want %q", tt.q, got, tt.code)
		case got != nil && tt.code == CodeNoTarget && !strings.Contains(got.Message, "__connect.errors.topic"):
			t.Errorf("it does not say which headers: %s", got.Message)
		case tt.code == CodeExhausted && got.Header == HeaderAttempt && string(got.Value) == "3":
			equal(t, got.Message, "it was delivered 4 times and failed each time") // three times by the route, and once before
		case got != nil && got.Header != tt.q.TargetBy:
			t.Errorf("it blames %q, want %q", got.Header, tt.q.TargetBy)
		}
	}
}

// What goes back loses what others said of the failure, and has its number.
func TestDeliveredOfRetryRoute(t *testing.T) {
	in := headers("a", "b", "__connect.errors.topic", "orders", "kafka_dlt-exception-fqcn", "x", "delay-attempt", "1", "delay-id", "reminder-17", "c", "")
	for _, emit := range []Emit{EmitNone, EmitSource} {
		d := Delivered{Topic: "t", Partition: 1, Origin: Origin{Offset: 7, Due: T}, Attempt: 3, Round: 2, Emit: emit, Strip: ErrorHeaders}
		hs, _ := AppendDelivered(nil, in, &d, nil)
		want := "a=b\nc=\ndelay-attempt=2\n"
		if emit == EmitSource {
			want += "delay-due=1767225605123\ndelay-source=t/1/7\ndelay-tries=3\n"
		}
		equal(t, show(hs), want)
	}
}

// The longest pause is within what a record may be ahead.
func TestBackoffWithinMaxDelay(t *testing.T) {
	for most, good := range map[time.Duration]bool{71 * time.Minute: false, 72 * time.Minute: true} {
		_, err := NewRoutes(Route{Topic: "t", DeadLetter: "t.dead", Target: "orders", MaxDelay: most,
			Retry: &Retrying{Backoff: Backoff{Initial: time.Second, Factor: 2, Max: time.Hour, Jitter: 0.2}, MaxAttempts: 1}})
		if (err == nil) != good {
			t.Errorf("max_delay %v: %v", most, err)
		}
	}
}

// Create makes retry topics as Check wants them, and Check tells what makes a loop leak.
func TestTopicsOfRetryRoute(t *testing.T) {
	adm, _ := admin(t, 1)
	retrying := Route{Topic: "orders.retry", DeadLetter: "orders.retry.dead", Allow: []string{"orders"}, Retry: &Retrying{
		Backoff: Backoff{Initial: time.Second, Factor: 2, Max: time.Hour}, MaxAttempts: 3, FromHeaders: true, Parking: "orders.parked",
	}}
	want := expect(t, retrying)
	if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	made, err := Create(t.Context(), adm, want)
	if err != nil || len(made) != 3 || made[0].Configs["message.timestamp.type"] != "LogAppendTime" || made[1].Configs["message.timestamp.type"] != "" {
		t.Fatalf("made %+v, %v", made, err)
	}
	check(t, adm, want)

	retrying.Topic = "made.by.connect"
	createTime := "CreateTime"
	forever := "-1"
	if _, err := adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"message.timestamp.type": &createTime, "retention.ms": &forever, "unclean.leader.election.enable": nil}, retrying.Topic); err != nil {
		t.Fatal(err)
	}
	check(t, adm, expect(t, retrying),
		`warning made.by.connect: message.timestamp.type is CreateTime`,
		`warning made.by.connect: it has 1 partition`,
		`warning made.by.connect: max.message.bytes is 1048588, and 1048588 of the target orders`)
}

// A jitter follows from the place of a record, so a replay finds the same, and a handle has the time that was asked for.
func TestJitter(t *testing.T) {
	r := route(t, Route{Target: "orders", Jitter: 5 * time.Minute})
	equal(t, r.Spec(), "p1~300000")
	p := parser(t, r.Spec())
	least, most, seen := int64(1<<60), int64(-1), map[int64]bool{}
	for offset := range int64(20_000) {
		q, err := p.Parse(headers("delay-until", "1767225605123"), Stamp{Millis: T}, offset, ours)
		if err != nil {
			t.Fatal(err)
		}
		n := q.Due - T
		if n != p.Jitter(ours, offset) {
			t.Fatalf("offset %d is due %d later, and its jitter is %d", offset, n, p.Jitter(ours, offset))
		}
		least, most, seen[n] = min(least, n), max(most, n), true
	}
	if q, err := p.Parse(headers("delay-until", "99999999999999"), Stamp{Millis: T}, 42, ours); err != nil || q.Due != maxDueMillis {
		t.Errorf("the last instant that there is has become %d, %v", q.Due, err)
	}
	if least < 0 || least > 100 || most > 300_000 || most < 299_900 || len(seen) < 19_000 {
		t.Errorf("%d times from %d to %d", len(seen), least, most)
	}
	for _, other := range []Mark{NewMark(otherID, "billing", 3), NewMark(ourID, "billing", 4)} {
		if p.Jitter(other, 7) == p.Jitter(ours, 7) {
			t.Error("another topic or partition has the same")
		}
	}
	equal(t, p.Jitter(NewMark(ourID, "orders", 3), 7), p.Jitter(ours, 7))
	retry := headers("delay-until", "1", "delay-retry", "a8098c1a:billing:3:7:1:1:1:1767225605123")
	if q, err := p.Parse(retry, Stamp{Millis: T}, 42, ours); err != nil || q.Due != T {
		t.Errorf("what is tried again is due at %d, %v", q.Due, err)
	}
	for _, bad := range []string{"p1~", "p1~0", "p1~01", "p1~-1", "p1~x"} {
		if _, err := ParserFor(bad); !errors.Is(err, ErrUnknownParser) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
