package processor

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
)

// A batch comes to need about a quarter of the time that a turn may take, and recovers.
func TestBatchFitsItsTime(t *testing.T) {
	most := batch{20_000, 16 << 20}
	for _, c := range []struct {
		name               string
		is, carried, least batch
		took               time.Duration
		want               batch
	}{
		{"in time", batch{500, 1 << 20}, batch{500, 1000}, single, 1500 * time.Millisecond, batch{500, 1 << 20}},
		{"quick", batch{500, 1 << 20}, batch{10, 1000}, single, 100 * time.Millisecond, batch{1000, 2 << 20}},
		{"less than a quarter, since brokers are slow", batch{500, 1 << 20}, batch{10, 1000}, single, time.Second, batch{625, 5 << 18}},
		{"hardly less", batch{1, 1}, batch{1, 1000}, single, 1249 * time.Millisecond, batch{2, 2}},
		{"quick, and at its most", most, batch{10, 1000}, single, time.Millisecond, most},
		{"more than half", most, batch{1000, 4000}, single, 2600 * time.Millisecond, batch{480, 1923}},
		{"ten times too long", most, batch{1000, 4000}, single, 50 * time.Second, batch{25, 100}},
		{"as few as make no difference", most, batch{256, 256 << 10}, fewest, 50 * time.Second, most},
		{"ten times too long, and not many more", most, batch{1000, 4000}, fewest, 50 * time.Second, fewest},
		{"never more than it was", batch{10, 10}, batch{1000, 4000}, single, 5 * time.Second, batch{10, 10}},
		{"never more than it was, and few", batch{10, 10}, batch{1000, 4000}, fewest, 5 * time.Second, batch{10, 10}},
		{"one record", batch{1, 1}, batch{1, 4000}, single, time.Minute, batch{1, 1}},
		{"nothing could be tried", most, batch{}, single, time.Minute, most},
	} {
		t.Run(c.name, func(t *testing.T) {
			equal(t, "batch", c.is.after(c.carried, c.took, 5*time.Second, c.least, most), c.want)
		})
	}
}

// What takes long whatever is in a turn makes no batch smaller.
func TestBatchWhereAnswersAreSlow(t *testing.T) {
	for _, c := range []struct {
		name    string
		outcome turn.Outcome
		sending time.Duration
		smaller bool
	}{
		{"it begins and ends slowly", turn.Done, 1500 * time.Millisecond, false},
		{"its records are slow", turn.Done, 2600 * time.Millisecond, true},
		{"it was given up", turn.Aborted, 0, true},
		{"nothing was to be sent", turn.Done, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLane(t)
			was := l.selection.batch
			tn := &turn.Turn{Env: l.turnEnv(), Began: time.Now().Add(-4500 * time.Millisecond), Outcome: c.outcome, Sending: c.sending}
			tn.Tried = []*turn.Part{{Part: &pending.Part{Items: make([]pending.Item, 1000)}}}
			l.selection.resize(tn)
			equal(t, "smaller", l.selection.batch.records < was.records, c.smaller)
		})
	}
}

// What a turn that was given up has brought to the brokers is what they have acknowledged.
func TestBatchOfWhatWasAcknowledged(t *testing.T) {
	pt := &turn.Part{Part: &pending.Part{Items: make([]pending.Item, 100)}}
	for i := range pt.Items {
		pt.Items[i].Run = make([]byte, 10)
	}
	for _, c := range []struct {
		outcome turn.Outcome
		acked   float64
		want    batch
	}{
		{turn.Done, 0, batch{100, 1000}},
		{turn.Aborted, 0, batch{100, 1000}},
		{turn.Aborted, 0.25, batch{25, 250}},
		{turn.Aborted, 0.001, batch{1, 1}},
	} {
		equal(t, "carried", batchOf(&turn.Turn{Tried: []*turn.Part{pt}, Outcome: c.outcome, Acked: c.acked}), c.want)
	}
}

// decideDue takes what is due into a turn and decides it; it returns the offsets of its records.
func (l *lane) decideDue(t *testing.T, decide func(*turn.Turn)) (offsets []int64) {
	t.Helper()
	now := testNow
	for _, p := range l.order {
		if at, ok := p.nextDue(); ok && len(p.Repeated()) > 0 {
			now = max(now, at)
		}
	}
	parts, _ := l.selection.records(l.order, now)
	if len(parts) == 0 {
		t.Fatal("nothing is due")
	}
	for _, pt := range parts {
		offsets = append(offsets, offsetsIn(pt)...)
	}
	l.turns.inFlight = &turn.Turn{Env: l.turnEnv(), Parts: parts, Tried: parts, Cancel: func() {}, Began: time.Now()}
	decide(l.turns.inFlight)
	l.turnDecided(t.Context(), l.turns.inFlight)
	return offsets
}

// What ran out of time again and again is tried in smaller turns, down to one record, in the same order and
// with checkpoints that only go forward; then batches grow again.
func TestRepeatedPartShrinks(t *testing.T) {
	l := testLane(t, func(c *Config) { c.BatchRecords = 64 })
	p := livePartition(t, l)
	for offset := range int64(64) {
		l.read(t, p, testNow, req(offset, testNow-offset%7, "orders"))
	}
	slow := func(tn *turn.Turn) {
		tn.Outcome, tn.Err, tn.Began = turn.Aborted, context.DeadlineExceeded, tn.Began.Add(-l.cfg.TurnTimeout)
		tn.Patience = againAndAgain
	}
	want := l.decideDue(t, slow)
	equal(t, "records of the first turn", len(want), 64)
	turns := 1
	for ; l.selection.batch.records > 1 && turns < 10; turns++ {
		l.decideDue(t, slow)
	}
	equal(t, "turns until it is one record", turns, 3)
	equals(t, "the record", l.decideDue(t, slow), want[:1])
	var got []int64
	for last := p.Marks().Done; len(got) < 64 && !t.Failed(); last = p.Marks().Done {
		if c := p.prepareCommit(); c != nil {
			t.Fatalf("a checkpoint is written beside what is to be tried again: %+v", c.To)
		}
		got = append(got, l.decideDue(t, func(*turn.Turn) {})...)
		if c := p.Marks().Done; c.Offset < last.Offset || c.Watermark.Less(last.Watermark) || c.LowWater < last.LowWater {
			t.Fatalf("the checkpoint went from %+v to %+v", last, c)
		}
	}
	equals(t, "records", got, want)
	equal(t, "records of a batch at last", l.selection.batch.records, 64)
}

// While brokers want to be left alone nothing is begun: neither a new turn nor the one rendered
// ahead.
func TestQuotaIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLane(t)
		defer l.reader.Close() // in the bubble that it was used in
		l.membership = outsider{}
		p := livePartition(t, l)
		l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow, "orders"))
		l.quota.OnBrokerThrottle(kgo.BrokerMetadata{}, time.Hour, false) // what such a broker wants is over
		pt := p.take(testNow, nil, 1, anyBytes)
		p.Begin()
		l.quota.OnBrokerThrottle(kgo.BrokerMetadata{}, 3*time.Second, true)
		l.quota.OnBrokerThrottle(kgo.BrokerMetadata{}, time.Second, true)
		l.turns.ahead = &turn.Turn{Env: l.turnEnv(), Parts: []*turn.Part{pt}, Begin: make(chan bool, 1)}
		l.turns.decided <- l.turns.ahead
		l.turns.release(l.order, true, l.membership)
		equals(t, "put back", p.Repeated(), []*pending.Part{pt.Part})
		if parts, _ := l.selection.records(l.order, testNow); len(parts) > 0 {
			t.Errorf("a turn begins with %v", offsetsIn(parts[0]))
		}
		equal(t, "the lane sleeps", l.turns.pause(l.order), 100*time.Millisecond)
		time.Sleep(3 * time.Second)
		if parts, _ := l.selection.records(l.order, testNow); len(parts) != 1 {
			t.Error("no turn begins when it is over")
		}
	})
}

// emptyPartition is a live partition like another, without records.
func emptyPartition(p *partition, n int32) *partition {
	inner, err := pending.New(p.Env, p.Marks().Committed, pending.Sighting{})
	if err == nil {
		_, err = inner.Enliven(pending.Room{})
	}
	if err != nil {
		panic(err)
	}
	return &partition{
		Partition: inner,
		tp:        kafka.TopicPartition{Topic: p.tp.Topic, Partition: n}, id: p.id, log: p.log, stats: p.stats, phase: PhaseLive,
	}
}

// A partition with a backlog takes what the others leave of each turn, and no more.
func TestEveryPartitionGetsItsShare(t *testing.T) {
	for _, c := range []struct {
		name                string
		batch, hot, cold    int
		turns, least, serve int // of each cold one, of the turns; and of the hot ones together, of the records
	}{
		{"one backlog among a hundred", 1000, 1, 99, 200, 200, 200 * 900},
		{"half of them have one", 1000, 50, 50, 200, 200, 200 * 900},
		{"fewer records than partitions", 10, 1, 99, 200, 18, 0},
		{"one record a turn", 1, 1, 3, 200, 50, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLane(t, func(cfg *Config) { cfg.BatchRecords, cfg.MemoryBudget = c.batch, 256<<20 })
			first := livePartition(t, l)
			l.selection.brisk = 1
			clear(l.partitions)
			for n := range int32(c.hot + c.cold) {
				p := emptyPartition(first, n)
				l.partitions[p.tp] = p
			}
			l.order = inOrder(l.partitions)
			served, records := make([]int, len(l.order)), 0
			for range c.turns {
				for i, p := range l.order {
					backlog := 1
					if i >= c.cold/2 && i < c.cold/2+c.hot { // with neighbours on both sides
						backlog = 2 * c.batch
					}
					for p.Figures(testNow).Near < int64(backlog) {
						l.read(t, p, testNow, req(p.Marks().Position, testNow, "orders"))
					}
				}
				parts, full := l.selection.records(l.order, testNow)
				equal(t, "full", full, true)
				for _, pt := range parts {
					i := slices.Index(l.order, partitionOf(pt))
					served[i]++
					if i >= c.cold/2 && i < c.cold/2+c.hot {
						records += len(pt.Items)
					}
				}
				l.happened(parts...)
			}
			if slices.Min(served) < c.least || records < c.serve {
				t.Errorf("in %d turns the partitions were served %v times, and those with a backlog %d records; want each %d times, and %d records",
					c.turns, served, records, c.least, c.serve)
			}
		})
	}
}

// A record that its target refuses is found among many in few turns; all others are delivered in
// their order.
func TestCulpritIsFound(t *testing.T) {
	for _, bad := range [][]int64{{0}, {1023}, {500}, {7, 8}, {3, 400, 1001}} {
		l := testLane(t)
		p := livePartition(t, l)
		for offset := range int64(1024) {
			l.read(t, p, testNow, req(offset, testNow, "orders"))
		}
		target := l.targets.Of([]byte("orders"))
		var delivered, blamed []int64
		turns := 0
		for ; len(delivered)+len(blamed) < 1024; turns++ {
			if turns > 30*len(bad) {
				t.Fatalf("%v: after %d turns %d are delivered and %v blamed", bad, turns, len(delivered), blamed)
			}
			l.decideDue(t, func(tn *turn.Turn) {
				if refuseSome(tn, target, bad) {
					return
				}
				for _, pt := range tn.Tried {
					for _, it := range pt.Items {
						if it.Blame() != nil {
							blamed = append(blamed, it.Offset)
						} else {
							delivered = append(delivered, it.Offset)
						}
					}
				}
			})
		}
		equals(t, "to blame", blamed, bad)
		equal(t, "delivered in order", slices.IsSorted(delivered), true)
		t.Logf("%v: %d turns", bad, turns)
	}
}

// refuseSome decides a turn as a target does that refuses some records: with them, it refuses all.
func refuseSome(tn *turn.Turn, target *targets.Target, bad []int64) (refused bool) {
	var r turn.Rejection
	for _, pt := range tn.Tried {
		for i := range pt.Items {
			it := &pt.Items[i]
			r.Items = append(r.Items, it)
			refused = refused || it.Blame() == nil && slices.Contains(bad, it.Offset)
		}
	}
	if !refused {
		return false
	}
	r.Err = errors.New("refused")
	if len(r.Items) == 1 {
		r.Alone = &turn.Output{Kind: turn.OutDelivered, Target: target}
	}
	tn.Outcome, tn.Err, tn.Rejected = turn.Aborted, r.Err, &r
	return true
}

// A target that refuses one record after the other, each by itself, is in trouble; one that takes
// some in between is not.
func TestRefusingTargetIsBlamed(t *testing.T) {
	l := testLane(t)
	target := l.targets.Of([]byte("orders"))
	target.State.Store(&targets.State{Status: targets.Ready})
	refuse := func() *pending.Item {
		it := &pending.Item{}
		l.selection.search.suspect(l.order, &turn.Turn{Env: l.turnEnv(), Rejected: &turn.Rejection{Err: kerr.InvalidRecord, Items: []*pending.Item{it}, Alone: &turn.Output{Kind: turn.OutDelivered, Target: target}}})
		return it
	}
	for range 3 {
		for range mostBlamed {
			equal(t, "the record is to blame", refuse().Blame() != nil, true)
		}
		target.Succeeded()
	}
	for range mostBlamed {
		refuse()
	}
	equal(t, "status", target.State.Load().Status, targets.Ready)
	for range 2 { // once may be an accident
		equal(t, "the record is to blame", refuse().Blame() != nil, false)
	}
	equal(t, "status", target.State.Load().Status, targets.Troubled)
}

// A route gets its weight of a turn when others have more due than it takes, however many partitions each has, and what it leaves is theirs.
func TestRoutesShareByWeight(t *testing.T) {
	for _, c := range []struct {
		name       string
		partitions [2]int32 // of each route
		weights    [2]int
		due        [2]int // in each partition
		want       [2]int // of 1000
	}{
		{"many partitions beside one", [2]int32{24, 1}, [2]int{1, 1}, [2]int{2000, 2000}, [2]int{500, 500}},
		{"three times the weight", [2]int32{8, 3}, [2]int{1, 3}, [2]int{2000, 2000}, [2]int{250, 750}},
		{"one wants little", [2]int32{4, 2}, [2]int{3, 1}, [2]int{2000, 7}, [2]int{986, 14}},
		{"the heavy one wants little", [2]int32{4, 2}, [2]int{1, 100}, [2]int{2000, 7}, [2]int{986, 14}},
		{"some of its partitions want little", [2]int32{1, 2}, [2]int{1, 1}, [2]int{2000, 100}, [2]int{800, 200}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLane(t, func(cfg *Config) { cfg.BatchRecords, cfg.MemoryBudget = 1000, 256<<20 })
			first := livePartition(t, l)
			l.selection.brisk = 1
			clear(l.partitions)
			n := int32(0)
			for which, partitions := range c.partitions {
				route := *first.Route
				route.Weight = c.weights[which]
				for range partitions {
					p := emptyPartition(first, n)
					p.Route = &route
					l.partitions[p.tp] = p
					for range c.due[which] {
						l.read(t, p, testNow, req(p.Marks().Position, testNow, "orders"))
					}
					n++
				}
			}
			l.order = inOrder(l.partitions)
			parts, _ := l.selection.records(l.order, testNow)
			var got [2]int
			for _, pt := range parts {
				which := 0
				if pt.TP.Partition >= c.partitions[0] {
					which = 1
				}
				got[which] += len(pt.Items)
			}
			for which := range got {
				if math.Abs(float64(got[which]-c.want[which])) > 12 { // as shares are rounded
					t.Errorf("the routes get %v records, want %v", got, c.want)
				}
			}
		})
	}
}
