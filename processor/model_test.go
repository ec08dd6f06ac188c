package processor

import (
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/duewheel/duewheel/processor/clock"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// One partition against a model. The model is the log, a checkpoint, and for each offset whether
// it has been resolved; what is pending follows from the log and the checkpoint alone, as
// DESIGN.md defines it. The lane's parts are driven in any order: records come and are
// read, turns begin, happen, are refused or stay unknown, the process crashes and comes back with
// all, a part or nothing of its store and under another configuration.
//
// After each decision: every record is resolved once, none early, in the order of keys, and what
// a replay from the checkpoint gives is exactly what has not been resolved.
type model struct {
	*rapid.T
	l     *lane
	p     *partition
	fs    *vfs.MemFS
	full  atomic.Bool // the disk
	rests int         // of the store, that were cut short

	log       []*kgo.Record // by offset
	open      bool          // the end of the log is a transaction of ours whose marker is on its way
	stable    int64         // a reader sees what is below
	now       int64
	committed state.Checkpoint
	spec      map[int64]string // of records that were accepted: the parser
	clock     map[int64]int64  // ms, by offset: the least that the clock has shown since it was there
	resolved  map[int64]bool   // delivered or dead-lettered
	again     map[int64]bool   // at_least_once: may be resolved twice
	parts     []*turn.Part     // undecided, in the order in which they were made
	beside    *turn.Part       // at_least_once: a checkpoint that is being written
	accepted  int64            // O as it was found
	lastKey   state.Key        // of what was taken out last; W never goes back
	splits    *int             // parts that were tried again in two
}

func TestPartitionModel(t *testing.T)            { checkModel(t, ExactlyOnce) }
func TestPartitionModelAtLeastOnce(t *testing.T) { checkModel(t, AtLeastOnce) }

func checkModel(t *testing.T, guarantee Guarantee) {
	l := testLane(t, func(c *Config) { c.Guarantee = guarantee })
	splits := 0
	defer func() {
		if !t.Failed() && !testing.Short() && splits == 0 {
			t.Error("no part was split")
		}
	}()
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{
			T: rt, l: l, now: testNow, fs: vfs.NewCrashableMem(), splits: &splits,
			spec: map[int64]string{}, clock: map[int64]int64{}, resolved: map[int64]bool{}, committed: state.Checkpoint{Offset: -1},
		}
		m.openStore()
		defer func() { l.store.Close() }()
		l.memory.budget = rapid.SampledFrom([]int64{1 << 30, 100 << 10, 1}).Draw(rt, "budget")
		l.memory.window, l.memory.used = l.windowMax, 0
		m.configure()
		m.restore()
		rt.Repeat(map[string]func(*rapid.T){
			"produce": m.produce,
			"arrive":  func(t *rapid.T) { m.produce(t); m.read(t) },
			"read":    m.read,
			"marker":  m.marker,
			"tick":    m.tick,
			"begin":   m.begin,
			"ahead":   func(t *rapid.T) { m.begin(t); m.begin(t) },
			"decide":  m.decide,
			"smaller": m.smaller,
			"commit":  m.commit,
			"answer":  m.answer,
			"flush":   func(*rapid.T) { m.flush() },
			"disk":    m.disk,
			"crash":   m.crash,
			"":        m.work,
		})
		m.drain()
	})
}

func (m *model) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatalf("%+v", err)
	}
}

// readAgain is what the lane does with a partition without a store.
func (m *model) readAgain() {
	m.rests++
	m.l.store.Now = func() time.Time { return time.Now().Add(time.Duration(m.rests) * time.Hour) } // the pause is over
	works := m.l.store.Try() == nil
	m.l.store.Now = time.Now
	m.p.liveAt = time.Time{}
	if !m.p.Storeless() || len(m.parts) > 0 || m.beside != nil || !m.p.live() || !works && !m.p.usedUp(m.now, m.l.memory.room(len(m.l.order))) {
		return
	}
	if m.l.cfg.Guarantee == AtLeastOnce && !m.p.Settled() {
		return
	}
	m.restore()
}

// restore brings the partition up from the checkpoint and the store.
func (m *model) restore() {
	var err error
	before, now := m.committed, m.now
	m.l.clock = clock.New(func() time.Time { return time.UnixMilli(now) }, time.Second, m.l.log)
	m.p, err = m.l.assign(before, 0, m.stable, m.end())
	m.must(err)
	if m.committed = m.p.Marks().Committed; before.Offset >= 0 && (m.committed.Offset != before.Offset || !m.p.Ordered() && m.committed.Watermark != before.Watermark || m.committed.LowWater != before.LowWater) {
		m.Fatalf("claimed %+v, found %+v", m.committed, before)
	}
	m.parts, m.beside, m.lastKey, m.accepted = nil, nil, m.committed.Watermark, m.committed.Offset
}

// read lets the lane read some records.
func (m *model) read(t *rapid.T) {
	n := rapid.SampledFrom([]int64{1, 2, 5, 1000}).Draw(t, "records")
	m.readUpTo(m.p.Marks().Position + n)
}

func (m *model) readUpTo(end int64) {
	if m.p.paused {
		return
	}
	for m.p.Marks().Position < min(end, m.stable) {
		r := *m.log[m.p.Marks().Position]
		fresh := r.Offset >= m.accepted
		p := m.p
		m.withStore(m.l.intake(p).accept(&r, m.now))
		if m.p != p {
			return // it starts over
		}
		if spec, ok := parserAt(m.p.Marks().Committed.Parsers, r.Offset); fresh && ok {
			m.spec[r.Offset] = spec
		}
	}
	m.withStore(m.p.Sync())
}

// work is what a step of the lane does before it begins a turn.
func (m *model) work(*rapid.T) {
	m.withStore(m.l.balance(m.now))
	m.withStore(m.p.Load(m.now, m.l.memory.room(len(m.l.order))))
	m.readAgain()
	if p := m.p; p.phase == PhaseCatchUp && (p.Marks().Position >= p.logEnd || p.Ordered()) {
		m.withStore(p.goLive(m.l.memory.room(len(m.l.order))))
		m.withStore(m.p.Load(m.now, m.l.memory.room(len(m.l.order))))
		m.purity(m.committed)
	}
	m.must(pending.Check(m.p.Partition))
	m.wakes()
}

// wakes fails when the lane would sleep although something is due.
func (m *model) wakes() {
	p := m.p
	if !p.live() || p.Undecided() > 0 || len(p.Repeated()) > 0 {
		return
	}
	first := int64(math.MaxInt64)
	for offset := range m.p.Marks().Position {
		if key, ok := m.key(offset); ok && !m.resolved[offset] && !(p.Storeless() && p.Horizon().Less(key)) { // else it is read again first
			first = min(first, key.Due)
			if p.Ordered() {
				break // it waits for those before it
			}
		} else if p.Ordered() && m.request(offset) && !m.resolved[offset] {
			first = 0
			break
		}
	}
	due, ok := p.nextDue()
	if first < math.MaxInt64 && (!ok || due > max(first, p.Marks().LateUpTo.Due)) {
		m.Fatalf("the lane sleeps until %d (%v), and a record is due at %d", due, ok, first)
	}
}

// begin makes a part for the next turn, or for the one rendered ahead.
func (m *model) begin(t *rapid.T) {
	m.take(rapid.SampledFrom([]int{1, 2, 5, 1000}).Draw(t, "records"), rapid.SampledFrom([]int64{1, 4000, 1 << 30}).Draw(t, "bytes"))
}

func (m *model) take(records int, bytes int64) bool {
	p := m.p
	if !p.live() || len(m.parts) == 2 {
		return false
	}
	var whole *pending.Part
	if len(p.Repeated()) > 0 {
		whole = p.Repeated()[0]
	}
	from := p.Marks().LateUpTo
	clock := max(m.now, from.Due)
	pt := p.take(m.now, m.l.selection.items(), records, bytes)
	if pt == nil {
		return false
	}
	p.Begin()
	m.parts = append(m.parts, pt)
	if len(pt.Items) > records {
		m.Fatalf("%d records in a part of at most %d", len(pt.Items), records)
	}
	if whole != nil {
		if pt.Part != whole {
			*m.splits++
		}
		return true
	}
	last := int64(-1) // of the late list
	for _, it := range pt.Items {
		key, ok := m.key(it.Offset)
		switch {
		case p.Ordered() && ok && it.Refusal == nil && m.seenSince(it.Offset, it.Key.Due, key.Due):
		case ok && it.Key != key && it.Key != (state.Key{}) || !ok && it.Refusal == nil:
			m.Fatalf("record %d has key %v, want %v (%v) by %q; refused: %v; %+v", it.Offset, it.Key, key, ok, m.spec[it.Offset], it.Refusal, p.Marks().Committed)
		case it.Refusal == nil && it.Key.Due > clock:
			m.Fatalf("record %d is early: due at %d, and it is %d", it.Offset, it.Key.Due, clock)
		case p.Ordered() || it.Refusal != nil || !from.Less(it.Key): // in the order of the log
			if it.Offset <= last {
				m.Fatalf("late record %d after %d", it.Offset, last)
			}
			last = it.Offset
		case it.Overtakes():
			if !pt.To.Watermark.Less(it.Key) {
				m.Fatalf("record %d with key %v overtakes, and W is %v", it.Offset, it.Key, pt.To.Watermark)
			}
		default:
			if !m.lastKey.Less(it.Key) {
				m.Fatalf("record %d with key %v after %v", it.Offset, it.Key, m.lastKey)
			}
			m.lastKey = it.Key
		}
	}
	return true
}

// decide lets the oldest undecided turn happen, or not.
func (m *model) decide(t *rapid.T) {
	if len(m.parts) == 0 {
		return
	}
	switch rapid.IntRange(0, 9).Draw(t, "outcome") {
	case 0, 1, 2:
		m.refuse()
	case 3: // unknown, and it has happened
		m.happen(true)
		m.comeBack(t)
	case 4: // unknown, and it has not
		m.comeBack(t)
	default:
		m.happen(false)
	}
}

// smaller is a turn that is known not to have happened, and is tried again one record at a time.
func (m *model) smaller(*rapid.T) {
	if len(m.parts) > 0 {
		m.refuse()
		m.take(1, 1<<30)
	}
}

// refuse is a turn that is known not to have happened; what was rendered ahead is put back.
func (m *model) refuse() {
	m.l.turns.repeat(&turn.Turn{Env: m.l.turnEnv(), Tried: m.parts[:1], Err: errors.New("refused")})
	for i, pt := range m.parts {
		if m.p.End(); i > 0 {
			m.p.Repeat(pt.Part, 0)
		}
	}
	m.parts = nil
}

// happen is a turn that happens; unseen, the lane does not learn of it.
func (m *model) happen(unseen bool) {
	pt := m.parts[0]
	m.parts = m.parts[1:]
	var end int64
	for i := range pt.Items {
		it := &pt.Items[i]
		if m.resolved[it.Offset] && !m.again[it.Offset] {
			m.Fatalf("record %d is resolved twice", it.Offset)
		}
		m.resolved[it.Offset] = true
		if it.Resolve {
			m.open = true
			m.append(&kgo.Record{Timestamp: time.UnixMilli(m.now), Headers: topics.Resolve(testMark, it.Offset, it.Key.Due, it.Key.Seq)})
			end = m.end()
			pt.To.Appended = true
		}
	}
	if m.l.cfg.Guarantee == ExactlyOnce {
		m.write(pt.To)
	}
	if unseen {
		return
	}
	m.p.End()
	m.l.turns.settle(&turn.Turn{Env: m.l.turnEnv(), Tried: []*turn.Part{pt}, OwnEnds: map[*turn.Part]int64{pt: end}})
	if len(m.parts) > 0 { // the lane's release
		next := m.parts[0]
		next.To.Appended = next.To.Appended || m.p.Marks().OwnEnd > next.To.Offset
	}
}

// commit writes a checkpoint that has moved on: in exactly_once when no turn is in flight, in
// at_least_once beside turns, and the answer takes a while.
func (m *model) commit(*rapid.T) {
	if !m.p.live() || m.beside != nil || len(m.parts) > 0 && m.l.cfg.Guarantee == ExactlyOnce {
		return
	}
	if m.beside = m.p.prepareCommit(); m.beside != nil && m.l.cfg.Guarantee == ExactlyOnce {
		m.wrote()
	}
}

// answer tells that the checkpoint was written, or refused.
func (m *model) answer(t *rapid.T) {
	if m.beside != nil && rapid.IntRange(0, 3).Draw(t, "refused") == 0 {
		m.beside = nil
	}
	m.wrote()
}

func (m *model) wrote() {
	pt := m.beside
	if pt == nil {
		return
	}
	m.beside = nil
	m.write(pt.To)
	m.l.checkpoints.wrote(&turn.Turn{Env: m.l.turnEnv(), Tried: []*turn.Part{pt}})
	m.withStore(m.p.tidyStore())
	m.withStore(m.p.Tidy(true)) // what tidyStore does when it is worth its while
}

// write commits a checkpoint.
func (m *model) write(c state.Checkpoint) {
	was := m.committed
	if c.Offset < was.Offset || c.Watermark.Less(was.Watermark) || c.LowWater < was.LowWater || c.Offset > m.end() {
		m.Fatalf("the checkpoint goes from %+v to %+v", was, c)
	}
	md, err := c.Metadata()
	m.must(err)
	m.committed, err = state.ParseCheckpoint(c.Offset, state.NoEpoch, md)
	m.must(err)
	m.purity(m.committed)
}

// request reports whether a record is one that has to be resolved.
func (m *model) request(offset int64) bool {
	r := m.log[offset]
	return !r.Attrs.IsControl() && (len(r.Headers) == 0 || r.Headers[0].Key != topics.HeaderResolve)
}

// key is the key of a record as the parser at its offset gives it; false when it has none.
func (m *model) key(offset int64) (state.Key, bool) {
	if !m.request(offset) {
		return state.Key{}, false
	}
	spec, ok := m.spec[offset]
	if !ok {
		return state.Key{}, false
	}
	parser, err := topics.ParserFor(spec)
	m.must(err)
	r := m.log[offset]
	q, err := parser.Parse(r.Headers, topics.StampOf(r), offset, testMark)
	return state.Key{Due: q.Due, Seq: offset}, err == nil
}

// replayed is what a replay from the checkpoint takes for resolved: all below O but what is
// pending by definition.
func (m *model) replayed() map[int64]bool {
	resolved, gone, c := map[int64]bool{}, m.gone(), m.committed
	for offset := range c.Offset {
		key, ok := m.key(offset)
		if m.request(offset) && (offset < c.LowWater || !ok || !c.Watermark.Less(key) || gone[offset]) {
			resolved[offset] = true
		}
	}
	return resolved
}

// gone are the offsets that resolve records name.
func (m *model) gone() map[int64]bool {
	gone := map[int64]bool{}
	for _, r := range m.log {
		if q, err := new(topics.Parser).Parse(r.Headers, topics.StampOf(r), r.Offset, testMark); err == nil && q.Kind == topics.KindResolve {
			gone[q.ResolveOffset] = true
		}
	}
	return gone
}

// purity fails unless what a replay gives is exactly what has not been resolved.
func (m *model) purity(c state.Checkpoint) {
	replayed := m.replayed()
	for offset := range m.end() {
		if m.request(offset) && replayed[offset] != m.resolved[offset] && (m.l.cfg.Guarantee == ExactlyOnce || replayed[offset]) {
			key, ok := m.key(offset)
			m.Fatalf("record %d (key %v %v): resolved is %v, and a replay from %+v says %v", offset, key, ok, m.resolved[offset], c, replayed[offset])
		}
	}
}

// drain lets everything happen that is left to do, and looks whether anything is kept for nothing.
func (m *model) drain() {
	for round := 0; ; round++ {
		if round == 500 { // without a store until now
			m.full.Store(false)
		}
		m.marker(m.T)
		m.readUpTo(m.end())
		m.work(m.T)
		for m.take(1000, 1<<30) {
		}
		for len(m.parts) > 0 {
			m.happen(false)
		}
		m.wrote()
		m.commit(m.T)
		m.wrote()
		if m.p.live() && m.committed.Offset == m.end() && len(m.resolved) == m.requests() && !m.open {
			break
		}
		if round == 1000 { // more than the clock may have been set back
			m.Fatalf("stuck: %d of %d records are resolved, position %d of %d, %+v, phase %s, paused %v", len(m.resolved), m.requests(), m.p.Marks().Position, m.end(), m.committed, m.p.phase, m.p.paused)
		}
		m.now += 1000
	}
	m.commit(m.T)
	m.wrote()
	m.must(pending.Check(m.p.Partition))
	if m.p.Pending() != 0 || !m.p.Settled() || m.committed.LowWater != m.end() {
		m.Fatalf("all is delivered, and pending are %d records, checkpoint %+v of %d", m.p.Pending(), m.committed, m.end())
	}
}

func (m *model) requests() (n int) {
	for offset := range m.end() {
		if m.request(offset) {
			n++
		}
	}
	return n
}

// parserAt is the parser configuration that holds for the record at an offset; false when none is known.
func parserAt(parsers []state.ParserEpoch, offset int64) (spec string, ok bool) {
	for _, p := range parsers {
		if p.From <= offset {
			spec, ok = p.Spec, true
		}
	}
	return spec, ok
}
