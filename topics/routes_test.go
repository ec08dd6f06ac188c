package topics

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// What contradicts itself is refused before it runs: each of these would dead-letter all that comes, or write the same records
// again and again.
func TestContradictions(t *testing.T) {
	day := 24 * time.Hour
	for _, tt := range []struct {
		name   string
		routes []Route
		want   []string
	}{
		{"dead letter topics that are each other's delay topics",
			[]Route{{Topic: "a", DeadLetter: "b", Target: "x"}, {Topic: "b", DeadLetter: "a", Target: "x"}},
			[]string{
				`route "a": dead_letter "b" is the delay topic of a route: what could not be delivered would be a request again`,
				`route "b": dead_letter "a" is the delay topic of a route: what could not be delivered would be a request again`,
			}},
		{"a dead letter topic that is a delay topic of another route",
			[]Route{{Topic: "a", DeadLetter: "b", Target: "x"}, {Topic: "b", DeadLetter: "b.dead", Target: "x"}},
			[]string{`route "a": dead_letter "b" is the delay topic of a route: what could not be delivered would be a request again`}},
		{"a dead letter topic that is its own delay topic",
			[]Route{{Topic: "a", DeadLetter: "a", Target: "x"}},
			[]string{`route "a": dead_letter "a" is the delay topic of a route: what could not be delivered would be a request again`}},
		{"a target that is the dead letter topic",
			[]Route{{Topic: "a", DeadLetter: "orders", Allow: []string{"orders"}}},
			[]string{`route "a": targets.allow has "orders", the dead letter topic of route "a": it cannot be a target as well`}},
		{"a fixed target that is the dead letter topic of another route",
			[]Route{{Topic: "a", DeadLetter: "a.dead", Target: "orders"}, {Topic: "b", DeadLetter: "orders", Target: "x"}},
			[]string{`route "a": target is "orders", the dead letter topic of route "b": it cannot be a target as well`}},
		{"delay topics that deliver into each other",
			[]Route{{Topic: "a", DeadLetter: "a.dead", Target: "b"}, {Topic: "b", DeadLetter: "b.dead", Allow: []string{"a", "b"}}},
			[]string{
				`route "a": target is "b", the delay topic of route "b": it cannot be a target as well`,
				`route "b": targets.allow has "a", the delay topic of route "a": it cannot be a target as well`,
				`route "b": targets.allow has "b", the delay topic of route "b": it cannot be a target as well`,
			}},
		{"internal topics",
			[]Route{{Topic: "__delays", DeadLetter: "__dead", Target: "__consumer_offsets", Allow: []string{"__transaction_state", "__*"}}},
			[]string{
				`route "__delays": topic "__delays" is an internal one: names that begin with __ are Kafka's own`,
				`route "__delays": dead_letter "__dead" is an internal one: names that begin with __ are Kafka's own`,
				`route "__delays": target is "__consumer_offsets", an internal topic: names that begin with __ are Kafka's own`,
				`route "__delays": targets.allow has "__transaction_state", an internal topic: names that begin with __ are Kafka's own`,
				`route "__delays": targets.allow has "__*", an internal topic: names that begin with __ are Kafka's own`,
			}},
		{"times that are no whole milliseconds",
			[]Route{
				{Topic: "a", DeadLetter: "a.dead", Target: "x", Delay: time.Microsecond},
				{Topic: "b", DeadLetter: "b.dead", Target: "x", Jitter: time.Microsecond, ExpireAfter: 1500 * time.Microsecond, Remember: time.Hour + 1},
				{Topic: "c", DeadLetter: "c.dead", Target: "x", Retry: &Retrying{MaxAttempts: 1, Backoff: Backoff{Initial: 10*time.Second + 1, Factor: 1.0004, Max: time.Hour + time.Microsecond, Jitter: 0.0004}}},
				{Topic: "d", DeadLetter: "d.dead", Target: "x", Retry: &Retrying{MaxAttempts: 1, Backoff: Backoff{Initial: time.Millisecond, Factor: 1.001, Max: time.Hour, Jitter: 0.333}}},
			},
			[]string{
				`route "a": delay 1µs is no whole number of milliseconds: write 1ms`,
				`route "b": jitter 1µs is no whole number of milliseconds: write 1ms`,
				`route "b": expire_after 1.5ms is no whole number of milliseconds: write 2ms`,
				`route "b": ids.remember 1h0m0.000000001s is no whole number of milliseconds: write 1h0m0.001s`,
				`route "c": retry.backoff.initial 10.000000001s is no whole number of milliseconds: write 10.001s`,
				`route "c": retry.backoff.max 1h0m0.000001s is no whole number of milliseconds: write 1h0m0.001s`,
				`route "c": retry.backoff.factor 1.0004 has more than three decimals, and only so many count`,
				`route "c": retry.backoff.jitter 0.0004 has more than three decimals, and only so many count`,
			}},
		{"a delay that is longer than any may be",
			[]Route{{Topic: "a", DeadLetter: "a.dead", Target: "x", Delay: 400 * day, MaxDelay: 366 * day}},
			[]string{`route "a": delay 400d is above max_delay 366d: raise that, if so long a delay is meant`}},
		{"a delay in the other unit",
			[]Route{{Topic: "a", DeadLetter: "a.dead", Target: "x", Delay: 90*time.Minute + time.Millisecond, MaxDelay: 90 * time.Minute}},
			[]string{`route "a": delay 1h30m0.001s is above max_delay 1h30m: raise that, if so long a delay is meant`}},
		{"a jitter that is longer than any delay may be",
			[]Route{{Topic: "a", DeadLetter: "a.dead", Target: "x", Jitter: time.Hour + time.Millisecond, MaxDelay: time.Hour}, {Topic: "b", DeadLetter: "b.dead", Target: "x", Jitter: time.Hour, MaxDelay: time.Hour}},
			[]string{`route "a": jitter 1h0m0.001s is above max_delay 1h: a record could wait longer for that than for what it asks`}},
		{"one delay topic twice",
			[]Route{{Topic: "a", DeadLetter: "a.dead", Target: "x"}, {Topic: "a", DeadLetter: "a.dead", Target: "y"}},
			[]string{`route "a" is given twice`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewRoutes(tt.routes...)
			if err == nil {
				t.Fatal("it was taken")
			}
			if got, want := err.Error(), strings.Join(tt.want, "\n"); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// What looks alike and is sound.
func TestNoContradictions(t *testing.T) {
	for name, routes := range map[string][]Route{
		"a pattern reaches no dead letter topic": {{Topic: "orders", DeadLetter: "orders.dead", Allow: []string{"orders.*"}}},
		"one dead letter topic for all":          {{Topic: "a", DeadLetter: "dead", Target: "x"}, {Topic: "b", DeadLetter: "dead", Target: "x"}},
		"a delay as long as may be":              {{Topic: "a", DeadLetter: "dead", Target: "x", Delay: time.Hour, MaxDelay: time.Hour}},
		"no bound":                               {{Topic: "a", DeadLetter: "dead", Target: "x", Delay: 1000 * time.Hour}},
		"one underscore":                         {{Topic: "_a", DeadLetter: "_dead", Target: "_x"}},
	} {
		got, err := NewRoutes(routes...)
		if err != nil || len(got) != len(routes) {
			t.Errorf("%s: got %d routes, %v", name, len(got), err)
		}
	}
}

func TestNewRoutesReportsEveryProblem(t *testing.T) {
	_, err := NewRoutes(Route{Topic: "a b", DeadLetter: "", Delay: -1, MaxDelay: -1, Allow: []string{"x y", ""}, Target: "p/q"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{
		`topic "a b" is not a topic name: 1 to 249 of a-z A-Z 0-9 . _ -, and neither . nor ..`,
		`dead_letter "" is not a topic name`, "delay -1ns", "max_delay -1ns", `"x y"`, `has ""`, `target "p/q"`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in:\n%v", part, err)
		}
	}
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) || len(all.Unwrap()) != 7 {
		t.Errorf("not one error each: %v", err)
	}
}
