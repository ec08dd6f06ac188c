package processor

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// batch is how much one turn takes: what the configuration says, or less while the brokers need
// too long for that much.
type batch struct {
	records int
	bytes   int64
}

// after is how much the turns take that follow one that carried some of it and took some time. One
// that needed more than half of the time that it may take, or ran out of it, makes them smaller in
// proportion, down to one record; one that needed little lets them double. So whatever a quota or
// a slow broker allows, turns soon need about a quarter of their time, and little is given up.
func (b batch) after(carried batch, took, may time.Duration, most batch) batch {
	switch {
	case carried.records == 0:
	case took > may/2:
		share := min(float64(may/4)/float64(took), 0.5)
		b.records = max(min(b.records, int(share*float64(carried.records))), 1)
		b.bytes = max(min(b.bytes, int64(share*float64(carried.bytes))), 1)
	case took < may/8:
		b.records, b.bytes = min(2*b.records, most.records), min(2*b.bytes, most.bytes)
	}
	return b
}

// resize makes the batches fit what a turn has shown. The time for which a quota keeps the lane
// waiting afterwards is time that the turn took.
func (l *lane) resize(t *turn) {
	throttled := l.quota.left()
	took := time.Since(t.began) + throttled
	was := l.batch
	l.batch = was.after(t.carried(), took, l.cfg.TurnTimeout, l.most())
	if l.batch.records < was.records && time.Since(l.resizedAt) > time.Minute {
		l.resizedAt = time.Now()
		l.log.Warn("turns take long and are made smaller", "took", took, "throttled_by_a_quota", throttled, "records", l.batch.records, "bytes", l.batch.bytes)
	}
}

func (l *lane) most() batch { return batch{l.cfg.BatchRecords, l.cfg.BatchBytes} }

// carried is how much a turn has brought to the brokers: all of it, or what was acknowledged before
// it was given up. When that is nothing, it says no more than that all of it was too much.
func (t *turn) carried() (b batch) {
	for _, pt := range t.took {
		b.records += len(pt.Items)
		b.bytes += pt.Size()
	}
	if t.outcome == outcomeAborted && t.acked > 0 {
		b.records, b.bytes = max(int(t.acked*float64(b.records)), 1), max(int64(t.acked*float64(b.bytes)), 1)
	}
	return b
}

// dueRecords takes what is due, up to the bounds of a batch, and says whether more may be due. No
// partition gets less than an equal share of the batch if it wants as much: those that want least
// come first, and what they leave is shared among the others. Where there are more partitions than
// records in a batch, those come first that have waited longest. While a quota lasts it takes nothing.
func (l *lane) dueRecords(now int64) (parts []*part, full bool) {
	if l.quota.lasts() {
		return nil, false
	}
	if parts = l.narrow(now); len(parts) > 0 {
		return parts, false
	}
	due := l.due[:0]
	for _, p := range l.order {
		if p.wanted = p.wants(now); p.wanted > 0 {
			due = append(due, p)
		}
	}
	l.due, l.served = due, l.served+1
	if len(due) > l.batch.records {
		slices.SortStableFunc(due, func(a, b *partition) int { return cmp.Compare(a.served, b.served) })
		due, full = due[:l.batch.records], true
	}
	slices.SortStableFunc(due, func(a, b *partition) int { return cmp.Compare(a.wanted, b.wanted) })
	left := l.batch
	for i, p := range due {
		share := batch{max(left.records/(len(due)-i), 1), max(left.bytes/int64(len(due)-i), 1)}
		items := l.items()
		pt := p.take(now, items, share.records, share.bytes)
		if pt == nil {
			l.spare = append(l.spare, items)
			continue
		}
		size := pt.Size()
		left.records, left.bytes = left.records-len(pt.Items), left.bytes-size
		full = full || len(pt.Items) >= share.records || size >= share.bytes
		parts = l.serve(parts, pt)
	}
	return parts, full
}

func (l *lane) serve(parts []*part, pt *part) []*part {
	pt.p.Begin()
	pt.p.served = l.served
	return append(parts, pt)
}

// quota knows until when brokers want to be left alone by a lane's producers (KIP-219). The
// client's connection waits for that by itself; but a new one would not, and a transaction that
// waits holds up all who read its targets. So no turn with records begins before.
type quota struct{ until atomic.Pointer[time.Time] } // which a clock that is set does not move

// OnBrokerThrottle is kgo.HookBrokerThrottle.
func (q *quota) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, after bool) {
	if !after {
		return // it has waited already
	}
	until := time.Now().Add(d)
	for was := q.until.Load(); (was == nil || was.Before(until)) && !q.until.CompareAndSwap(was, &until); was = q.until.Load() {
	}
}

func (q *quota) left() time.Duration {
	until := q.until.Load()
	if until == nil {
		return 0
	}
	return max(time.Until(*until), 0)
}

func (q *quota) lasts() bool { return q.left() > 0 }

// recently reports whether one has ended not longer ago than this, or lasts.
func (q *quota) recently(d time.Duration) bool {
	until := q.until.Load()
	return until != nil && time.Until(*until) > -d
}
