package pending

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// copies are what a turn appends that carries some of what is pending, and what they are.
func (r *replaying) copies() (copies []*kgo.Record, of []topics.Copy) {
	c := r.p.committed
	for offset := c.LowWater; offset < c.Offset; offset++ {
		written, c, is := Carrying{r.p}.Copy(r.log[offset])
		if !is || r.IntN(3) > 0 {
			continue
		}
		rec := &kgo.Record{Timestamp: time.UnixMilli(r.now), Key: r.log[offset].Key, Value: r.log[offset].Value}
		rec.Headers, _ = topics.AppendCopy(nil, written, testMark, c, nil)
		copies, of = append(copies, rec), append(of, c)
	}
	return copies, of
}

// carry has some of what is pending carried; what comes meanwhile may cancel or replace that.
func (r *replaying) carry() {
	copies, of := r.copies()
	if len(copies) == 0 {
		return
	}
	pt := Carrying{r.p}.Take(slices.Values(of))
	r.p.Begin()
	for range r.IntN(4) {
		r.append(r.request())
	}
	r.accept()
	for _, c := range copies {
		r.append(c)
	}
	pt.To.Appended = true
	r.p.End()
	r.p.Settle(pt)
	Carrying{r.p}.Done(int64(len(r.log)))
	r.p.Appended(int64(len(r.log)))
	r.p.Committed(pt)
	r.accept()
}

// halfCarried has copies appended that its owner never reads.
func (r *replaying) halfCarried() bool {
	copies, of := r.copies()
	if len(copies) == 0 {
		return false
	}
	pt := Carrying{r.p}.Take(slices.Values(of))
	for _, c := range copies {
		r.append(c)
	}
	pt.To.Appended = true
	r.p.committed = pt.To
	return true
}
