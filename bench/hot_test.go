package bench

import (
	"runtime"
	"testing"
	"time"

	"github.com/duewheel/duewheel/bench/child"
)

// The burst and both kinds of others are measured, every record is checked, and nothing is left.
func TestHot(t *testing.T) {
	t.Parallel()
	o := smallFailover(t, "hot")
	o.Partitions, o.Spread = 2, 50*time.Millisecond
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	cases := []string{"hot", "hot, others", "hot, lane"}
	if runtime.GOOS == "linux" {
		cases = append(cases, "hot, memory")
	}
	judgeResults(t, results, cases, nil, " records: each delivered once")
	for i, figures := range [][]string{
		{"records_per_s", "copy_best_per_s", "ratio", "pause_ms"}, {"route_p99_ms", "target_p99_ms"}, {"longest_ms", "turn_longest_ms"}, {"peak_mib"},
	}[:len(cases)] {
		for _, f := range figures {
			if !(results[i].Figures[f] > 0) {
				t.Errorf("%s: figure %s is %v", results[i].Case, f, results[i].Figures[f])
			}
		}
	}
	if names := left(t, o); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

// A pause counts from the instant on and ends with the burst; so do the others.
func TestHotSum(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	when := func(ms int) time.Time { return at.Add(time.Duration(ms) * time.Millisecond) }
	h := &hot{stage: &stage{targets: []string{"t"}}, o: &observer{}}
	h.others = [bystanders]*stage{{delays: []string{"a"}}, {delays: []string{"b"}}}
	for ms := -2000; ms < 2000; ms++ {
		for kind := range uint32(bystanders) {
			late := time.Millisecond
			if ms >= 0 && ms < 400 && kind == markSameRoute {
				late = 50 * time.Millisecond
			}
			h.o.seen = append(h.o.seen, sighting{due: when(ms).UnixMilli(), at: when(ms).Add(late).UnixNano(), mark: kind})
		}
	}
	var looks []look
	see := func(ms int, a, b, delivered int64) {
		l := look{acked: [bystanders]int64{a, b + 1}}
		l.At, l.Topics, l.Delivered = when(ms), map[string]child.TopicCounts{"a": {Accepted: 100 + a}, "b": {Accepted: b}}, map[string]int64{"t": 7 + delivered}
		looks = append(looks, l)
	}
	see(-900, 0, 0, 0)
	see(-100, 1, 1, 0) // a long time, before the instant
	see(10, 2, 2, 1)
	see(80, 3, 2, 2)
	see(90, 4, 3, 3)
	see(400, 5, 4, 1000)
	see(900, 6, 5, 1000)
	got := h.sum(looks, at, 1000, 7)
	if got.rate != 2500 || got.pause != 310*time.Millisecond || got.waiting != 310*time.Millisecond {
		t.Errorf("got %+v", got)
	}
	if got.late[markSameRoute].p50 != 50*time.Millisecond || got.late[markSameRoute].n != 400 || got.late[markOtherRoute].max != time.Millisecond {
		t.Errorf("others: %+v", got.late)
	}
	if got.calm[markSameRoute].max != time.Millisecond || got.calm[markOtherRoute].n != 1000 {
		t.Errorf("before: %+v", got.calm)
	}
}
