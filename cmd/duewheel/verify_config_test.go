package main

import (
	"reflect"
	"testing"
	"time"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// What flags and settings say reaches the judgement: each has an effect of its own.
func TestVerifyTakesFlagsAndSettings(t *testing.T) {
	var f flags
	cmd := newVerifyCommand(&f)
	flags := map[string]string{"from": "3h", "to": "1h", "grace": "2m", "late": "4s", "cancels-within": "6m", "show": "7", "memory": "64MiB", "all-targets": "true"}
	for name, v := range flags {
		if err := cmd.Flags().Set(name, v); err != nil {
			t.Fatal(err)
		}
	}
	value := func(name string) string { return cmd.Flags().Lookup(name).Value.String() }
	o := verifying{from: value("from"), to: value("to"), show: 7, memory: value("memory"), allTargets: true, output: "text", grace: 2 * time.Minute, late: 4 * time.Second, heard: 6 * time.Minute, every: time.Second}
	s := settings{}
	s.Group, s.Guarantee, s.MaxClockSkew = "g", processor.AtLeastOnce, 5*time.Second
	s.Routes = []routeSettings{{Route: topics.Route{Topic: "delays", Target: "orders"}}}
	got, err := o.config(cmd, s, lookNow)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Routes) != 1 || got.Routes[0].Topic != "delays" {
		t.Errorf("routes are %+v", got.Routes)
	}
	if !got.AtLeastOnce || got.Skew != 5*time.Second || got.Grace != 2*time.Minute || got.Late != 4*time.Second || got.InTime != 6*time.Minute || got.Keep != 7 || got.Memory != 64<<20 ||
		!got.AllTargets || got.Group != "g" || !got.From.Equal(lookNow.Add(-3*time.Hour)) || !got.To.Equal(lookNow.Add(-time.Hour)) {
		t.Errorf("%+v", got)
	}
}

// What a route promises is what is judged: no setting of a route that verify knows of is left out.
func TestVerifyKnowsWhatARoutePromises(t *testing.T) {
	r := &topics.Route{
		Topic: "delays", Target: "orders", Delay: time.Second, Allow: []string{"bills"}, MaxDelay: time.Hour, DeadLetter: "dead", Emit: topics.EmitAll, Timestamp: topics.TimestampDue, Prefix: "x-",
		Aliases: []string{"plain"}, Jitter: 2 * time.Second, ExpireAfter: time.Minute, CancelsAnswered: true, ReplacesLate: true, Keyed: true, Remember: 3 * time.Second,
		Partitioner: topics.PartitionerCRC32, OnDuplicate: topics.DuplicateIgnored,
		Retry: &topics.Retrying{FromHeaders: true, MaxAttempts: 5, Parking: "parked", Strip: []string{"a*"}, Backoff: topics.Backoff{Initial: 1, Factor: 2, Max: 3, Jitter: .5}},
	}
	got := promised(r)
	behind := got.Retry.Behind
	got.Retry.Behind = 0
	want := check.Route{
		Topic: "delays", Target: "orders", Delay: time.Second, Allow: []string{"bills"}, MaxDelay: time.Hour, DeadLetter: "dead", Emit: "all", Timestamp: "due", Prefix: "x-",
		Tools: []string{"plain"}, Jitter: 2 * time.Second, ExpireAfter: time.Minute, CancelsAnswered: true, ReplacesLate: true, Keyed: true, Remember: 3 * time.Second,
		Partitioner: check.ByCRC32, OnDuplicate: check.LeaveOut,
		Retry: &check.Retry{FromHeaders: true, MaxAttempts: 5, Parking: "parked", Strip: []string{"a*"}, Initial: 1, Factor: 2, Max: 3, Jitter: .5},
	}
	if !reflect.DeepEqual(got, want) || behind <= 0 {
		t.Errorf("got %+v, %+v\nwant %+v, %+v", got, got.Retry, want, want.Retry)
	}
}
