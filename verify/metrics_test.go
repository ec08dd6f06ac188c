package verify

import (
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duewheel/duewheel/bench/check"
)

// Metrics show the last report that could be made, how often none could, and of how much it cannot be told.
func TestMetrics(t *testing.T) {
	var m Metrics
	l := &check.Lateness{Micros: hdrhistogram.New(1, 1_000_000, 3), OverdueMicros: hdrhistogram.New(1, 1_000_000, 3)}
	for _, micros := range []int64{2000, 4000} {
		if err := l.Micros.RecordValue(micros); err != nil {
			t.Fatal(err)
		}
	}
	m.Took(&Report{}, 1)
	m.Took(&Report{Counts: Counts{Faults: 2}}, 2)
	m.Took(nil, 3)
	m.Took(&Report{At: 5000, Counts: Counts{Ahead: 8, Otherwise: 9}, Believed: map[string]int64{"rejected": 6}, Denied: []string{"orders"}, Untold: []Found{{Kind: "why", Count: 7}}, ByTarget: []Lateness{latenessOf("orders", l)}}, 4)
	m.Took(nil, 5)
	want := `# HELP duewheel_verify_believed_requests What is taken for true although nothing else says so, by what: dead letters that could be delivered as things are now by their code, ahead, otherwise.
# TYPE duewheel_verify_believed_requests gauge
duewheel_verify_believed_requests{what="ahead"} 8
duewheel_verify_believed_requests{what="otherwise"} 9
duewheel_verify_believed_requests{what="rejected"} 6
# HELP duewheel_verify_held_bytes What is held of requests that are not settled, roughly.
# TYPE duewheel_verify_held_bytes gauge
duewheel_verify_held_bytes 5
# HELP duewheel_verify_last_pass_timestamp_seconds When the last pass began that did not fail.
# TYPE duewheel_verify_last_pass_timestamp_seconds gauge
duewheel_verify_last_pass_timestamp_seconds 5
# HELP duewheel_verify_lateness_seconds How much later than due records were delivered, since the start, by target.
# TYPE duewheel_verify_lateness_seconds summary
duewheel_verify_lateness_seconds{target="orders",quantile="0.5"} 0.002
duewheel_verify_lateness_seconds{target="orders",quantile="0.99"} 0.004001
duewheel_verify_lateness_seconds{target="orders",quantile="1"} 0.004001
duewheel_verify_lateness_seconds_sum{target="orders"} 0.006001
duewheel_verify_lateness_seconds_count{target="orders"} 2
# HELP duewheel_verify_passes_total Times that all topics were read to their ends, by what was found: well, faults, or failed.
# TYPE duewheel_verify_passes_total counter
duewheel_verify_passes_total{outcome="failed"} 3
duewheel_verify_passes_total{outcome="faults"} 1
duewheel_verify_passes_total{outcome="well"} 1
# HELP duewheel_verify_untold_requests Requests of which it cannot be told what became of them, by why.
# TYPE duewheel_verify_untold_requests gauge
duewheel_verify_untold_requests{why="why"} 7
`
	if err := testutil.CollectAndCompare(&m, strings.NewReader(want), "duewheel_verify_believed_requests", "duewheel_verify_held_bytes", "duewheel_verify_last_pass_timestamp_seconds", "duewheel_verify_lateness_seconds",
		"duewheel_verify_passes_total", "duewheel_verify_untold_requests"); err != nil {
		t.Error(err)
	}
}

// One that is not shown is told of, as any more are.
func TestOneMore(t *testing.T) {
	for more, want := range map[int64]string{0: "  orders/0@0: d\n", 1: "  orders/0@0: d\n  and 1 more\n", 2: "  orders/0@0: d\n  and 2 more\n"} {
		var b strings.Builder
		(&Found{Count: 1 + more, First: []Fault{{Topic: "orders", Detail: "d"}}}).write(&b)
		if b.String() != want {
			t.Errorf("%d more: %q", more, b.String())
		}
	}
}
