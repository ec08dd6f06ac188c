package processor

import (
	"math"
	"time"

	"github.com/duewheel/duewheel/processor/turn"
)

// batch is how much one turn takes: what the configuration says, or less while the brokers need
// too long for that much.
type batch struct {
	records int
	bytes   int64
}

// after is how much the turns take that follow one that carried some of it and took some time. One
// that needed more than half of the time that it may take, or ran out of it, makes them smaller in
// proportion, down to the least; one that needed less than a quarter makes them larger, and doubles them at most. So whatever a quota or
// a slow broker allows, turns soon need about a quarter of their time, and little is given up.
func (b batch) after(carried batch, took, may time.Duration, least, most batch) batch {
	switch {
	case carried.records == 0:
	case took > may/2 && carried.records <= least.records && carried.bytes <= least.bytes:
	case took > may/2:
		share := min(float64(may/4)/float64(took), 0.5)
		b.records = min(b.records, max(int(share*float64(carried.records)), least.records))
		b.bytes = min(b.bytes, max(int64(share*float64(carried.bytes)), least.bytes))
	case took < may/4:
		share := min(float64(may/4)/float64(max(took, 1)), 2)
		b.records = min(int(math.Ceil(share*float64(b.records))), most.records)
		b.bytes = min(int64(math.Ceil(share*float64(b.bytes))), most.bytes)
	}
	return b
}

var (
	// fewest is what takes as long as the way to the brokers does: a turn of fewer would take as long.
	fewest = batch{256, 256 << 10}
	// single is the least where a quota counts every byte, or where turns that had ever more time have run out of it.
	single = batch{1, 1}
)

// againAndAgain is how many turns in a row have to run out of time, each with twice as much, until one may be of a single record.
const againAndAgain = 3

// batchOf is how much a turn has brought to the brokers.
func batchOf(t *turn.Turn) (b batch) {
	b.records, b.bytes = t.Brought()
	return b
}

// times is a share of a batch.
func (b batch) times(share float64) batch {
	return batch{int(share * float64(b.records)), int64(share * float64(b.bytes))}
}

// brisk is which share of a batch a turn takes that others join: they wait for the turn in flight and for their own, so both should be short. So should those be with
// which a burst begins, since nothing can have joined any yet. What a turn costs beside its records is some ms, and some trips to the brokers, so very short ones would
// take too much from what is due at one instant.
type brisk float64

const (
	briskTurn  = 20 * time.Millisecond
	briskFirst = 0.5 // before any turn has shown how long it takes
	briskLeast = 0.3
	// turnTrips are the trips of a turn, whatever is in it: to commit offsets in it, to send its records, to end it.
	turnTrips = 3
)

// briskly is how long such a turn is to take where the way to the brokers takes so long: at least twice what it takes without a record.
func briskly(way time.Duration) time.Duration { return max(briskTurn, 2*turnTrips*way) }

// after is the share after a turn that could not hold all that was due, where it is to take so long.
func (b brisk) after(carried batch, took, within time.Duration, of batch) brisk {
	share := max(float64(carried.records)/float64(of.records), float64(carried.bytes)/float64(of.bytes))
	wanted := min(max(share*float64(within)/float64(took), briskLeast), 1)
	return b + brisk(wanted-float64(b))/4
}
