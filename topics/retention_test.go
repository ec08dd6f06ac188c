package topics

import (
	"strconv"
	"testing"
	"time"
)

// What a retention comes to is said in words: what is carried costs writes and bears half of the retention as downtime, and what is not carried is
// lost when it is older.
func TestRetentionSaysWhatItComesTo(t *testing.T) {
	const day = 24 * time.Hour
	no := false
	hourly := &Retrying{Backoff: Backoff{Initial: 10 * time.Second, Factor: 2, Max: time.Hour, Jitter: 0.2}}
	for _, tt := range []struct {
		name  string
		keep  time.Duration
		route Route
		want  string // without the severity, nothing is said
	}{
		{"all is kept", -time.Millisecond, Route{MaxDelay: 366 * day}, ""},
		{"a week, and delays of a month", 7 * day, Route{MaxDelay: 30 * day},
			"note: what is pending is carried when it is 84h old, and lost if duewheel does not run for as long; one that waits 30d (max_delay) is written about 8 times more"},
		{"delays without a bound", 7 * day, Route{},
			"note: what is pending is carried when it is 84h old, and lost if duewheel does not run for as long; one that waits 366d is written about 104 times more"},
		{"delays without a bound, and a longer retention", 1000 * day, Route{}, "note: a record that waits 366d is lost if duewheel does not run for 634d"},
		{"delays just above half of it", 7 * day, Route{MaxDelay: 85 * time.Hour},
			"note: what is pending is carried when it is 84h old, and lost if duewheel does not run for as long; one that waits 85h (max_delay) is written once more"},
		{"delays of half of it", 7 * day, Route{MaxDelay: 84 * time.Hour},
			"note: a record that waits 84h (max_delay) is lost if duewheel does not run for 84h"},
		{"short delays", 7 * day, Route{MaxDelay: day},
			"note: a record that waits 1d (max_delay) is lost if duewheel does not run for 6d"},
		{"delays that are short without their jitter", 7 * day, Route{MaxDelay: 80 * time.Hour, Jitter: 40 * time.Hour},
			"note: what is pending is carried when it is 84h old, and lost if duewheel does not run for as long; one that waits 5d (max_delay and jitter) is written once more"},
		{"a retry route, whose pauses are the longest that is waited", 7 * day, Route{MaxDelay: 366 * day, Retry: hourly},
			"note: a record that waits 1h12m (retry.backoff.max and its jitter) is lost if duewheel does not run for 166h48m"},
		{"a retry route with a short retention", 2 * time.Hour, Route{MaxDelay: 366 * day, Retry: hourly},
			"note: what is pending is carried when it is 1h old, and lost if duewheel does not run for as long; one that waits 1h12m (retry.backoff.max and its jitter) is written once more"},
		{"a retry route that is told not to carry", 7 * day, Route{MaxDelay: 366 * day, Retry: hourly, Carry: &no},
			"warning: a record that waits 1h12m is lost if duewheel does not run for 166h48m, since it is not carried"},
		{"just enough for a restart", 10 * time.Minute, Route{MaxDelay: time.Hour},
			"note: what is pending is carried when it is 5m old, and lost if duewheel does not run for as long; one that waits 1h (max_delay) is written about 12 times more"},
		{"hardly enough for a restart", 8 * time.Minute, Route{MaxDelay: time.Hour},
			"warning: what is pending is carried when it is 4m old, and lost if duewheel does not run for as long, so a restart must be quick; one that waits 1h (max_delay) is written about 15 times more"},
		{"hardly enough for a restart, and delays are shorter", 8 * time.Minute, Route{MaxDelay: time.Minute},
			"warning: a record that waits 1m (max_delay) is lost if duewheel does not run for 7m, so a restart must be quick"},
		{"a thousand times", 12 * time.Minute, Route{MaxDelay: 100 * time.Hour},
			"note: what is pending is carried when it is 6m old, and lost if duewheel does not run for as long; one that waits 100h (max_delay) is written about 1000 times more"},
		{"dear", 12 * time.Minute, Route{MaxDelay: 5 * day},
			"warning: what is pending is carried when it is 6m old, and lost if duewheel does not run for as long; one that waits 5d (max_delay) is written about 1200 times more, which is dear"},
		{"what is remembered, just", 2 * day, Route{MaxDelay: 30 * day, Remember: day},
			"error: ids are remembered for 1d (ids.remember), and what is remembered is not carried: it is lost unless the topic keeps it for longer than 2d"},
		{"what is remembered, shorter delays", 25 * time.Hour, Route{MaxDelay: time.Hour, Remember: day},
			"error: ids are remembered for 1d (ids.remember), and what is remembered is not carried: it is lost unless the topic keeps it for longer than 25h"},
		{"what is remembered, kept just so", 2*day + time.Millisecond, Route{MaxDelay: 30 * day, Remember: day},
			"note: what is pending is carried when it is 1d old, and lost if duewheel does not run for as long; one that waits 30d (max_delay) is written about 29 times more"},
		{"what is remembered, kept just so, shorter delays", 30 * time.Hour, Route{MaxDelay: time.Hour, Remember: day},
			"note: a record that waits 1h (max_delay) is lost if duewheel does not run for 29h"},
		{"what is remembered, kept", 4 * day, Route{MaxDelay: 30 * day, Remember: day},
			"note: what is pending is carried when it is 2d old, and lost if duewheel does not run for as long; one that waits 30d (max_delay) is written about 15 times more"},
		{"what is remembered, kept, shorter delays", 34 * time.Hour, Route{MaxDelay: time.Hour, Remember: day},
			"note: a record that waits 1h (max_delay) is lost if duewheel does not run for 33h"},
		{"told not to carry", 7 * day, Route{MaxDelay: 30 * day, Carry: &no},
			"error: a record may wait 30d (max_delay) and is not carried, so it is lost after 7d"},
		{"told not to carry, without a bound", 7 * day, Route{Carry: &no},
			"error: a record may wait longer than 7d and is not carried, so it is lost then"},
		{"told not to carry what is remembered", 30 * day, Route{MaxDelay: 29 * day, Remember: day, Carry: &no},
			"error: a record may wait 30d (max_delay and ids.remember) and is not carried, so it is lost after 30d"},
		{"told not to carry, and kept", 40 * day, Route{MaxDelay: 30 * day, Carry: &no},
			"warning: a record that waits 30d is lost if duewheel does not run for 10d, since it is not carried"},
		{"a fixed delay that is longer", 7 * day, Route{Delay: 7 * day, MaxDelay: 366 * day},
			"error: a record may wait 7d (delay) and is not carried, so it is lost after 7d"},
		{"a fixed delay that is shorter", 7 * day, Route{Delay: day, MaxDelay: 366 * day},
			"warning: a record that waits 1d is lost if duewheel does not run for 6d, since it is not carried"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := examination{}
			tt.route.Topic = "d"
			x.retention(&tt.route, facts{settings: map[string]string{"retention.ms": strconv.FormatInt(tt.keep.Milliseconds(), 10)}})
			got := ""
			for _, p := range x.problems {
				got += p.Severity.String() + ": " + p.Why
			}
			equal(t, got, tt.want)
		})
	}
}

// Retention goes by the timestamps of records, which are the producers' unless brokers give them.
func TestRetentionSaysWhoseTimestampsCount(t *testing.T) {
	for kind, want := range map[string]string{
		"":              "note: a record that waits 1d (max_delay) is lost if duewheel does not run for 6d",
		"LogAppendTime": "note: a record that waits 1d (max_delay) is lost if duewheel does not run for 6d",
		"CreateTime":    "note: a record that waits 1d (max_delay) is lost if duewheel does not run for 6d; what producers give an old timestamp is lost sooner, maybe at once (message.timestamp.type is CreateTime)",
	} {
		x := examination{}
		f := facts{settings: map[string]string{"retention.ms": "604800000", "message.timestamp.type": kind}}
		if kind == "" {
			delete(f.settings, "message.timestamp.type")
		}
		x.retention(&Route{Topic: "d", MaxDelay: 24 * time.Hour}, f)
		equal(t, x.problems[0].Severity.String()+": "+x.problems[0].Why, want)
	}
}

// With what a process carries in a second it is said how much it can carry before it is late.
func TestRetentionSaysHowMuchIsCarried(t *testing.T) {
	want := Expect{CarryRecords: 10_000}
	_, why := want.carried(&Route{}, 10*time.Minute)
	equal(t, why, "what is pending is carried when it is 5m old, and lost if duewheel does not run for as long; "+
		"one that waits 366d is written about 105408 times more, which is dear; each process carries up to 3000000 records in 5m (carry_records)")
}
