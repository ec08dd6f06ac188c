package ahead

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Watch is what a trace tells of: the record at a place, or what has an id.
type Watch struct {
	Offset int64  // counts if Has
	Has    bool   // a place is watched
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
	Due       int64 // ms: of Carries, when it is due next; of others, when what they name is, if an offset says it
	Of        int64 // the offset that it names; -1: an id
	By        int64 // of Resolves: above 0, this has cancelled or replaced it
	WrittenBy int64 // ms: above 0, by an id it takes nothing away that was written later
}

// Found is a record that is watched.
type Found struct {
	Offset  int64
	Place   int64 // where it was read last: at Offset, or what is there is a carried copy, or a retry of what the log has lost
	Due     int64 // ms; 0: not known, because it was refused, or is Forgotten
	Written int64 // ms: its timestamp
	Refusal *topics.Refusal
}

// mostTraced bounds what is remembered of one that is watched: the last ones.
const mostTraced = 1000

// trace remembers what is watched.
type trace struct {
	watch   Watch
	id      uint64 // hash of the id that is watched; 0: none
	own     uint64 // that of the record at the place that is watched
	again   int64  // what is there is a retry of what lies before this offset; 0: it is none
	founds  []Found
	namings []Naming
}

func (t *trace) watches(offset int64, id uint64) bool {
	return t.watch.Has && t.watch.Offset == offset || t.id != 0 && t.id == id
}

// found notes a record.
func (t *trace) found(r *kgo.Record, id uint64, due int64, why *topics.Refusal) {
	t.add(Found{r.Offset, r.Offset, due, r.Timestamp.UnixMilli(), why}, id)
}

// copied notes a carried copy. What it stands for may have left the log.
func (t *trace) copied(r *kgo.Record, seq int64, id uint64, due int64) {
	if i := slices.IndexFunc(t.founds, func(f Found) bool { return f.Offset == seq }); i >= 0 {
		t.founds[i].Place = r.Offset
		return
	}
	t.add(Found{Offset: seq, Place: r.Offset, Due: due, Written: r.Timestamp.UnixMilli()}, id)
}

func (t *trace) add(f Found, id uint64) {
	if !t.watches(f.Offset, id) {
		return
	}
	if t.watch.Has && t.watch.Offset == f.Offset {
		t.own = id
	}
	if len(t.founds) == mostTraced {
		t.founds = append(t.founds[:0], t.founds[mostTraced/2:]...)
	}
	t.founds = append(t.founds, f)
}

// refused notes why a record that was found will not be delivered.
func (t *trace) refused(offset int64, why *topics.Refusal) {
	for i := range t.founds {
		if t.founds[i].Offset == offset {
			t.founds[i].Refusal = why
		}
	}
}

// question notes what a record names.
func (t *trace) question(q *question) {
	of := q.names.Seq
	if q.id != 0 {
		of = -1
	}
	if q.id != 0 && (q.id == t.id || q.id == t.own) || q.id == 0 && t.isOf(of) {
		t.note(Naming{Offset: q.offset, Timestamp: q.at, What: q.what, Of: of, Due: q.names.Due, WrittenBy: q.writtenBy})
	}
}

// resolves notes a resolve record.
func (t *trace) resolves(r *kgo.Record, key state.Key, by int64) {
	if t.isOf(key.Seq) {
		t.note(Naming{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), What: Resolves, Of: key.Seq, Due: key.Due, By: by})
	}
}

// isOf reports whether the record that the log had at an offset first is watched, by its place or its id.
func (t *trace) isOf(offset int64) bool {
	return t.watches(offset, 0) || t.id != 0 && t.has(offset)
}

// has reports whether a record was found.
func (t *trace) has(offset int64) bool {
	return slices.ContainsFunc(t.founds, func(f Found) bool { return f.Offset == offset })
}

// came notes when a record is due of which a retry, which the log had at an offset first, says it first: its retry route did not know when it came.
func (t *trace) came(seq int64, q *topics.Request) {
	if t.watch.Has && t.watch.Offset == seq {
		t.again = q.Origin.Offset + 1
	}
	for i := range t.founds {
		if f := &t.founds[i]; f.Offset == q.Origin.Offset && f.Due == topics.AtOnce {
			f.Due = q.Origin.Due
		}
	}
}

// carries notes a retry that the log had at an offset first. What it stands for may have left the log.
func (t *trace) carries(r *kgo.Record, seq int64, q *topics.Request) {
	of := q.Origin
	if t.again > 0 && t.again == of.Offset+1 && seq > t.watch.Offset {
		t.note(Naming{Offset: seq, Timestamp: r.Timestamp.UnixMilli(), What: Carries, Due: q.Due, Of: t.watch.Offset})
	}
	if !t.isOf(of.Offset) {
		return
	}
	if !t.has(of.Offset) {
		t.add(Found{Offset: of.Offset, Place: r.Offset, Due: of.Due, Written: of.Timestamp}, 0)
	}
	t.note(Naming{Offset: seq, Timestamp: r.Timestamp.UnixMilli(), What: Carries, Due: q.Due, Of: of.Offset})
}

func (t *trace) note(n Naming) {
	if len(t.namings) == mostTraced {
		t.namings = append(t.namings[:0], t.namings[mostTraced/2:]...)
	}
	t.namings = append(t.namings, n)
}

// State is what has become of a record, as far as checkpoint and log tell.
type State uint8

// The states of a record.
const (
	IsPending      State = iota // it waits to be delivered
	IsResolved                  // it was delivered, or dead-lettered; or By has taken it away, if it was read in time
	IsCancelled                 // by another record
	IsReplaced                  // by another record
	IsCarriedOn                 // its target was in trouble: a copy stands for it
	IsDeadLettered              // or is about to be, or was left out as a duplicate
)

// Fate is what has become of one record.
type Fate struct {
	Found
	State   State
	Waits   Pending // of IsPending
	By      int64   // the offset of what has done it, or of IsResolved may have; 0: nothing has, or it is not known what
	NextDue int64   // ms: of IsCarriedOn
	Guess   bool    // By was written before the record was due, and so was in time as it seems: W does not tell
	Read    bool    // an owner has read it: it lies below O

	// Forgotten says that it is not known any more which parser held for it, and so nothing that its headers say.
	Forgotten bool
	// Taken says of IsResolved that it was not delivered: it lies below all that is pending, and the watermark below its key. What has taken it
	// away was not found, or it was dead-lettered.
	Taken bool
}

// Fates are what has become of what is watched, in the order of the log. They count after Decide.
func (p *Partition) Fates() []Fate {
	var all []Fate
	for _, f := range p.trace.founds {
		all = append(all, p.fate(f))
	}
	return all
}

// mayBeOf reports whether a record says something of one that was found.
func (n *Naming) mayBeOf(f *Found) bool {
	switch {
	case n.Offset <= f.Offset, n.Of < 0 && n.WrittenBy > 0 && f.Written > n.WrittenBy: // a handle names one record, whenever that was written
		return false
	case n.What == Carries:
		return n.Of == f.Offset
	}
	return n.Of < 0 || n.Of == f.Offset && n.Due == f.Due
}

func (p *Partition) fate(f Found) Fate {
	fate := Fate{Found: f, Read: f.Offset < p.checkpoint.Offset, Forgotten: !p.knows(f.Offset)}
	if place, has := p.find(f.Offset); has && p.at(place).condition == isHeld && p.at(place).offset >= p.checkpoint.LowWater {
		fate.Waits = p.show(p.at(place))
		return fate
	}
	passed := fate.Read && (p.queue || !p.checkpoint.Watermark.Less(state.Key{Due: f.Due, Seq: f.Offset}))
	if fate.State = IsResolved; f.Refusal != nil {
		fate.State = IsDeadLettered
		return fate
	}
	if p.trace.settle(&fate, p.env.Skew) {
		return fate
	}
	for _, n := range p.trace.namings {
		switch {
		case !n.mayBeOf(&f):
			continue
		case passed && n.Timestamp >= f.Due: // it came too late, unless no replica was there before it
			fate.By = cmp.Or(fate.By, n.Offset)
			continue
		}
		fate.State, fate.By, fate.Guess = n.takesAway(), n.Offset, passed
		return fate
	}
	fate.Taken = fate.State == IsResolved && fate.Read && !fate.Forgotten && !passed
	return fate
}

// settle takes in what an owner has written about a record, which counts more than what names it: that came in time only if an owner says no other
// thing. It reports whether one has. Clocks of owners and producers may be skew ms apart.
func (t *trace) settle(fate *Fate, skew int64) (settled bool) {
	for _, n := range t.namings {
		switch {
		case !n.mayBeOf(&fate.Found):
		case n.What == Carries: // maybe once more
			fate.State, fate.By, fate.NextDue, settled = IsCarriedOn, n.Offset, n.Due, true
		case n.What != Resolves || fate.State == IsCarriedOn: // what was carried on when it overtook has a resolve record, too
		case n.By > 0:
			fate.State, fate.By, settled = t.whatOf(n.By).takesAway(), n.By, true
		case n.Timestamp+skew < fate.Due:
			fate.State, settled = IsDeadLettered, true
		default: // it may have overtaken what waits
			settled = true
		}
	}
	return settled
}

// whatOf is what the record at an offset does to what is watched, as far as it was read; it cancels that otherwise.
func (t *trace) whatOf(offset int64) *Naming {
	for i := range t.namings {
		if t.namings[i].Offset == offset {
			return &t.namings[i]
		}
	}
	return &Naming{What: Cancels}
}

// takesAway is what becomes of a record that this takes away.
func (n *Naming) takesAway() State {
	if n.What == Replaces {
		return IsReplaced
	}
	return IsCancelled
}
