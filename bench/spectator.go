package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// spectator is a read_committed consumer of a stage's target that notes when it saw what. It is an ordinary
// one: nothing is set that an application would not set.
type spectator struct {
	cl   *kgo.Client
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	seen    map[uint32]*sight // by mark
	strange error             // a record that is none of ours
}

// sight is what was seen of the records with one mark.
type sight struct {
	late  []time.Duration // of each, in the order in which they were seen
	early int             // how many were seen before they were due
	last  time.Time       // when the last was seen
}

func (s *stage) watch(ctx context.Context) (*spectator, error) {
	cl, err := s.targetReader()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &spectator{cl: cl, stop: cancel, done: make(chan struct{}), seen: map[uint32]*sight{}}
	go w.run(ctx)
	return w, nil
}

func (w *spectator) run(ctx context.Context) {
	defer close(w.done)
	for ctx.Err() == nil {
		fetches := w.cl.PollFetches(ctx)
		now := time.Now()
		w.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) { w.note(r, now) })
		w.mu.Unlock()
	}
}

func (w *spectator) note(r *kgo.Record, now time.Time) {
	st, ok := stampOf(r.Value)
	if !ok {
		w.strange = fmt.Errorf("offset %d of %s/%d is not one of our records", r.Offset, r.Topic, r.Partition)
		return
	}
	s := w.seen[st.mark]
	if s == nil {
		s = &sight{}
		w.seen[st.mark] = s
	}
	late := now.Sub(time.UnixMilli(st.due))
	if late < 0 {
		s.early++
	}
	s.late, s.last = append(s.late, late), now
}

// count returns how many records with a mark were seen.
func (w *spectator) count(mark uint32) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.seen[mark]; s != nil {
		return int64(len(s.late))
	}
	return 0
}

// end ends the consumer and returns what it saw, by mark. It may be called again.
func (w *spectator) end() (map[uint32]*sight, error) {
	w.stop()
	<-w.done
	w.cl.Close()
	err := w.strange
	for mark, s := range w.seen {
		if s.early > 0 {
			err = errors.Join(err, fmt.Errorf("%d records of part %d were seen before they were due", s.early, mark))
		}
	}
	return maps.Clone(w.seen), err
}
