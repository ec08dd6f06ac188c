package processor

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/topics"
)

// selection is what the next turn takes of what is due: of which partitions, and how much. It belongs to the lane.
type selection struct {
	*kit
	batch     batch                 // how much a turn takes
	resizedAt time.Time             // when it was last said that turns are made smaller
	served    int                   // how often partitions were asked for what is due
	narrowing bool                  // there may be suspects (suspect.go)
	lost      lost                  // time, to the search for those to blame
	due       []*partition          // scratch
	ofRoute   map[*topics.Route]int // scratch: how many of them each route has
	spare     [][]pending.Item      // memory of parts that have been settled
}

func newSelection(k *kit) selection {
	s := selection{kit: k}
	s.batch = s.most()
	return s
}

// records takes what is due, up to the bounds of a batch, and says whether more may be due. No route gets less of the batch than its weight
// is of those that have something due, and none of its partitions less than an equal share of that, if they want as much: those that
// want least of their share come first, and what they leave is shared among the others (weighted max-min fairness). Where there are more
// partitions than records in a batch, those come first that have waited longest. While a quota lasts it takes nothing.
func (s *selection) records(ps []*partition, now int64) (parts []*part, full bool) {
	if s.quota.Lasts() {
		return nil, false
	}
	if parts = s.narrow(ps, now); len(parts) > 0 {
		return parts, false
	}
	due := s.due[:0]
	for _, p := range ps {
		if p.wanted = p.wants(now); p.wanted > 0 {
			due = append(due, p)
		}
	}
	s.due, s.served = due, s.served+1
	if len(due) > s.batch.records {
		slices.SortStableFunc(due, func(a, b *partition) int { return cmp.Compare(a.served, b.served) })
		due, full = due[:s.batch.records], true
	}
	claims := s.claims(due)
	slices.SortStableFunc(due, func(a, b *partition) int { return cmp.Compare(float64(a.wanted)/a.claim, float64(b.wanted)/b.claim) })
	left := s.batch
	for i, p := range due {
		part := p.claim / claims
		if claims -= p.claim; i == len(due)-1 {
			part = 1
		}
		share := batch{max(int(math.Round(part*float64(left.records))), 1), max(int64(part*float64(left.bytes)), 1)}
		items := s.items()
		pt := p.take(now, items, share.records, share.bytes)
		if pt == nil {
			s.spare = append(s.spare, items)
			continue
		}
		size := pt.Size()
		left.records, left.bytes = left.records-len(pt.Items), left.bytes-size
		full = full || len(pt.Items) >= share.records || size >= share.bytes
		parts = s.serve(parts, pt)
	}
	return parts, full
}

// claims says how much of a turn each partition may claim, and how much all of them: the weight of a route is divided by how many of its
// partitions have something due.
func (s *selection) claims(due []*partition) (all float64) {
	if s.ofRoute == nil {
		s.ofRoute = map[*topics.Route]int{}
	}
	clear(s.ofRoute)
	for _, p := range due {
		s.ofRoute[p.route]++
	}
	for _, p := range due {
		p.claim = float64(p.route.Weight) / float64(s.ofRoute[p.route])
		all += p.claim
	}
	return all
}

func (s *selection) serve(parts []*part, pt *part) []*part {
	pt.p.Begin()
	pt.p.served = s.served
	return append(parts, pt)
}

// resize makes the batches fit what a turn has shown. The time for which a quota keeps the lane
// waiting afterwards is time that the turn took.
func (s *selection) resize(t *turn) {
	throttled := s.quota.Left()
	took := time.Since(t.began) + throttled
	was := s.batch
	s.batch = was.after(t.brought(), took, s.cfg.TurnTimeout, s.most())
	if s.batch.records < was.records && time.Since(s.resizedAt) > time.Minute {
		s.resizedAt = time.Now()
		s.log.Warn("turns take long and are made smaller", "took", took, "throttled_by_a_quota", throttled, "records", s.batch.records, "bytes", s.batch.bytes)
	}
}

func (s *selection) most() batch { return batch{s.cfg.BatchRecords, s.cfg.BatchBytes} }

// items returns memory for the items of a part.
func (s *selection) items() []pending.Item {
	k := len(s.spare)
	if k == 0 {
		return nil
	}
	out := s.spare[k-1]
	s.spare = s.spare[:k-1]
	return out
}

// recycle keeps the memory of a part that has been settled.
func (s *selection) recycle(pt *part) {
	if cap(pt.Items) > 0 && len(s.spare) < 8 {
		clear(pt.Items)
		s.spare = append(s.spare, pt.Items[:0])
	}
	pt.Items = nil
}
