package processor

import (
	"log/slog"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// A log is cut (unclean leader election) below an L that was committed, and goes on with accept_loss: L is lower from then on (found.go, cut), and what is written
// from there on is pending at offsets that L was beyond. The trimmer has seen the L of before, and deletes what is pending.
func TestAtkTrimAfterTheLogWasCut(t *testing.T) {
	k := &kit{shared: &shared{cfg: Config{AcceptLoss: true, TrimInterval: time.Minute}, counters: newCounters([]string{"delays"}, nil), routes: map[string]*topics.Route{"delays": {}}}}
	k.log = slog.New(slog.DiscardHandler)
	id := kafka.TopicID{1}
	p := &partition{tp: kafka.TopicPartition{Topic: "delays"}, id: id, log: slog.New(slog.DiscardHandler), route: &topics.Route{}}
	trimming := newTrimming(k.shared)

	before := state.Checkpoint{Offset: 5000, LowWater: 5000, Epoch: 3, Parsers: []state.ParserEpoch{{From: 0, Spec: "p1"}}}
	picture := func(c state.Checkpoint, end int64) PartitionStats {
		return PartitionStats{Topic: "delays", TopicID: id, Phase: PhaseLive, Offset: c.Offset, LowWater: c.LowWater, LogStart: 0, LogEnd: end, Pending: end - c.LowWater}
	}
	now := time.Unix(1_700_000_000, 0)
	trimming.unneeded([]PartitionStats{picture(before, 5000)}, now)

	until := int64(4000) // the epoch of before ends there
	after, err := k.cut(p, before, found{id: id, bounds: kafka.Bounds{High: 4500}, ended: &until})
	if err != nil || after.LowWater != 4000 {
		t.Fatal(after, err)
	}
	// 2000 requests are written from 4000 on, and are pending.
	got := trimming.unneeded([]PartitionStats{picture(after, 6000)}, now.Add(time.Minute))
	if to := got["delays"][0].to; to > after.LowWater {
		t.Errorf("the log is deleted up to %d, and L is %d: what is pending from there on is lost", to, after.LowWater)
	}
}

// The same, and what is pending from the cut on is never carried: the carrier takes it for done with, and retention takes it.
func TestAtkCarryAfterTheLogWasCut(t *testing.T) {
	carrier, g, p := testCarrier(topics.Route{})
	carrier.keeps["t"] = topics.Keeping{Age: time.Hour}
	g.old, p.LowWater, p.Offset, p.Pending = 100, 90, 110, 20
	if carrier.due(p) != g {
		t.Fatal("nothing is old")
	}
	g.next = 100                                  // all of that was carried
	p.LowWater, p.Offset, p.Pending = 60, 120, 60 // cut at 60, and written on
	g.old = 120                                   // half of what the topic keeps has gone by since
	if carrier.due(p); g.next > p.LowWater {
		t.Errorf("what is pending from %d on is old, and carrying goes on from %d: retention takes what lies between", p.LowWater, g.next)
	}
}
