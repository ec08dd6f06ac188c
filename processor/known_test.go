package processor

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/restore"
	"github.com/duewheel/duewheel/state"
)

// What is pending in a partition is known when it has been opened, and not while it is restored or where it was stopped before.
func TestFiguresAreKnownOnceOpened(t *testing.T) {
	l := testLane(t)
	a := &picture.Set{}
	a.Remember(0, testTP, nil)
	known := func(p *partition) bool {
		a.Remember(0, testTP, &p.picture)
		p.publish(testNow, &l.kit)
		return a.All()[0].Known
	}
	equal(t, "while it is restored", a.All()[0].Known, false)
	unreadable := &partition{tp: testTP, phase: PhaseStopped, err: ErrForeignCheckpoint, stats: l.counters.topics[testTopic]}
	a.Remember(0, testTP, &unreadable.picture)
	equal(t, "before its first picture", a.All()[0].Known, false)
	equal(t, "with a checkpoint of others", known(unreadable), false)

	unclaimed := newPartition(&restore.Partition{TP: testTP, Bounds: kafka.Bounds{Start: 3, Stable: 500, High: 500}, Log: l.log}, unreadable.stats)
	unclaimed.stop(kerr.OffsetMetadataTooLarge, l.events)
	equal(t, "phase of one that could not be claimed", unclaimed.phase, PhaseStopped)
	equal(t, "of one that could not be claimed", known(unclaimed), false)

	p, err := l.assign(state.Checkpoint{Offset: -1}, 0, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "while it catches up", known(p), true)
	p = livePartition(t, l)
	equal(t, "when it is live", known(p), true)
	p.stop(kerr.OffsetMetadataTooLarge, l.events)
	equal(t, "when it is stopped later", known(p), true)
}
