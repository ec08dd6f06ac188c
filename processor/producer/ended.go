package producer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// askedWithin is how long a coordinator may take to say how transactions end: a healthy one takes some ms, and whoever waits has something to deliver.
const askedWithin = time.Second

// askedLong is for what nobody knows who does not wait for it. Who renews a producer has less.
const askedLong = time.Minute

// resolve finds out how the last transaction of an id ends where that is not known, before anybody asks for the id: then no broker knows it any more.
// With an error it was asked to commit, and its coordinator does not say what came of that: mostly since it is being moved, and that is when markers
// are left out. It is to be tried again before the id goes on.
func (m *Markers) resolve(ctx context.Context, cl *kgo.Client, id string, timeout time.Duration) error {
	if m == nil {
		return nil
	}
	open, asked, known := m.left(id)
	if known && !open {
		return nil
	}
	if open && !asked {
		m.note(id, func(a *account) { a.end(aborted) })
		return nil
	}
	within := askedWithin
	if open {
		within = askedLong
	}
	e, err := m.ask(ctx, cl, id, within)
	if open && mayBeTold(err) {
		return fmt.Errorf("ask how a transaction has ended: %w", err)
	}
	wrote := e.Partitions
	if open && e.Ongoing {
		m.log.Debug("a transaction that was asked to commit is open still; asking again", "id", id)
		if err := m.repeat(ctx, id, kafka.BusyAfter); err != nil && !errors.Is(err, kafka.ErrBusyID) {
			return err
		}
		if e, err = m.ask(ctx, cl, id, within); mayBeTold(err) {
			return fmt.Errorf("ask how a transaction ends: %w", err)
		}
	}
	if e.Ongoing {
		// A request to commit may be on its way still. The id is busy as soon as there is nothing left to ask for.
		if _, err := kafka.AskForEpoch(ctx, cl, id, timeout, 0); errors.Is(err, kafka.ErrBusyID) {
			if e, err = m.ask(ctx, cl, id, within); open && mayBeTold(err) {
				return fmt.Errorf("ask how a transaction ends: %w", err)
			}
		}
	}
	switch {
	case open && !e.Decided:
		m.note(id, func(a *account) { a.end(unknown) })
	case open:
		m.note(id, func(a *account) { a.end(outcomeOf(e.Commit)) })
	case !e.Decided:
		m.note(id, func(a *account) { a.inherit(nil, false) })
	default:
		m.note(id, func(a *account) { a.inherit(wrote, e.Commit) })
	}
	return nil
}

// mayBeTold reports whether what was not answered may be when it is asked again: not where a right is missing, or brokers do not know the question.
func mayBeTold(err error) bool {
	return err != nil && kafka.IsPassing(err) && !kafka.IsTooOld(err)
}

// claim asks for a new epoch of an id ([kafka.AskForEpoch]), and settles what the id owes before it goes on.
func (m *Markers) claim(ctx context.Context, cl *kgo.Client, id string, timeout, patience time.Duration) error {
	if err := m.repeat(ctx, id, patience); err != nil {
		return err
	}
	in, err := kafka.AskForEpoch(ctx, cl, id, timeout, patience)
	if err != nil {
		return err
	}
	return m.Settle(ctx, cl, id, in)
}

// decision is how a transaction of an id is to end, by what was asked for.
type decision struct {
	in     kafka.ProducerID
	commit bool
	bumps  bool // the transaction is one of transaction.version 2, where each end raises the epoch (KIP-890)
}

// repeat asks once more for the end of a transaction of an id that was asked for without an answer, before anybody asks for the id: who does
// aborts what is open, and that may be the rest of a transaction some of whose partitions are committed already. A coordinator that is killed
// when it has written the decision down and no replica has it, and is back before another one is chosen, acts on it, and the next one has never heard of it.
// While the decision is carried out it returns kafka.ErrBusyID, when that has lasted for as long as patience does.
func (m *Markers) repeat(ctx context.Context, id string, patience time.Duration) error {
	var d *decision
	m.note(id, func(e *account) { d = e.decided })
	if d == nil {
		return nil
	}
	err := kafka.EndAgain(ctx, m.client, id, d.in, d.commit, d.bumps, patience)
	switch v := kafka.VerdictOf(err); {
	case errors.Is(err, kafka.ErrBusyID): // it may be lost still
		return err
	case err != nil && (v == kafka.Unknown || v == kafka.Retry):
		return fmt.Errorf("ask for the end of a transaction again: %w", err)
	}
	m.note(id, func(e *account) { e.decided = nil })
	return nil
}

// ask asks for the end of an id's last transaction; where it is not told, nothing is decided.
func (m *Markers) ask(ctx context.Context, cl *kgo.Client, id string, within time.Duration) (kafka.Ending, error) {
	told, err := kafka.AskEndings(ctx, cl, within, id)
	if err != nil {
		m.log.Debug("it is not told how a transaction ends", "id", id, "error", err)
	}
	return told[id], err
}

// inherit notes how a transaction of an id ends that another process has begun: any of its partitions may lack its marker.
func (e *account) inherit(tps []kafka.TopicPartition, commit bool) {
	for _, tp := range tps {
		e.topics[tp.Topic] += 0
		e.owed[tp], e.last[tp] = time.Time{}, ended{how: outcomeOf(commit), first: -1}
		e.look = append(e.look, tp.Topic)
	}
}

// Fence ends whatever a writer has open ([kafka.Fence]). The first time it remembers where that may lack its marker: nobody else will write it.
func (m *Markers) Fence(ctx context.Context, cl *kgo.Client, ids []string, timeout time.Duration, first bool) error {
	if m == nil {
		_, err := kafka.Fence(ctx, cl, ids, timeout)
		return err
	}
	var before map[string]kafka.Ending
	if first {
		others := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
			_, _, known := m.left(id) // it is one of this process, or was fenced before
			return known
		})
		before, _ = kafka.AskEndings(ctx, cl, askedWithin, others...)
	}
	given, err := kafka.Fence(ctx, cl, ids, timeout)
	maps.DeleteFunc(before, func(_ string, e kafka.Ending) bool { return len(e.Partitions) == 0 })
	after, _ := kafka.AskEndings(ctx, cl, askedWithin, slices.Collect(maps.Keys(before))...)
	for id, e := range after {
		if e.Decided {
			m.note(id, func(a *account) {
				a.inherit(before[id].Partitions, e.Commit)
				a.given = &kafka.ProducerID{}
			})
		}
	}
	for id, in := range given {
		if m.fenced(id) {
			m.note(id, func(a *account) { a.given = &in })
		}
	}
	return err
}

// goneAfter is for how long a topic has not existed when it is forgotten: a broker may not have heard of it yet.
const goneAfter = 10 * time.Second

// miss takes in that a topic does not exist, and forgets it in time: nothing is owed to it, nor to one that is made anew under its name. The caller holds the lock.
func (m *Markers) miss(topic string) {
	written := slices.ContainsFunc(slices.Collect(maps.Values(m.ids)), func(e *account) bool { _, wrote := e.topics[topic]; return wrote })
	since, missed := m.missing[topic]
	switch {
	case !written:
		return
	case !missed:
		m.missing[topic] = time.Now()
		return
	case time.Since(since) < goneAfter:
		return
	}
	delete(m.missing, topic)
	of := func(tp kafka.TopicPartition) bool { return tp.Topic == topic }
	maps.DeleteFunc(m.leaders, func(tp kafka.TopicPartition, _ kafka.Leader) bool { return of(tp) })
	maps.DeleteFunc(m.lapses, func(tp kafka.TopicPartition, _ uint64) bool { return of(tp) })
	for _, e := range m.ids {
		if slices.Contains(e.open, topic) {
			continue // when that has ended
		}
		delete(e.topics, topic)
		e.look = slices.DeleteFunc(e.look, func(look string) bool { return look == topic })
		maps.DeleteFunc(e.last, func(tp kafka.TopicPartition, _ ended) bool { return of(tp) })
		maps.DeleteFunc(e.owed, func(tp kafka.TopicPartition, _ time.Time) bool { return of(tp) })
	}
}

// fenced reports whether this process has ended a transaction of an id whose writer has ended.
func (m *Markers) fenced(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.ids[id]
	return e != nil && e.given != nil
}

const (
	lookEvery  = 5 * time.Second        // at who leads the partitions that groups have their offsets in
	lookSooner = 500 * time.Millisecond // and others, while an end is owed to them by writers that this process has fenced
)

// Run writes what writers owe that this process has fenced, until ctx ends.
func (m *Markers) Run(ctx context.Context, cl *kgo.Client) {
	for {
		ids, topics := m.inherited()
		if err := m.Look(ctx, cl, append(topics, kafka.OffsetsTopic)); err != nil && ctx.Err() == nil {
			m.log.Debug("leaders of partitions cannot be looked up; asking again", "error", err)
		}
		for _, id := range ids {
			if m.Owes(id) {
				m.settleFor(ctx, cl, id)
			}
		}
		pause := lookEvery
		if len(ids) > 0 {
			pause = lookSooner
		}
		if !wait.For(ctx, pause) {
			return
		}
	}
}

// inherited are the ids of writers that this process has fenced, and that an end is owed by, and the topics of those partitions.
func (m *Markers) inherited() (ids, topics []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, e := range m.ids {
		switch {
		case e.given == nil:
		case len(e.owed) == 0: // its topics are gone
			delete(m.ids, id)
		default:
			ids = append(ids, id)
			topics = append(topics, topicsOf(slices.Collect(maps.Keys(e.owed)))...)
		}
	}
	slices.Sort(topics)
	return ids, slices.Compact(topics)
}

// settleFor settles what the id of a writer owes that has ended. If that is back, the id is its own.
func (m *Markers) settleFor(ctx context.Context, cl *kgo.Client, id string) {
	told, err := kafka.AskEndings(ctx, cl, askedWithin, id)
	e := told[id]
	if err != nil || e.Decided && !e.Ended {
		return // it is on its way
	}
	var given kafka.ProducerID
	m.note(id, func(a *account) { given = *a.given })
	back := !e.Ended && e.In != given
	if !back {
		if err = m.repeat(ctx, id, 0); err == nil {
			err = m.Settle(ctx, cl, id, e.In)
		}
		back = kafka.VerdictOf(err) == kafka.Fenced
	}
	if err != nil && !back {
		m.log.Debug("the end of a transaction cannot be written again yet", "id", id, "error", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if back || len(m.ids[id].owed) == 0 {
		delete(m.ids, id)
	}
}

// Counts are how many ends were written again to partitions that are known to have been without a leader, and how many partitions there are that
// lack one maybe.
func (m *Markers) Counts() (written, owed int64) {
	if m == nil {
		return 0, 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[kafka.TopicPartition]bool{}
	for _, e := range m.ids {
		for tp := range e.owed {
			all[tp] = true
		}
	}
	return m.written.Load(), int64(len(all))
}

// tellEvery is how often the log tells that something was written again.
const tellEvery = time.Minute

// tells counts partitions that the end was written to again, and reports whether the log is to tell of it: not of each id of every lane, and not where a writer was
// fenced and nothing is known of a partition without a leader.
func (m *Markers) tells(tps []kafka.TopicPartition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, tp := range tps {
		if m.lapses[tp] > 0 {
			n++
		}
	}
	m.written.Add(int64(n))
	tells := n > 0 && time.Since(m.toldAt) >= tellEvery
	if tells {
		m.toldAt = time.Now()
	}
	return tells
}
