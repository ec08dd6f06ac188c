package processor

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

// selection is what the next turn takes of what is due: of which partitions, and how much. It belongs to the lane.
type selection struct {
	*kit
	batch     batch                 // how much a turn takes
	brisk     brisk                 // how much of that while others join it, or may
	resizedAt time.Time             // when it was last said that turns are made smaller
	served    int                   // how often partitions were asked for what is due
	search    search                // for the records that make turns fail
	room      batch                 // what is left of the turn that is rendered ahead, for those that join it
	joinedAt  time.Time             // when something last did
	fullAt    time.Time             // when the last turn was made that could not hold all that was due
	burstAt   time.Time             // and the first one, after a while without any
	due       []*partition          // scratch
	some      []*partition          // scratch: which of the lane's are asked
	ofRoute   map[*topics.Route]int // scratch: how many of them each route has
	spare     [][]pending.Item      // memory of parts that have been settled
}

func newSelection(k *kit) selection {
	s := selection{kit: k, search: search{targets: k.targets}}
	s.batch, s.brisk = s.most(), briskFirst
	return s
}

const (
	// joinShare is how much of a turn that is rendered ahead is left for those that join it.
	joinShare = 1. / 16
	// joinMemory is for how long turns are brisk when something has joined one.
	joinMemory = time.Second
	// burstMemory is for how long they are when a burst begins: by then what is to join has come.
	burstMemory = 100 * time.Millisecond
)

// records takes what is due, up to the bounds of a batch, and says whether more may be due. While a quota lasts it takes nothing.
func (s *selection) records(ps []*partition, now int64) (parts []*turn.Part, full bool) {
	if s.quota.Lasts() {
		return nil, false
	}
	if trials := s.search.narrow(ps, now); len(trials) > 0 {
		s.served++
		for _, t := range trials {
			parts = s.serve(parts, t.of.takeRepeat(t.records))
		}
		return parts, false
	}
	most := s.batch
	if first := most.times(float64(s.brisk)); first.records >= fewest.records && time.Since(s.fullAt) > joinMemory { // if it cannot hold all, a burst begins
		most = first
	}
	parts, _, full = s.share(ps, now, most)
	s.filled(full)
	return parts, full
}

// filled takes in whether a turn could not hold all that was due.
func (s *selection) filled(full bool) {
	if !full {
		return
	}
	now := time.Now()
	if now.Sub(s.fullAt) > joinMemory {
		s.burstAt = now
	}
	s.fullAt = now
}

// mayJoin reports whether something has joined a turn of late, or may, as a burst has only begun.
func (s *selection) mayJoin() bool {
	return time.Since(s.joinedAt) < joinMemory || time.Since(s.burstAt) < burstMemory
}

// ahead is records for a turn that is rendered while another one is in flight. It takes of those of which the last turn could not hold all that
// was due. The others join it when it begins, and what is due of other targets of these: what is due by then does not wait for another turn.
func (s *selection) ahead(ps []*partition, now int64) (parts []*turn.Part, full bool) {
	long, aside := s.which(ps, func(p *partition) bool { return p.more }), s.batch.times(joinShare)
	joined := len(long) < len(ps) || slices.ContainsFunc(ps, severalDue)
	if s.room = (batch{}); s.search.narrowing || s.quota.Lasts() || len(long) == 0 || !joined || aside.records == 0 {
		return s.records(ps, now)
	}
	most := batch{s.batch.records - aside.records, s.batch.bytes - aside.bytes}
	if s.mayJoin() {
		most = most.times(float64(s.brisk))
	}
	parts, s.room, full = s.share(long, now, most)
	s.filled(full)
	s.room.records, s.room.bytes = s.room.records+aside.records, s.room.bytes+aside.bytes
	return parts, full
}

// severalDue reports whether more is due of a partition than the last parts held, of several targets.
func severalDue(p *partition) bool {
	return p.opened() && pending.Beside{Partition: p.Partition}.May()
}

// join takes what is due of those that are in no turn, and of other targets of those that are in the one that is rendered ahead, up to what that
// has left.
func (s *selection) join(ps []*partition, now int64) (parts []*turn.Part, full bool) {
	if s.search.narrowing || s.room.records <= 0 || s.room.bytes <= 0 {
		return nil, false
	}
	parts, left, full := s.share(s.which(ps, func(p *partition) bool { return p.opened() && p.Undecided() == 0 }), now, s.room)
	again := s.which(ps, func(p *partition) bool { return severalDue(p) && p.Undecided() == 1 && p.wants(now) > 0 })
	for i, p := range again {
		share := left.times(1 / float64(len(again)-i))
		if share.records <= 0 || share.bytes <= 0 {
			continue
		}
		items := s.items()
		pt := p.part(pending.Beside{Partition: p.Partition}.Take(now, items, share.records, share.bytes))
		if pt == nil {
			s.keep(items)
			continue
		}
		records, size := pt.Weigh()
		left.records, left.bytes = left.records-records, left.bytes-size
		parts = s.serve(parts, pt)
	}
	if len(parts) > 0 {
		s.joinedAt = time.Now()
	}
	return parts, full
}

func (s *selection) which(ps []*partition, is func(*partition) bool) []*partition {
	s.some = s.some[:0]
	for _, p := range ps {
		if is(p) {
			s.some = append(s.some, p)
		}
	}
	return s.some
}

// share takes what is due, up to some bounds, and says what is left of these. No route gets less than its weight is of those that have something
// due, and none of its partitions less than an equal share of that, if they want as much: those that want least of their share come first, and
// what they leave is shared among the others (weighted max-min fairness). Where there are more partitions than records, those come first that have
// waited longest.
func (s *selection) share(ps []*partition, now int64, left batch) (parts []*turn.Part, rest batch, full bool) {
	due := s.due[:0]
	for _, p := range ps {
		if p.wanted = p.wants(now); p.wanted > 0 {
			due = append(due, p)
		}
		p.more = false
	}
	s.due, s.served = due, s.served+1
	if len(due) > left.records {
		slices.SortStableFunc(due, func(a, b *partition) int { return cmp.Compare(a.served, b.served) })
		for _, p := range due[left.records:] {
			p.more = true
		}
		due, full = due[:left.records], true
	}
	claims := s.claims(due)
	slices.SortStableFunc(due, func(a, b *partition) int { return cmp.Compare(float64(a.wanted)/a.claim, float64(b.wanted)/b.claim) })
	for i, p := range due {
		among(p).Others(s.others(p.tp.Topic))
		part := p.claim / claims
		if claims -= p.claim; i == len(due)-1 {
			part = 1
		}
		share := batch{max(int(math.Round(part*float64(left.records))), 1), max(int64(part*float64(left.bytes)), 1)}
		items := s.items()
		pt := p.take(now, items, share.records, share.bytes)
		if pt == nil {
			s.keep(items)
			continue
		}
		records, size := pt.Weigh()
		left.records, left.bytes = left.records-records, left.bytes-size
		p.more = records >= share.records || size >= share.bytes
		full = full || p.more
		parts = s.serve(parts, pt)
	}
	return parts, left, full
}

// others is how many other partitions a delay topic has than one of them, as far as that is known.
func (s *selection) others(topic string) int {
	if n := s.targets.Partitions(topic); n > 0 {
		return int(n) - 1
	}
	return pending.UnknownOthers
}

// claims says how much of a turn each partition may claim, and how much all of them: the weight of a route is divided by how many of its
// partitions have something due.
func (s *selection) claims(due []*partition) (all float64) {
	if s.ofRoute == nil {
		s.ofRoute = map[*topics.Route]int{}
	}
	clear(s.ofRoute)
	for _, p := range due {
		s.ofRoute[p.Route]++
	}
	for _, p := range due {
		p.claim = float64(p.Route.Weight) / float64(s.ofRoute[p.Route])
		all += p.claim
	}
	return all
}

func (s *selection) serve(parts []*turn.Part, pt *turn.Part) []*turn.Part {
	p := partitionOf(pt)
	p.Begin()
	p.served = s.served
	return append(parts, pt)
}

// resize makes the batches fit what a turn has shown. The time for which a quota keeps the lane
// waiting afterwards is time that the turn took. What it costs to begin and to decide it is the same whatever is in it, so where brokers are slow to answer
// it is the time until its records were acknowledged that counts: smaller turns would not be shorter, and never keep up.
func (s *selection) resize(t *turn.Turn) {
	carried := batchOf(t)
	throttled := s.quota.Left()
	took := time.Since(t.Began) + throttled
	was := s.batch
	if t.Full && throttled == 0 {
		s.brisk = s.brisk.after(carried, took, briskly(s.targets.Way()), was)
	}
	if t.Outcome == turn.Done && t.Sending > 0 {
		took = max(t.Sending, throttled)
	}
	least := fewest
	if t.Patience >= againAndAgain || s.quota.Recently(s.cfg.TurnTimeout) {
		least = single
	}
	s.batch = was.after(carried, took, s.cfg.TurnTimeout, least, s.most())
	if s.batch.records < was.records && time.Since(s.resizedAt) > time.Minute {
		s.resizedAt = time.Now()
		s.log.Warn("turns take long and are made smaller", "took", took, "throttled_by_a_quota", throttled, "records", s.batch.records, "bytes", s.batch.bytes)
	}
}

func (s *selection) most() batch { return batch{s.cfg.BatchRecords, s.cfg.BatchBytes} }

// items returns memory for the items of a part: the most that there is, so that it hardly ever has to grow.
func (s *selection) items() []pending.Item {
	most := -1
	for i, items := range s.spare {
		if most < 0 || cap(items) > cap(s.spare[most]) {
			most = i
		}
	}
	if most < 0 {
		return nil
	}
	out, last := s.spare[most], len(s.spare)-1
	s.spare[most], s.spare[last] = s.spare[last], nil
	s.spare = s.spare[:last]
	return out
}

// recycle keeps the memory of a part that has been settled, as far as it is not more than two turns take.
func (s *selection) recycle(pt *turn.Part) {
	clear(pt.Items)
	s.keep(pt.Items)
	pt.Items = nil
}

func (s *selection) keep(items []pending.Item) {
	all := cap(items)
	for _, kept := range s.spare {
		all += cap(kept)
	}
	if cap(items) > 0 && len(s.spare) < mostSpare && all <= 2*s.cfg.BatchRecords {
		s.spare = append(s.spare, items[:0])
	}
}

// mostSpare is of how many parts memory is kept: they are looked through for each part.
const mostSpare = 64
