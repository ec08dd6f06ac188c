package processor

import (
	"cmp"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/pending"
)

// selection is what the next turn takes of what is due: of which partitions, and how much. It belongs to the lane.
type selection struct {
	*kit
	batch     batch            // how much a turn takes
	resizedAt time.Time        // when it was last said that turns are made smaller
	served    int              // how often partitions were asked for what is due
	narrowing bool             // there may be suspects (suspect.go)
	lost      lost             // time, to the search for those to blame
	due       []*partition     // scratch
	spare     [][]pending.Item // memory of parts that have been settled
}

func newSelection(k *kit) selection {
	s := selection{kit: k}
	s.batch = s.most()
	return s
}

// records takes what is due, up to the bounds of a batch, and says whether more may be due. No
// partition gets less than an equal share of the batch if it wants as much: those that want least
// come first, and what they leave is shared among the others. Where there are more partitions than
// records in a batch, those come first that have waited longest. While a quota lasts it takes nothing.
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
	slices.SortStableFunc(due, func(a, b *partition) int { return cmp.Compare(a.wanted, b.wanted) })
	left := s.batch
	for i, p := range due {
		share := batch{max(left.records/(len(due)-i), 1), max(left.bytes/int64(len(due)-i), 1)}
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
	s.batch = was.after(t.carried(), took, s.cfg.TurnTimeout, s.most())
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
