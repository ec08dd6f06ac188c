package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
)

// A processor that is stopped and started again goes on where it was, with records pending near and far: what was far comes from
// its store, and from the log when the store is gone.
func TestRestart(t *testing.T) {
	for name, kept := range map[string]bool{"store kept": true, "store deleted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTenant(t, shared(t), setting{targets: 2, seed: newSeed(t)})
			p := s.start(s.replica())
			s.awaitLive(p, 4)
			// The far ones first: the store need not be read again from where they begin.
			s.load(load.Config{Records: 4000, Due: []load.Due{{Weight: 1, From: 6 * time.Second, To: 9 * time.Second}}})
			s.load(load.Config{Records: 2000, Bad: 0.01, Due: []load.Due{{Weight: 1, To: 4 * time.Second}}})
			eventually(t, func() string { return pendingBoth(p, 6000) })
			p.stop()
			t.Logf("stopped with %s", s.watch.Counts().Summary())
			if !kept {
				if err := os.RemoveAll(filepath.Join(s.dir, "a")); err != nil {
					t.Fatal(err)
				}
			}
			stopped := s.events.len()
			p = s.start(s.replica())
			s.awaitLive(p, 4)
			starts := s.events.starts(stopped)
			t.Logf("started again at (low water, offset read from): %v", starts)
			if spared := sparedAny(starts); len(starts) != 4 || spared != kept {
				t.Errorf("of %d partitions, some did not have to be read from their low water: %v", len(starts), spared)
			}
			s.arrive()
			p.stop()
			if report := s.judge(); report.Requested != 6000 {
				t.Errorf("%d requests seen", report.Requested)
			}
		})
	}
}

// pendingBoth says what is wanting until a processor has accepted so many records, delivered some, and holds others near and far. What
// it has carried on itself, because its target is unknown, is accepted once more.
func pendingBoth(p *running, accepted int64) string {
	stats := p.Stats()
	var pending, near, delivered, took int64
	for _, part := range stats.Partitions {
		pending, near = pending+part.Pending, near+part.Near
	}
	for _, topic := range stats.Topics {
		took, delivered = took+topic.Accepted, delivered+topic.Delivered
	}
	if took >= accepted && near > 0 && pending > near && delivered > 0 {
		return ""
	}
	return fmt.Sprintf("accepted %d of %d, pending %d, of these near %d, delivered %d", took, accepted, pending, near, delivered)
}

// start is from where a partition was read on assignment.
type start struct{ lowWater, from int64 }

// starts tells, from a place on, where each partition was read from first: one that is given to another lane later finds what the
// first has stored.
func (t *told) starts(from int) map[int32]start {
	first := make(map[int32]start)
	for _, e := range t.from(from, processor.EventRestored) {
		if _, seen := first[e.Partitions[0].Partition]; !seen {
			first[e.Partitions[0].Partition] = start{e.LowWater, e.Start}
		}
	}
	return first
}

// sparedAny tells whether some partition was not read from its low water.
func sparedAny(starts map[int32]start) bool {
	for _, s := range starts {
		if s.from > s.lowWater {
			return true
		}
	}
	return false
}
