package bench

import (
	"testing"
	"time"
)

// Every case of Ask measures something that can be, has every record checked, and leaves nothing.
func TestAskCases(t *testing.T) {
	for name, want := range map[string]struct {
		checked string
		figures []string
	}{
		"cancels":     {"3,000 records: each cancelled once, none delivered", []string{"cancels_per_s", "written_per_s"}},
		"retry":       {"each delivered 3 times", []string{"failures_per_s", "kept_up", "p50_ms", "p99_ms"}},
		"retry-dlq":   {"each delivered 3 times", []string{"failures_per_s", "kept_up", "p50_ms", "p99_ms"}},
		"ids":         {"3,000 records: each delivered once", []string{"ratio", "records_per_s", "without_per_s"}},
		"ids-pending": {"3,000 are pending", []string{"peak_mib", "restarted_mib", "of_budget"}},
		"audit":       {"3,000 records: each delivered once", []string{"ratio", "records_per_s", "without_per_s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := smallFailover(t, name)
			o.pause = 200 * time.Millisecond
			results, err := Ask(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			judgeResults(t, results, []string{name}, want.figures, want.checked)
			if names := left(t, o); len(names) > 0 {
				t.Errorf("left behind: %q", names)
			}
		})
	}
}

func TestIDs(t *testing.T) {
	seen := map[string]bool{}
	s := &stage{targets: []string{"orders"}, ids: true}
	for i := range uint32(1000) {
		for _, h := range s.request(stamp{mark: markMeasured, index: i}, "requests").Headers {
			if h.Key == "delay-id" && len(h.Value) == 20 {
				seen[string(h.Value)] = true
			}
		}
	}
	if len(seen) != 1000 {
		t.Errorf("%d ids of 20 bytes", len(seen))
	}
}
