package main

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Records of a retry route have no ids: two that bring the same one both come back, at once and without it, and what they are parked with is
// what they brought.
func TestRetryRouteHasNoIDs(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"again": 1, "again.dead": 1, "parked": 1, "orders": 1})
	cl := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for _, attempt := range []string{"0", "0", "3"} {
		r := &kgo.Record{Topic: "again", Key: []byte("17"), Headers: []kgo.RecordHeader{
			{Key: "delay-id", Value: []byte("reminder-17")}, {Key: "delay-target-topic", Value: []byte("orders")}, {Key: "delay-attempt", Value: []byte(attempt)},
		}}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	start(t, addr, t.TempDir(), "-X", "routes[0].topic=again", "-X", "routes[0].retry.max_attempts=3", "-X", "routes[0].retry.parking=parked",
		"-X", "routes[0].retry.backoff.initial=10ms", "-X", "routes[0].targets.allow=orders")
	for _, r := range fetch(t, addr, "orders", 2) {
		if got := headers(r); got["delay-id"] != "" || got["delay-attempt"] != "1" {
			t.Errorf("it came back with %v", got)
		}
	}
	if got := headers(fetch(t, addr, "parked", 1)[0]); got["delay-id"] != "reminder-17" || got["__delay.errors.code"] != "attempts_exhausted" {
		t.Errorf("it is parked with %v", got)
	}
}
