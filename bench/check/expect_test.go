package check

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestExpect(t *testing.T) {
	const at = 1_767_225_605_123 // now
	to := "delay-target-topic=orders"
	long := strings.Repeat("x", 20_000)
	tests := []struct {
		name    string
		route   func(r *Route)
		value   string
		headers []string
		want    Expectation // key and target are filled in for what is delivered
	}{
		{name: "milliseconds", headers: []string{"delay-until=1767225700001", to}, want: Expectation{Due: 1767225700001}},
		{name: "seconds", headers: []string{"delay-until=1767225700", to}, want: Expectation{Due: 1767225700000}},
		{name: "microseconds round up", headers: []string{"delay-until=1767225700000001", to}, want: Expectation{Due: 1767225700001}},
		{name: "nanoseconds round up", headers: []string{"delay-until=1767225700000000001", to}, want: Expectation{Due: 1767225700001}},
		{name: "RFC 3339", headers: []string{"delay-until=2026-01-01T01:00:05.123+01:00", to}, want: Expectation{Due: at}},
		{name: "RFC 3339 rounds up", headers: []string{"delay-until=2026-01-01T00:00:05.123000001Z", to}, want: Expectation{Due: at + 1}},
		{name: "a delay in milliseconds", headers: []string{"delay-for=1500", to}, want: Expectation{Due: at + 1500}},
		{name: "a delay of Go", headers: []string{"delay-for=1m30s", to}, want: Expectation{Due: at + 90_000}},
		{name: "a delay of Go rounds up", headers: []string{"delay-for=1us", to}, want: Expectation{Due: at + 1}},
		{name: "a delay of ISO 8601", headers: []string{"delay-for=PT1M30S", to}, want: Expectation{Due: at + 90_000}},
		{name: "a negative delay is due at once", headers: []string{"delay-for=-5m", to}, want: Expectation{Due: at}},
		{name: "until wins over for", headers: []string{"delay-until=1767225700001", "delay-for=1", to}, want: Expectation{Due: 1767225700001}},
		{name: "the last header wins", headers: []string{"delay-for=1", "delay-for=2", to}, want: Expectation{Due: at + 2}},
		{name: "eight bytes", headers: []string{"delay-until=" + eightBytes(1767225700001), to}, want: Expectation{Due: 1767225700001}},
		{name: "an empty header is absent", headers: []string{"delay-until=", "delay-for=1", "delay-id=", to}, want: Expectation{Due: at + 1}},
		{name: "what only a processor writes means nothing", headers: []string{"delay-for=1", to, "delay-due=7", "delay-source=x"}, want: Expectation{Due: at + 1}},
		{name: "a partition", headers: []string{"delay-for=1", "delay-target-topic=bills.de", "delay-target-partition=3"}, want: Expectation{Due: at + 1, Target: "bills.de", Partition: 3}},
		{name: "a partition that is not there", headers: []string{"delay-for=1", "delay-target-topic=bills.de", "delay-target-partition=4"}, want: Expectation{Codes: InvalidPartition}},
		{name: "another key", headers: []string{"delay-for=1", to, "delay-target-key=K"}, want: Expectation{Due: at + 1, Key: []byte("K")}},

		{name: "no due time", headers: []string{to}, want: Expectation{Codes: NoDue}},
		{name: "a due time that is none", headers: []string{"delay-until=soon", to}, want: Expectation{Codes: UnparsableDue | DueOutOfRange}},
		{name: "days", headers: []string{"delay-until=20454", to}, want: Expectation{Codes: UnparsableDue | DueOutOfRange}},
		{name: "no target", headers: []string{"delay-for=1"}, want: Expectation{Codes: NoTarget}},
		{name: "an id that is as long as may be", headers: []string{"delay-for=1", to, "delay-id=" + strings.Repeat("x", 256)}, want: Expectation{Outcome: Either, Due: at + 1, Codes: DuplicateID}},
		{name: "an id that is longer", headers: []string{"delay-for=1", to, "delay-id=" + strings.Repeat("x", 257)}, want: Expectation{Codes: InvalidID}},
		{name: "no topic name", headers: []string{"delay-for=1", "delay-target-topic=a b"}, want: Expectation{Codes: InvalidTarget}},
		{name: "a target that is not allowed", headers: []string{"delay-for=1", "delay-target-topic=other"}, want: Expectation{Codes: TargetNotAllowed}},
		{name: "a delay topic", route: func(r *Route) { r.Allow = []string{"*"} }, headers: []string{"delay-for=1", "delay-target-topic=requests"}, want: Expectation{Codes: TargetNotAllowed}},
		{name: "an internal topic", route: func(r *Route) { r.Allow = []string{"*"} }, headers: []string{"delay-for=1", "delay-target-topic=__consumer_offsets"}, want: Expectation{Codes: TargetNotAllowed}},
		{name: "a target that is not there", headers: []string{"delay-for=1", "delay-target-topic=bills.fr"}, want: Expectation{Codes: UnknownTarget}},
		{name: "too large", value: long, headers: []string{"delay-for=1", to}, want: Expectation{Codes: TooLarge}},
		{name: "perhaps too large", value: long[:9_800], headers: []string{"delay-for=1", to}, want: Expectation{Outcome: Either, Due: at + 1, Codes: TooLarge}},
		{name: "too far ahead", headers: []string{"delay-for=9000h", to}, want: Expectation{Codes: TooFarAhead}},
		{name: "perhaps too far ahead", headers: []string{"delay-for=8784h30m", to}, want: Expectation{Outcome: Either, Due: at + 8784*3_600_000 + 1_800_000, Codes: TooFarAhead}},
		{name: "a header that is not supported", headers: []string{"delay-for=1", to, "delay-every=1"}, want: Expectation{Codes: UnsupportedHeader}},
		{name: "a header that is misspelt", headers: []string{"delay-for=1", to, "delay-fro=1"}, want: Expectation{Codes: UnsupportedHeader}},
		{name: "bad in two ways", headers: []string{"delay-every=1", to}, want: Expectation{Codes: UnsupportedHeader | NoDue}},

		{name: "etf1's headers", headers: []string{"scheduler-epoch=1767225700", "scheduler-target-topic=orders", "scheduler-target-key=K"}, want: Expectation{Due: 1767225700_000, Key: []byte("K")}},
		{name: "Karafka's headers", headers: []string{"schedule_schema_version=1", "schedule_target_epoch=1767225700", "schedule_target_topic=orders"}, want: Expectation{Due: 1767225700_000}},
		{name: "CloudEvents' headers", route: func(r *Route) { r.Target = "orders" }, headers: []string{"ce_deliverafter=5"}, want: Expectation{Due: at + 5}},
		{name: "a plain header", route: func(r *Route) { r.Target = "orders" }, headers: []string{"x-delay=5"}, want: Expectation{Due: at + 5}},
		{name: "a plain header beside one of ours", headers: []string{"x-delay=5", to}, want: Expectation{Codes: NoDue}},
		{name: "the route's target", route: func(r *Route) { r.Target = "orders" }, headers: []string{"delay-for=1"}, want: Expectation{Due: at + 1}},
		{name: "the route's delay", route: func(r *Route) { r.Delay = time.Minute }, headers: []string{to}, want: Expectation{Due: at + 60_000}},
		{name: "a due time where the route has one", route: func(r *Route) { r.Delay = time.Minute }, headers: []string{"delay-for=1", to}, want: Expectation{Codes: UnsupportedHeader}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			if tt.route != nil {
				tt.route(&w.config.Routes[0])
			}
			q := w.request("k", tt.value, tt.headers...)
			got, want := newChecker(t, w.config).Expect(q), tt.want
			if want.Outcome == 0 {
				want.Outcome = Deliver
				if want.Codes != 0 {
					want.Outcome = DeadLetter
				}
			}
			if got.Outcome != want.Outcome || got.Codes != want.Codes {
				t.Fatalf("outcome %d with code %s, want %d with %s", got.Outcome, got.Codes, want.Outcome, want.Codes)
			}
			if want.Outcome == DeadLetter {
				return
			}
			if want.Key == nil {
				want.Key = q.Key
			}
			if want.Target == "" {
				want.Target, want.Partition = "orders", -1
			}
			if got.Due != want.Due || got.Target != want.Target || got.Partition != want.Partition || string(got.Key) != string(want.Key) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func eightBytes(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

// TestExpectFunction: a test may say itself what must become of a request.
func TestExpectFunction(t *testing.T) {
	w := newWorld()
	w.config.Routes[0].Expect = func(r *kgo.Record) Expectation {
		if r.Key == nil {
			return Expectation{Outcome: Ignore}
		}
		return Expectation{Outcome: Deliver, Due: due.UnixMilli(), Target: "orders", Key: r.Key, Partition: -1}
	}
	q, ignored := w.request("k", "in some other form"), w.request("", "not a request")
	ignored.Key = nil
	c := newChecker(t, w.config)
	feed(c, q, ignored, w.deliver(q, due))
	expectFaults(t, c, nil, "requested 1 ")
}

func TestMatch(t *testing.T) {
	for pattern, names := range map[string]map[string]bool{
		"orders": {"orders": true, "orders.de": false},
		"b.*":    {"b.": true, "b.de": true, "b": false, "a.b.c": false},
		"*.de":   {"a.de": true, ".de": true, "a.de.b": false},
		"a*b*c":  {"abc": true, "axbxbxc": true, "acb": false},
		"*":      {"": true, "a": true},
	} {
		for name, want := range names {
			if got := match(pattern, name); got != want {
				t.Errorf("match(%q, %q) = %v", pattern, name, got)
			}
		}
	}
}

// TestConfig: every problem is reported.
func TestConfig(t *testing.T) {
	_, err := New(Config{Routes: []Route{{Topic: "a"}, {Topic: "a"}, {Topic: "b", DeadLetter: "c"}}, Targets: []Target{{Topic: "b"}, {Topic: "c"}}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`"a" named twice`, `"b" is both`, `"c" is both`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %s", err, want)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("no routes: no error")
	}
}
