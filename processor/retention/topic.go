package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/picture"
)

// Topic is what is known of the logs of one delay topic: whether it keeps what is pending, is trimmed, and is carried. The goroutines of this package
// write it, and every goroutine may read.
type Topic struct {
	Trouble   Why          // why the topic loses what is pending
	Unseen    Why          // why it is not known whether it does
	Untrimmed Why          // why it is not trimmed although it should be
	HeldUp    Whys         // why nothing of a partition is deleted that should be, when that has lasted
	Uncarried Whys         // why nothing of it is carried for its age, or not in time, by lane
	Uncopied  Whys         // why nothing of a partition is carried that is to be, when that has lasted
	Behind    Whys         // why the log may lose what is pending, by partition
	Trimmed   atomic.Int64 // offsets that were deleted
	Keeps     atomic.Int64 // ms: what the topic keeps of its log; 0: everything, or it is not known
}

// Why is why something is as it should not be. The zero value says that it is, as far as is known.
type Why struct{ p atomic.Pointer[string] }

// Get is "" while all is well.
func (w *Why) Get() string {
	if why := w.p.Load(); why != nil {
		return *why
	}
	return ""
}

// Set says why, or that all is well: "". It returns what was said before.
func (w *Why) Set(why string) (was string) {
	if old := w.p.Swap(&why); old != nil {
		was = *old
	}
	return was
}

// Whys says of partitions, or of lanes, why something is as it should not be. Every goroutine may use it.
type Whys struct {
	mu sync.Mutex
	m  map[int32]string
}

// Set says why of one, or that all is well: "". It returns what was said before.
func (w *Whys) Set(of int32, why string) (was string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was = w.m[of]
	if w.m == nil {
		w.m = map[int32]string{}
	}
	if w.m[of] = why; why == "" {
		delete(w.m, of)
	}
	return was
}

// say notes why something is as it should not be in a partition, and logs when that begins, and when it is over.
func (w *Whys) say(log *slog.Logger, p picture.Partition, why string, level slog.Level, begun, over string) {
	switch was := w.Set(p.Partition, why); {
	case was == "" && why != "":
		log.Log(context.Background(), level, begun, "topic", p.Topic, "partition", p.Partition, "why", why)
	case was != "" && why == "":
		log.Info(over, "topic", p.Topic, "partition", p.Partition)
	}
}

// keep forgets what was said of all others.
func (w *Whys) keep(has func(of int32) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.m, func(of int32, _ string) bool { return !has(of) })
}

// Of is what is said of one; "": nothing.
func (w *Whys) Of(n int32) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m[n]
}

// Any is why of the first of which something is said; "": of none.
func (w *Whys) Any() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.m) == 0 {
		return ""
	}
	return w.m[slices.Min(slices.Collect(maps.Keys(w.m)))]
}

// refusal is why brokers do not trim a topic, and what to do about it. They delete nothing of one that is compacted (POLICY_VIOLATION).
func refusal(err error) string {
	todo := "give this user the right to Delete the topic, or set trim: false on the route and give the topic a retention.ms"
	if errors.Is(err, kerr.PolicyViolation) {
		todo = "give the topic the cleanup.policy delete: this one may delete what is pending"
	}
	return fmt.Sprintf("brokers refuse DeleteRecords (%v): %s", err, todo)
}
