package processor

import "time"

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

// times is a share of a batch.
func (b batch) times(share float64) batch {
	return batch{int(share * float64(b.records)), int64(share * float64(b.bytes))}
}

// brisk is which share of a batch a turn takes that others join: they wait for the turn in flight and for their own, so both should be short. What
// a turn costs beside its records is some ms, so very short ones would take too much from what is due at one instant.
type brisk float64

const (
	briskTurn  = 20 * time.Millisecond
	briskLeast = 0.75
)

// after is the share after a turn that could not hold all that was due.
func (b brisk) after(carried batch, took time.Duration, of batch) brisk {
	share := max(float64(carried.records)/float64(of.records), float64(carried.bytes)/float64(of.bytes))
	wanted := min(max(share*float64(briskTurn)/float64(took), briskLeast), 1)
	return b + brisk(wanted-float64(b))/4
}

// brought is how much a turn has brought to the brokers: all of it, or what was acknowledged before
// it was given up. When that is nothing, it says no more than that all of it was too much.
func (t *turn) brought() (b batch) {
	for _, pt := range t.tried {
		b.records += len(pt.Items)
		b.bytes += pt.Size()
		if pt.copies != nil {
			b.records, b.bytes = b.records+pt.copies.done.copies, b.bytes+pt.copies.done.bytes
		}
	}
	if t.outcome == outcomeAborted && t.acked > 0 {
		b.records, b.bytes = max(int(t.acked*float64(b.records)), 1), max(int64(t.acked*float64(b.bytes)), 1)
	}
	return b
}
