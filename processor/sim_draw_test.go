//go:build synctests

package processor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// transact sends requests in a transaction that stays open for a while. Whatever of it waits for brokers does so beside the schedule.
func (r *runner) transact(s step) {
	r.requests++
	id := fmt.Sprintf("user-%d", r.requests)
	cl, err := kgo.NewClient(append(r.outside, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		r.fail("%v", err)
	}
	records := make([]*kgo.Record, s.N)
	for i := range records {
		records[i] = r.draw()
	}
	r.users.Go(func() {
		defer cl.Close()
		if err := cl.BeginTransaction(); err != nil {
			r.note("%s: %v", id, err) // brokers that are asked to answer wrongly do so to everyone
			return
		}
		for _, rec := range records {
			cl.Produce(context.Background(), rec, r.known.add)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		cl.Flush(ctx)
		time.Sleep(s.For)
		// Should it fail, the transaction ends by its timeout, and the checker sees what became of it.
		cl.EndTransaction(ctx, kgo.TransactionEndTry(s.N%2 == 0))
	})
}

// burst sends requests of one partition that are due at one instant: some turns full, so that others join those, and with another target that is due then, and a
// little later, two parts of the partition.
func (r *runner) burst(s step) {
	due, n := in(s.For), 1+s.N%5
	for i := range min(s.N, 20*r.plan.Batch) {
		r.requests++
		rec, key := (*kgo.Record)(nil), fmt.Sprint("burst", r.requests)
		if i%4 == 0 {
			rec = request(key, due.Add(time.Duration(i*n)*milli/2))
		} else {
			rec = addressed("bills", request(key, due))
		}
		rec.Partition = int32(s.Who) % r.plan.Partitions
		r.client.Produce(context.Background(), r.prefixed(rec), r.known.add)
	}
}

// draw makes a request up, in whatever words.
func (r *runner) draw() *kgo.Record { return r.worded(r.drawMeaning()) }

// drawMeaning makes a request up: good or bad, for one of several targets, due at some time.
func (r *runner) drawMeaning() *kgo.Record {
	n := r.rng.IntN
	r.requests++
	key := fmt.Sprintf("k%d", n(4))
	rec := &kgo.Record{Topic: simTopic, Partition: int32(n(int(r.plan.Partitions))), Key: []byte(key), Value: []byte(fmt.Sprintf("v%d", r.requests))}
	if n(20) == 0 {
		rec.Key = nil
	}
	set := func(name, value string) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	set("trace", key)
	if r.plan.Keyed {
		if rec.Key = fmt.Appendf(nil, "k%d", n(40)); n(40) == 0 {
			rec.Key = nil // which is refused
		}
		if n(8) == 0 {
			rec.Value = nil // a cancel
		}
	}
	if id := fmt.Sprintf("id%d", n(6)); n(6) == 0 && !r.plan.Keyed {
		switch n(6) {
		case 0, 1:
			set(topics.HeaderCancel, id)
			return rec
		case 2:
			set(topics.HeaderReplace, id)
		default:
			set(topics.HeaderID, id)
		}
	} else if h, ok := r.known.pick(r.rng); ok && n(4) == 0 {
		// Without a store the due time of what is far is not known: one that is wrong may be taken for right.
		if n(25) == 0 && !r.plan.has(opFull, opRemove) {
			h.Due++
		}
		if n(20) == 0 {
			h.Partition = 9 // is not there
		}
		if set(topics.HeaderCancel, h.String()); n(5) < 3 {
			return rec
		}
		rec.Headers = rec.Headers[:1]
		set(topics.HeaderReplace, h.String())
		if n(8) > 0 && h.Partition < r.plan.Partitions {
			rec.Partition = h.Partition
		}
	} else if r.plan.Again != "" && n(6) == 0 {
		return r.failed(rec)
	} else if r.plan.Fixed && n(5) == 0 {
		rec.Topic, rec.Partition = simFixed, int32(n(2))
		return rec
	}
	target := "orders"
	if n(3) == 0 {
		target = "bills"
	}
	if r.plan.Rival && n(3) > 0 {
		target = []string{"", simCopies}[n(2)] // both groups deliver it, or only the second
	}
	due := time.Now()
	switch n(10) {
	case 0, 1: // past
		due = due.Add(-time.Duration(n(10_000)) * time.Millisecond)
	case 2, 3, 4: // soon
		due = due.Add(time.Duration(n(3000)) * time.Millisecond)
	case 5, 6, 7: // many at one time
		due = due.Add(time.Duration(n(8)) * time.Second).Truncate(time.Second)
	case 8:
		due = due.Add(time.Duration(n(20_000)) * time.Millisecond)
	default: // far
		due = due.Add(time.Duration(n(120_000)) * time.Millisecond)
	}
	switch n(30) {
	case 0:
		target = "gone" // does not exist
	case 1:
		target = "forbidden"
	case 2:
		due = due.Add(40 * 24 * time.Hour) // too far
	case 3:
		set(topics.HeaderUntil, "soon")
		set(topics.HeaderTargetTopic, target)
		return rec
	case 4:
		set(topics.HeaderTargetTopic, target) // never due
		return rec
	case 5:
		set("delay-every", "x") // not supported yet
	case 6:
		if !r.cfg.grows || target == "bills" {
			set(topics.HeaderTargetPartition, "7") // is not there
		}
	case 7, 8:
		set(topics.HeaderTargetPartition, "1")
	case 9, 10:
		set(topics.HeaderTargetKey, "other")
	}
	if n(4) == 0 {
		set(topics.HeaderFor, fmt.Sprintf("%dms", max(time.Until(due).Milliseconds(), 0)))
	} else {
		set(topics.HeaderUntil, strconv.FormatInt(due.UnixMilli(), 10))
	}
	set(topics.HeaderTargetTopic, target)
	if n(10) == 0 {
		set(topics.HeaderExpires, strconv.FormatInt(due.Add(time.Duration(n(3000)-300)*milli).UnixMilli(), 10))
	}
	if r.plan.Again != "" && n(3) == 0 {
		set(simFails, strconv.Itoa(n(5)))
	}
	set("tail", "")
	return rec
}

// known are requests that were acknowledged lately.
type known struct{ written }

// handleOf is the handle of a request that was acknowledged, where it has one.
func handleOf(r *kgo.Record) (h topics.Handle, ok bool) {
	h = topics.Handle{Partition: r.Partition, Offset: r.Offset}
	for _, header := range meaning(r) {
		switch header.Key {
		case topics.HeaderID:
			return h, false // it is named by that
		case topics.HeaderReplace:
			if _, byHandle := topics.ParseHandle(header.Value); !byHandle {
				return h, false
			}
		case topics.HeaderUntil:
			h.Due, _ = strconv.ParseInt(string(header.Value), 10, 64)
		case topics.HeaderFor:
			wait, _ := time.ParseDuration(string(header.Value))
			h.Due = r.Timestamp.Add(wait).UnixMilli()
		}
	}
	return h, h.Due > 0 && r.Topic == simTopic
}

// pick is one of the last ones.
func (k *known) pick(rng *rand.Rand) (h topics.Handle, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.all) == 0 {
		return h, false
	}
	last := min(len(k.all), 30)
	return k.all[len(k.all)-1-rng.IntN(last)], true
}

// overlapFor has producers of requests write in overlapping transactions, once in a schedule.
func (r *runner) overlapFor(s step) {
	if r.overlaps {
		return
	}
	r.overlaps = true
	stop := r.overlap(overlap{
		producers: 2, each: 3 * time.Second, records: 4, aborted: func(n int) bool { return n%3 == 1 },
		request: func(producer, transaction, n int) *kgo.Record {
			return request(fmt.Sprintf("k%d", producer), in(time.Duration(transaction*n)*700*time.Millisecond))
		},
	})
	r.mend = append(r.mend, stop)
	r.after(s.For, func() { r.wg.Go(stop) })
}
