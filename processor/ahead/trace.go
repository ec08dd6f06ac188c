package ahead

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Watch is what a trace tells of: the record at a place, or what has an id.
type Watch struct {
	Offset int64 // with HasOffset
	Has    bool
	ID     []byte // nil: none
}

// What is what a record does to another one.
type What uint8

// What records do.
const (
	Cancels  What = iota
	Replaces      // it takes its place
	Resolves      // it says that the record is resolved: dead-lettered, or a duplicate
	Carries       // it stands for it, to be tried again
)

// Naming is a record that names what is watched.
type Naming struct {
	Offset    int64
	Timestamp int64 // ms
	What      What
	Due       int64 // of Carries: when it is due next
	Of        int64 // the offset that it names; -1: an id
}

// Found is a record that is watched.
type Found struct {
	Offset  int64
	Due     int64 // ms; 0: not known
	Refusal *topics.Refusal
}

// mostTraced bounds what is remembered of one that is watched: the last ones.
const mostTraced = 1000

// trace remembers what is watched.
type trace struct {
	watch   Watch
	id      uint64
	founds  []Found
	namings []Naming
}

func (t *trace) watches(offset int64, id uint64) bool {
	return t.watch.Has && t.watch.Offset == offset || t.id != 0 && t.id == id
}

// found notes a record.
func (t *trace) found(r *kgo.Record, id uint64, due int64, why *topics.Refusal) {
	if !t.watches(r.Offset, id) {
		return
	}
	if len(t.founds) == mostTraced {
		t.founds = append(t.founds[:0], t.founds[mostTraced/2:]...)
	}
	t.founds = append(t.founds, Found{r.Offset, due, why})
}

// refused notes why a record that was found will not be delivered.
func (t *trace) refused(offset int64, why *topics.Refusal) {
	for i := range t.founds {
		if t.founds[i].Offset == offset {
			t.founds[i].Refusal = why
		}
	}
}

// named notes what a record names.
func (t *trace) named(a *ask) {
	of := a.names.Seq
	if a.id != 0 {
		of = -1
	}
	if a.id != 0 && t.id == a.id || a.id == 0 && t.watch.Has && t.watch.Offset == of {
		t.note(Naming{Offset: a.offset, Timestamp: a.at, What: a.what, Of: of})
	}
}

// names notes a resolve record.
func (t *trace) names(r *kgo.Record, key state.Key, id uint64, what What) {
	if t.watches(key.Seq, id) {
		t.note(Naming{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), What: what, Of: key.Seq})
	}
}

// carries notes a retry.
func (t *trace) carries(r *kgo.Record, q *topics.Request) {
	if t.watches(q.Origin.Offset, 0) {
		t.note(Naming{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), What: Carries, Due: q.Due, Of: q.Origin.Offset})
	}
}

func (t *trace) note(n Naming) {
	if len(t.namings) == mostTraced {
		t.namings = append(t.namings[:0], t.namings[mostTraced/2:]...)
	}
	t.namings = append(t.namings, n)
}
