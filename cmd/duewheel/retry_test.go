package main

import (
	"encoding/json"
	"strings"
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

// Where the topic does not tell when a record came, another one stands for it that says so. Either is shown, and what the audit topic tells is told of
// both by the handle of the request, whichever was cancelled.
func TestGetOfWhatARetryRouteHolds(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"again": 1, "again.dead": 1, "parked": 1, "orders": 1, "audit": 1})
	r := &kgo.Record{Topic: "again", Value: []byte("failed"), Headers: []kgo.RecordHeader{{Key: "delay-target-topic", Value: []byte("orders")}}}
	if err := client(t, addr).ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	route := []string{"-X", "routes[0].topic=again", "-X", "routes[0].retry.parking=parked", "-X", "routes[0].retry.backoff.initial=1h", "-X", "audit.topic=audit", "-X", "routes[0].targets.allow=orders"}
	start(t, addr, t.TempDir(), route...)
	var told struct {
		Handle  string
		NextDue int64 `json:"next_due"`
	}
	if err := json.Unmarshal(fetch(t, addr, "audit", 1)[0].Value, &told); err != nil || !strings.HasPrefix(told.Handle, "0-0-") {
		t.Fatalf("told of is %+v: %v", told, err)
	}
	ask := func(args ...string) string {
		t.Helper()
		out, err := command(t, "", append(append(args, "-b", addr, "-g", "g"), route...)...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		return out
	}
	var row struct{ Handle string }
	await(t, func() string {
		out := ask("ls", "-o", "json")
		if err := json.Unmarshal([]byte(out), &row); err != nil || strings.HasPrefix(row.Handle, "0-0-") {
			return "listed is " + out
		}
		return ""
	})
	if got := ask("get", told.Handle); !strings.Contains(got, "it came to a retry route: offset ") || !strings.Contains(got, "handle  "+told.Handle) {
		t.Errorf("the request is shown so:\n%s", got)
	}
	if got := ask("get", row.Handle); !strings.Contains(got, "pending, due") || !strings.Contains(got, "handle  "+row.Handle) {
		t.Errorf("what stands for it is shown so:\n%s", got)
	}
	ask("cancel", row.Handle)
	fetch(t, addr, "audit", 2)
	for _, name := range []string{told.Handle, row.Handle} {
		if got := ask("get", name); !strings.Contains(got, "the audit topic says cancelled by 0-") {
			t.Errorf("%s was cancelled, and is shown so:\n%s", name, got)
		}
	}
}
