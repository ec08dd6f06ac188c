package pending

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Some records name another one, to cancel it or to take its place, by its handle or its id; one whose id is pending takes its place, or is
// not wanted. What such a record does is decided once, in a live partition, when what it names is pending or is not; it is resolved when O
// passes it, as a late record is. Until that is committed a crash would have it decided anew. So what it has taken away is kept as if it
// were pending, by L and by the store, and the next owner finds it and decides the same. A late record is not kept: O may pass it before it
// passes what has taken it away. Then a resolve record says so.
//
// In a replay of [L, O) all has been decided: what a record names is taken away if it is there.

// Effect is what a record has done to the one that it names.
type Effect uint8

const (
	EffectNone      Effect = iota // it names none: it is delivered, or dead-lettered
	EffectUnjudged                // not decided yet
	EffectCancelled               // what it names is not delivered
	EffectTooLate                 // what it names was delivered or dead-lettered, or is about to be
	EffectUnknown                 // nothing of that name is pending, and nothing was
	EffectForward                 // it names a record of another partition, or an id that is not pending in this one: others decide
	EffectNotHere                 // it has come from another partition, and its id is not pending in this one
	EffectReplaced                // of a replacement: it is pending itself, in the place of what it names
	EffectAccepted                // it is pending itself, and has taken nothing away: one with an id, or the audit topic tells so when O passes it
	EffectIgnored                 // its id is pending, and it is left out
	EffectCarried                 // of a copy: it has taken the place of its record, or stands for it
	EffectStale                   // it is resolved: of a copy, its record
	EffectForgotten               // it was delivered, and its id is not remembered any more
	effects
)

var effectNames = [effects]string{
	"none", "unjudged", "cancelled", "too_late", "unknown", "forwarded", "not_here", "replaced", "accepted", "ignored", "carried", "stale", "forgotten",
}

// String is the word for it, as metrics have it.
func (e Effect) String() string { return effectNames[e] }

// Pending reports whether the record is pending itself: what is on the list of what O passes is a note about it, without its bytes.
func (e Effect) Pending() bool {
	return e == EffectReplaced || e == EffectAccepted || e == EffectCarried
}

// Effects are how often each came about.
type Effects [effects]int64

// naming is about the records that name others.
type naming struct {
	questions []question         // in the order of the log: what is to be decided
	confirmed map[int64]struct{} // by offset: a resolve record says that it has taken a late record away
	resolved  map[int64]struct{} // by offset: a resolve record says of a question that it is resolved itself
	removed   []removal          // in the order of the log: what was taken away
	effects   Effects            // of what was settled since they were last asked for

	releases []release // what is given up when the checkpoint is committed
}

// removal says what has taken a record away, or a stub.
type removal struct {
	by   int64 // its offset
	stub bool
	release
}

// question is what is to be decided of the record at an offset: what does it do to the one that it names, or to those that have its id?
type question struct {
	offset int64
	names  state.Key // zero: an id says it
	wanted
	written   int64              // ms
	dedup     bool               // it names nothing: the question is whether its own id is taken
	then      topics.OnDuplicate // and if that is pending
	forwarded bool               // it has come from another partition
	copied    *copyOf            // it is a copy of what it names
}

func keyOf(h topics.Handle) state.Key { return state.Key{Due: h.Due, Seq: h.Offset} }

// questionOf is the question about a record that names another one, or has an id.
func questionOf(offset int64, req *topics.Request) question {
	q := question{offset: offset, then: req.OnDuplicate, forwarded: req.Forwarded}
	switch {
	case req.NamedID != nil:
		q.wanted = wanted{req.NamedID, offset, req.WrittenBy}
	case req.Kind == topics.KindCancel || req.Replaces:
		q.names = keyOf(req.Handle)
	default:
		q.wanted, q.dedup = wanted{req.ID, offset, 0}, true
	}
	return q
}

// TakeEffects returns how often each effect came about since it was last called, of what was settled.
func (n *naming) TakeEffects() Effects {
	e := n.effects
	n.effects = Effects{}
	return e
}

// cancel takes in a record that cancels another one.
func (k *keyed) cancel(r *kgo.Record, req *topics.Request) error {
	here := req.Here || req.NamedID != nil // one that was forwarded by its handle is
	switch {
	case r.Offset < k.accepted && here:
		k.replay(r.Offset, req)
	case r.Offset < k.accepted: // it was forwarded
	case req.NamedID != nil:
		k.addQuestion(idAlone(r, k.parsers.at(r.Offset), req.NamedID), held{}, questionOf(r.Offset, req), 0)
	case here:
		if !k.env.Route.CancelsAnswered {
			of := r
			r = &kgo.Record{Offset: of.Offset, Timestamp: of.Timestamp} // nothing will be written for it
			if k.env.Audit {
				r.Headers = of.Headers // but for what tells of the one that it names
			}
		}
		k.addQuestion(r, held{}, questionOf(r.Offset, req), 0)
	default:
		k.addLate(r, held{effect: EffectForward}, 0)
	}
	return nil
}

// replay takes away what a record below O names. What was resolved otherwise is at or below W, or a resolve record names it.
func (k *keyed) replay(offset int64, req *topics.Request) {
	if req.NamedID != nil {
		k.drops.addWanted(&k.window, wanted{req.NamedID, offset, req.WrittenBy})
	} else if names := keyOf(req.Handle); names.Seq < offset {
		k.drops.takes(&k.window, names, offset)
	}
}

// addQuestion keeps a record that names another one, or has an id, until what it does can be decided.
func (k *keyed) addQuestion(r *kgo.Record, h held, q question, at idPlace) {
	h.effect, q.written = EffectUnjudged, r.Timestamp.UnixMilli()
	k.addLate(r, h, at)
	if q.id != nil {
		if run := k.near.get(k.late.tail().ref); runIDPlace(run) != 0 {
			q.id = runID(run) // it lasts as long as it is held
		} else {
			q.id = bytes.Clone(q.id)
		}
		k.ids.countQuestions(q.id, 1)
	}
	k.questions = append(k.questions, q)
}

// resolve applies a resolve record of ours: what it names is not pending any more, and what has taken that away need not look for it.
func (k *keyed) resolve(key state.Key, by int64) error {
	if h := k.late.at(by); h != nil && h.effect == EffectUnjudged {
		if k.confirmed == nil {
			k.confirmed = map[int64]struct{}{}
		}
		k.confirmed[by] = struct{}{}
	}
	if h := k.late.at(key.Seq); by < 0 && h != nil && h.effect == EffectUnjudged && h.key == key {
		if k.resolved == nil {
			k.resolved = map[int64]struct{}{}
		}
		k.resolved[key.Seq] = struct{}{}
	}
	switch {
	case k.live && k.ledger.Overtaken(key.Seq):
		return nil // a turn of this owner has delivered it
	case k.live && !k.ledger.Has(key.Seq) && !k.copied.has(key.Seq): // nor is a stub of it there: this owner has refused it, mostly
		k.lost.names(key)
	default:
		k.drops.takes(&k.window, key, by)
	}
	if by < 0 && key.Seq < k.position && k.lateUpTo.Less(key) {
		k.ledger.Overtake(key)
	}
	return nil
}

// Load brings what is due soon into memory, and decides what records do that name others.
func (k *keyed) Load(now int64, room Room) error {
	switch {
	case k.late.stuck() && !k.blind: // else it is read again, which the store is not asked for
		return cmp.Or(k.Flush(), errNotBack) // nothing else of it may ask the store, which is to be known to have failed
	case !k.live || k.blind:
	case len(k.questions) > 0:
		if err := k.decide(); err != nil {
			return err
		}
	default:
		k.sure, k.dropped, k.takers, k.lost = false, nil, nil, lost{} // no copy waits that was read in the catch-up
	}
	return k.window.Load(now, room)
}

// tookAway notes for the audit topic what was pending, and was taken away by late records.
func (n *naming) tookAway(late []Item) {
	for i := range late {
		at, _ := slices.BinarySearchFunc(n.removed, late[i].Offset, func(r removal, by int64) int { return cmp.Compare(r.by, by) })
		for ; at < len(n.removed) && n.removed[at].by == late[i].Offset; at++ {
			if r := &n.removed[at]; !r.stub {
				x := late[i].Extra()
				x.Took, x.TookID = &r.key, r.id
				if r.first != (state.Key{}) {
					x.Took, x.Asked = &r.first, true
				}
				break
			}
		}
	}
}

// takenBy is what has taken a record away, as far as that is known; 0: nothing. Of a copy of this replica it was noted.
func takenBy(k *keyed, key state.Key, noted int64) int64 {
	for i := range k.removed {
		if k.removed[i].key == key {
			return k.removed[i].by
		}
	}
	for i := range k.releases {
		if k.releases[i].key == key {
			return k.releases[i].by
		}
	}
	return max(cmp.Or(noted, k.takers[key]), 0)
}

// conclude takes in that a late record is resolved.
func (n *naming) conclude(it *Item) {
	n.effects[it.Effect]++
	for len(n.removed) > 0 && n.removed[0].by <= it.Offset {
		r := n.removed[0].release
		r.by = n.removed[0].by
		n.releases = append(n.releases, r)
		n.removed = n.removed[1:]
	}
}
