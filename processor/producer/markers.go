package producer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
)

// Markers sees to it that the end of each transaction comes to every partition that it has written to.
//
// A coordinator ends a transaction by a marker in each of its partitions (KIP-98). Where one has no leader at that moment, some versions of Kafka take it
// for deleted and leave its marker out (KAFKA-20734). Then its readers wait there, and the next marker of the same producer id ends both
// transactions: what was aborted is delivered when that one commits, and what was committed is lost when that one aborts. So where a partition has been without a
// leader since a transaction of an id began that may have written to it, its end is written there again ([kafka.WriteMarkers]) before
// the id goes on, and as soon as it has a leader. A marker too many changes nothing.
//
// It is nil where there are no transactions.
type Markers struct {
	client []kgo.Opt
	group  string
	log    *slog.Logger

	written atomic.Int64 // ends written again

	mu      sync.Mutex
	leaders map[kafka.TopicPartition]kafka.Leader // as they were last seen
	missing map[string]time.Time                  // topics that were written to, and do not exist any more: since when
	count   uint64                                // of lapses: a partition was seen without a leader, or has been
	lapses  map[kafka.TopicPartition]uint64       // the last one of each, by that count
	ids     map[string]*account
	toldAt  time.Time
}

// account is what is known of the transactions of an id.
type account struct {
	all     *Markers
	open    []string                           // topics that the one may write to which has begun and not ended
	acked   map[kafka.TopicPartition]int64     // and where it is known to have, from which offset on
	asked   bool                               // that one was asked to commit
	count   int                                // of transactions that have ended
	topics  map[string]int                     // that any may have written to; and which was the last of those that were aborted, by that count
	last    map[kafka.TopicPartition]ended     // the last one that is known to have written to a partition; to any of [kafka.OffsetsTopic], as its partition -1
	held    time.Time                          // since when it is waited for what others have open where this one may have something open; zero: it is not
	owed    map[kafka.TopicPartition]time.Time // partitions that may lack the marker of one, and before when it is not tried to write it
	decided *decision                          // not nil: what was asked for without an answer, and may not have been heard
	look    []string                           // topics whose leaders are to be looked up before the id goes on: one that may have written to them was aborted
	given   *kafka.ProducerID                  // not nil: this process has fenced the writer, and this is what the id was given then, if it was not busy
}

// ended is what is known of a transaction that has written to a partition.
type ended struct {
	how   outcome
	first int64 // where it begins there; -1: not known
	count int   // which one it was
}

type outcome int

const (
	aborted outcome = iota
	committed
	unknown
)

func outcomeOf(commit bool) outcome {
	if commit {
		return committed
	}
	return aborted
}

// everywhere stands for the partitions that a group may have its offsets in.
var everywhere = kafka.TopicPartition{Topic: kafka.OffsetsTopic, Partition: -1}

// NewMarkers is for the transactions of a group, and knows of none. The options are those of every client.
func NewMarkers(client []kgo.Opt, group string, log *slog.Logger) *Markers {
	return &Markers{client: client, group: group, log: log, leaders: map[kafka.TopicPartition]kafka.Leader{}, missing: map[string]time.Time{}, lapses: map[kafka.TopicPartition]uint64{}, ids: map[string]*account{}}
}

// Through gives the options that clients have from now on. Nothing is written yet.
func (m *Markers) Through(client []kgo.Opt) { m.client = client }

// See takes in what metadata says of the leaders of a topic's partitions: that there are none, of one that does not exist. It is told before anybody writes to
// one for what that says.
func (m *Markers) See(topic string, leaders map[int32]kafka.Leader) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(leaders) == 0 {
		m.miss(topic)
		return
	}
	delete(m.missing, topic)
	for partition, is := range leaders {
		tp := kafka.TopicPartition{Topic: topic, Partition: partition}
		was, known := m.leaders[tp]
		m.leaders[tp] = is
		// Whenever a leader goes or comes there is another epoch, and the first one is 0. Of what is seen only now nothing is known but that: brokers may
		// have told of a topic whoever writes to it, and not whoever asked here.
		if !is.There && (was.There || !known || is.Epoch > was.Epoch) || is.There && is.Epoch > was.Epoch+1 {
			if known {
				m.count++
				m.lapses[tp] = m.count
			}
			for _, e := range m.ids {
				if _, wrote := e.topics[topic]; wrote {
					e.owed[tp] = time.Time{}
				}
			}
		}
	}
}

// of is what is known of an id. The caller holds the lock.
func (m *Markers) of(id string) *account {
	e := m.ids[id]
	if e == nil {
		e = &account{all: m, topics: map[string]int{}, last: map[kafka.TopicPartition]ended{}, owed: map[kafka.TopicPartition]time.Time{}}
		m.ids[id] = e
	}
	return e
}

// note has something noted of an id.
func (m *Markers) note(id string, what func(*account)) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	what(m.of(id))
}

// begin notes that a transaction has its offsets, and may write to topics from now on.
func (e *account) begin(topics []string) {
	e.open, e.acked, e.asked = append(topics, kafka.OffsetsTopic), map[kafka.TopicPartition]int64{everywhere: 0}, false
	for _, topic := range e.open {
		e.topics[topic] += 0
	}
}

// wrote notes where it has written to.
func (e *account) wrote(acked []*kgo.Record) {
	for i, r := range acked {
		if i > 0 && r.Partition == acked[i-1].Partition && r.Topic == acked[i-1].Topic {
			continue // the later one of a batch
		}
		tp := kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}
		if first, also := e.acked[tp]; !also || r.Offset < first {
			e.acked[tp] = r.Offset
		}
	}
}

// end notes how it has ended, or will.
func (e *account) end(how outcome) {
	e.count++
	for tp, first := range e.acked {
		e.last[tp] = ended{how, first, e.count}
	}
	if how != committed {
		e.look = append(e.look, e.open...)
		for _, topic := range e.open {
			e.topics[topic] = e.count
		}
	}
	e.open = nil
}

// left tells whether a transaction of an id has begun whose end was not noted, whether that was asked to commit, and whether anything was ever noted
// of the id.
func (m *Markers) left(id string) (open, asked, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.ids[id]
	if e == nil {
		return false, false, false
	}
	return len(e.open) > 0, e.asked, true
}

// Owes reports whether the end of a transaction of an id is to be written again, and can be.
func (m *Markers) Owes(id string) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.ids[id]
	if e == nil {
		return false
	}
	for tp, from := range e.owed {
		if m.canBe(tp, from) {
			return true
		}
	}
	return false
}

// canBe reports whether a marker can be written. The caller holds the lock.
func (m *Markers) canBe(tp kafka.TopicPartition, from time.Time) bool {
	return m.leaders[tp].There && !time.Now().Before(from)
}

// payable are the partitions that it is to be written to, and can be.
func (m *Markers) payable(id string) (tps []kafka.TopicPartition, before uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for tp, from := range m.of(id).owed {
		if m.canBe(tp, from) {
			tps = append(tps, tp)
		}
	}
	slices.SortFunc(tps, kafka.Compare)
	return tps, m.count
}

// ends are how what is open in partitions ends, by how the last transaction of an id has that is known to have written there. Where it has been committed, and
// one that may have written there was aborted since, the last stable offset tells which of them is open: the committed one begins there, or it lies above, unless others
// have something open further down. That is waited for, but not for long: then it is taken for the committed one.
func (m *Markers) ends(ctx context.Context, cl *kgo.Client, id string, tps []kafka.TopicPartition) (map[outcome][]kafka.TopicPartition, error) {
	var last map[kafka.TopicPartition]ended
	m.note(id, func(e *account) { last = e.lastOf(tps) })
	var ask []kafka.TopicPartition
	for tp, e := range last {
		if e.how == committed && e.first >= 0 {
			ask = append(ask, tp)
		}
	}
	bounds, err := kafka.AskBounds(ctx, cl, ask)
	ends, held := map[outcome][]kafka.TopicPartition{}, false
	for _, tp := range tps {
		e := last[tp]
		if slices.Contains(ask, tp) {
			switch b := bounds[tp]; {
			case err != nil || b.Err != nil: // its leader is in trouble, which is no reason to wait
				m.note(id, func(e *account) { e.owed[tp] = time.Now().Add(markerAgain) })
				continue
			case b.Stable > e.first:
				e.how = aborted
			case b.Stable < e.first:
				held = true
			}
		}
		ends[e.how] = append(ends[e.how], tp)
	}
	m.note(id, func(e *account) { held = e.waits(held) })
	if held {
		return nil, errHeld
	}
	return ends, nil
}

const (
	// markerAgain is when it is tried again to write a marker to a partition whose leader does not answer.
	markerAgain = time.Second
	// heldMost is how long others are waited for that may have lost their markers at the same time.
	heldMost = 5 * time.Second
)

var errHeld = errors.New("producer: a partition has had no leader, and other writers have something open there before what this one has written")

// waits reports whether to wait for others where they hold it up.
func (e *account) waits(held bool) bool {
	switch {
	case !held:
		e.held = time.Time{}
	case e.held.IsZero():
		e.held = time.Now()
	}
	return held && time.Since(e.held) < heldMost
}

// lastOf are the last transactions that are known to have written to partitions. Where each begins does not matter, and is -1, if none that may have written there
// was aborted since.
func (e *account) lastOf(tps []kafka.TopicPartition) map[kafka.TopicPartition]ended {
	last := map[kafka.TopicPartition]ended{}
	for _, tp := range tps {
		was, wrote := e.last[tp]
		if tp.Topic == kafka.OffsetsTopic {
			was, wrote = cmp.Or(was, e.last[everywhere]), true
			was.first = -1
		} else if e.topics[tp.Topic] < was.count {
			was.first = -1
		}
		if wrote {
			last[tp] = was
		}
	}
	return last
}

// Settle writes the end of transactions of an id again wherever that is owed and can be, with the producer id and epoch that it was given last. No
// transaction of it is open, and all have come to their end. With an error it is to be tried again before the id goes on.
func (m *Markers) Settle(ctx context.Context, cl *kgo.Client, id string, in kafka.ProducerID) error {
	if m == nil {
		return nil
	}
	var topics []string
	m.note(id, func(e *account) { topics = slices.Clone(e.look) })
	if len(topics) > 0 {
		if err := m.Look(ctx, cl, topics); err != nil {
			return err
		}
		m.note(id, func(e *account) {
			e.look = slices.DeleteFunc(e.look, func(topic string) bool { return slices.Contains(topics, topic) })
		})
	}
	payable, before := m.payable(id)
	ends, err := m.ends(ctx, cl, id, payable)
	if err != nil {
		return err
	}
	m.note(id, func(e *account) { e.paid(ends[unknown], before) })
	for _, how := range []outcome{aborted, committed} {
		tps := ends[how]
		if len(tps) == 0 {
			continue
		}
		m.note(id, func(e *account) { e.decided = &decision{in: in, commit: how == committed} })
		refused, err := kafka.WriteMarkers(ctx, m.client, m.group, id, in, how == committed, tps)
		level := slog.LevelDebug
		switch v := kafka.VerdictOf(err); {
		case err == nil && m.tells(tps):
			level = slog.LevelInfo
		case err == nil:
		case v == kafka.Refused, v == kafka.Stop: // another try would be, too
			level = slog.LevelWarn
		default:
			return fmt.Errorf("write the end of a transaction again: %w", err)
		}
		m.note(id, func(e *account) { e.decided = nil })
		if err := m.Look(ctx, cl, topicsOf(tps)); err != nil {
			return err // it is not known whether they had a leader then
		}
		m.note(id, func(e *account) { e.paid(tps, before) })
		m.log.Log(ctx, level, "partitions may have had no leader when a transaction ended; its end was written to them again", "id", id, "partitions", tps, "committed", how == committed,
			"refused", len(refused), "error", err)
	}
	return nil
}

// topicsOf are those of partitions, which are in order.
func topicsOf(tps []kafka.TopicPartition) (topics []string) {
	for _, tp := range tps {
		topics = append(topics, tp.Topic)
	}
	return slices.Compact(topics)
}

// Look sees who leads the partitions of topics now.
func (m *Markers) Look(ctx context.Context, cl *kgo.Client, topics []string) error {
	leaders, err := kafka.AskLeaders(ctx, cl, topics)
	for topic, of := range leaders {
		m.See(topic, of)
	}
	return err
}

// paid notes that the end was written to partitions, after so many lapses.
func (e *account) paid(tps []kafka.TopicPartition, before uint64) {
	maps.DeleteFunc(e.owed, func(tp kafka.TopicPartition, _ time.Time) bool {
		return slices.Contains(tps, tp) && e.all.lapses[tp] <= before
	})
}
