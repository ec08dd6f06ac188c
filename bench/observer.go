package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// observer is a read_committed consumer of a stage's target that keeps of each record when it saw it and what the record
// says of its way. It is an ordinary one: nothing is set that an application would not set.
type observer struct {
	cl   *kgo.Client
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	seen    []sighting
	waiting []*firsts
	from    map[int32]int64  // how many were seen, by the partition that they come from
	marked  map[uint32]int64 // and by mark
	strange error
	bare    bool // records do not say where they come from
}

// sighting is one record that was seen.
type sighting struct {
	due, fired int64 // ms
	at         int64 // ns since 1970: when a poll returned it
	offset     int64 // in the target
	source, to int32 // partitions of the delay topic and of the target
	mark       uint32
}

func (s *sighting) late() time.Duration { return time.Duration(s.at - s.due*int64(time.Millisecond)) }

// firsts notes when each of some partitions was first seen in a record of a sort.
type firsts struct {
	key   func(*sighting) (int32, bool)
	at    map[int32]time.Time
	among map[int32]bool
}

// observe begins at the beginning of the targets.
func (s *stage) observe(ctx context.Context, bare bool) (*observer, error) {
	cl, err := s.r.client(kgo.ConsumeTopics(s.targets...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{cl: cl, stop: cancel, done: make(chan struct{}), from: map[int32]int64{}, marked: map[uint32]int64{}, bare: bare}
	go func() {
		defer close(o.done)
		for ctx.Err() == nil {
			fetches := cl.PollFetches(ctx)
			now := time.Now()
			o.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) { o.note(r, now) })
			o.mu.Unlock()
		}
	}()
	return o, nil
}

func (o *observer) note(r *kgo.Record, now time.Time) {
	st, ok := stampOf(r.Value)
	s := sighting{due: st.due, fired: r.Timestamp.UnixMilli(), at: now.UnixNano(), offset: r.Offset, source: -1, to: r.Partition, mark: st.mark}
	for _, h := range r.Headers {
		if h.Key == topics.HeaderSource {
			s.source = sourcePartition(h.Value)
		}
	}
	if !ok || s.source < 0 && !o.bare {
		o.strange = fmt.Errorf("offset %d of %s/%d is not one of our records", r.Offset, r.Topic, r.Partition)
		return
	}
	if s.late() < 0 {
		o.strange = fmt.Errorf("offset %d of %s/%d was seen %v before it was due", r.Offset, r.Topic, r.Partition, -s.late())
	}
	o.seen = append(o.seen, s)
	o.from[s.source]++
	o.marked[s.mark]++
	for _, w := range o.waiting {
		w.look(&s)
	}
}

// look takes a record in.
func (w *firsts) look(s *sighting) {
	if p, ok := w.key(s); ok && w.among[p] && w.at[p].IsZero() {
		w.at[p] = time.Unix(0, s.at)
	}
}

// sourcePartition reads the partition of topic/partition/offset; -1 when it is none.
func sourcePartition(source []byte) int32 {
	_, rest, _ := bytes.Cut(source, []byte("/"))
	partition, _, _ := bytes.Cut(rest, []byte("/"))
	n, err := strconv.ParseInt(string(partition), 10, 32)
	if err != nil {
		return -1
	}
	return int32(n)
}

// first begins to note when each of some partitions is first seen in a record that key accepts. Key says to which partition
// a record belongs. It counts what has been seen before, too.
func (o *observer) first(among []int32, key func(*sighting) (int32, bool)) *firsts {
	w := &firsts{key: key, at: map[int32]time.Time{}, among: map[int32]bool{}}
	for _, p := range among {
		w.among[p] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.seen {
		w.look(&o.seen[i])
	}
	o.waiting = append(o.waiting, w)
	return w
}

// firstFrom is first for records of source partitions that were handed over at or after a moment.
func (o *observer) firstFrom(sources []int32, after time.Time) *firsts {
	return o.first(sources, func(s *sighting) (int32, bool) { return s.source, s.fired >= after.UnixMilli() })
}

// found says of how many partitions a record was seen, and when the first and the last of these first ones were.
func (o *observer) found(w *firsts) (n int64, first, last time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, at := range w.at {
		n++
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return n, first, last
}

// broken is what it has seen that ought not to be.
func (o *observer) broken() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.strange
}

// count is how many records were seen, and sources from how many partitions.
func (o *observer) count() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(len(o.seen))
}

func (o *observer) sources() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(len(o.from))
}

// late are the latenesses of the records that a filter lets through, and lateIn of those of them that are due from a moment until another.
func (o *observer) late(of func(*sighting) bool) (late []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.seen {
		if s := &o.seen[i]; of(s) {
			late = append(late, s.late())
		}
	}
	return late
}

func (o *observer) lateIn(from, until time.Time, of func(source int32) bool) []time.Duration {
	first, end := from.UnixMilli(), until.UnixMilli()
	return o.late(func(s *sighting) bool { return s.due >= first && s.due < end && of(s.source) })
}

// countOf is how many records with a mark were seen, lastOf when the last of them was, of which there must be one, and lateOf are their
// latenesses.
func (o *observer) countOf(mark uint32) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.marked[mark]
}

func (o *observer) lastOf(mark uint32) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := len(o.seen) - 1
	for o.seen[i].mark != mark {
		i--
	}
	return time.Unix(0, o.seen[i].at)
}

func (o *observer) lateOf(mark uint32) []time.Duration {
	return o.late(func(s *sighting) bool { return s.mark == mark })
}

// lateFrom are the latenesses of the records that were seen after the first n.
func (o *observer) lateFrom(n int) (late []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := n; i < len(o.seen); i++ {
		late = append(late, o.seen[i].late())
	}
	return late
}

func everySource(int32) bool { return true }

// end ends the consumer. It may be called again.
func (o *observer) end() error {
	o.stop()
	<-o.done
	o.cl.Close()
	return o.strange
}
