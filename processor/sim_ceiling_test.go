//go:build synctests

package processor

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/state"
)

// A world is ill until a test says that it is well: while processes start, and while something is broken, nothing can be on time.
// From then on the checker's ceilings hold, by its own clock.

// well says that nothing is broken, until break is called.
func (w *world) well() { w.note("---- all is well"); w.watch.Well() }

func (w *world) ill() { w.watch.Ill() }

// tellCheckpoints tells the checker what the group has committed, until stop is closed.
func (w *world) tellCheckpoints(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		info := w.cluster.GroupInfo(w.group)
		if info == nil {
			continue
		}
		for topic, partitions := range info.Commits {
			for partition, c := range partitions {
				if cp, err := state.ParseCheckpoint(c.Offset, state.NoEpoch, c.Metadata); err == nil {
					w.watch.Checkpoint(topic, partition, cp.Offset, cp.Watermark.Due, cp.Watermark.Seq)
				}
			}
		}
	}
}

// count counts what a process does.
func (w *world) count(process, what string) {
	w = w.host
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate.Count(process+" "+what, time.Now())
}

// worst is how often the process has done something within one second.
func (p *process) worst(what string) int {
	w := p.w.host
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rate.Worst(p.link.name + " " + what)
}

// mostDials is how often one process may dial within a second whatever its brokers refuse. A transaction that is given up costs a
// client: its producer has to begin a new epoch.
func (p *process) mostDials() int {
	if p.w.cfg.guarantee == AtLeastOnce {
		return 25
	}
	return 100
}

// calm fails when a process has done too much of something within a second, well or ill.
func (w *world) calm() {
	w.t.Helper()
	w = w.host
	w.mu.Lock()
	over := w.rate.Over(w.mostPerSecond)
	w.mu.Unlock()
	if len(over) > 0 {
		w.fail("%s", strings.Join(over, "\n"))
	}
}

// mostPerSecond is how often a process may do something within a second: what follows from records as fast as answers come, everything
// else a few times, with some to spare.
func (w *world) mostPerSecond(name string) int {
	process, what, _ := strings.Cut(name, " ")
	switch {
	case process == outsideLink:
		return math.MaxInt
	case slices.Contains([]string{"Produce", "Fetch", "TxnOffsetCommit", "EndTxn", "AddOffsetsToTxn", "AddPartitionsToTxn"}, what):
		return 1500
	case what == "OffsetCommit" && w.cfg.small: // of turns that have nothing to send: one for each cancel that waits
		return 1500
	case what == "ListOffsets": // each wave of an assignment has its own restore, and each try asks every broker three times
		return 100 + 50*max(int(w.cfg.partitions)-3, 0)
	case what == "dials": // of all clients together, to any broker
		return 150
	case what == "ApiVersions": // twice a connection where brokers are older than the client
		return 200
	}
	return 100
}

// recovers waits until every partition is live, which must be soon when nothing is broken any more, and until the group has evened
// out who has which.
func (w *world) recovers() {
	w.t.Helper()
	all := int(w.cfg.partitions)
	if w.cfg.fixed {
		all += 2
	}
	if w.cfg.again != "" {
		all += 2
	}
	soon := 30 * time.Second
	if w.cfg.loses { // while there is no store a loss is not accepted
		soon += stoppedRetry
	}
	for range 4 { // a lane that has been out of the group takes partitions when all are live elsewhere, with slow answers some time later
		w.within(soon, "every partition is live", func() bool { return len(w.whereLive()) == all })
		was := w.whereLive()
		time.Sleep(15 * time.Second)
		if maps.Equal(was, w.whereLive()) {
			return
		}
	}
	w.fail("partitions go on moving: %v", w.whereLive())
}

// whereLive tells which partitions are live, and since when.
func (w *world) whereLive() map[string]time.Time {
	live := map[string]time.Time{}
	for _, p := range w.processes {
		if p.ended.Load() {
			continue
		}
		for _, s := range p.p.Stats().Partitions {
			if s.Phase == PhaseLive {
				live[fmt.Sprintf("%s/%d in %s", s.Topic, s.Partition, p.name)] = s.Since
			}
		}
	}
	return live
}

// use sends requests to all partitions, enough for both of a lane's producers. It may say how often consumers fail.
func (w *world) use(fails string) {
	w.t.Helper()
	for i := range 20 {
		r := request(fmt.Sprint("prompt ", i), in(time.Duration(i%4)*100*time.Millisecond))
		r.Partition = int32(i) % w.cfg.partitions
		if fails != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: simFails, Value: []byte(fails)})
		}
		w.send(r)
		time.Sleep(20 * time.Millisecond)
	}
}

// notices sees that what has changed while nothing was due, a coordinator that has moved or a store that has failed, costs the first
// records that are due a second or two, and no more.
func (w *world) notices() {
	w.t.Helper()
	if w.failing != nil {
		w.use("1") // who has partitions of the retry topic only may not know the targets yet
		w.arrived()
	}
	w.use("")
	w.within(2*time.Second+w.cfg.jitter+w.cfg.late, "what is due after a while arrives", func() bool { return w.watch.Counts().Outstanding == 0 })
	time.Sleep(2 * syncInterval) // until a partition that has nothing far has met the failure, too
	w.within(local.RelapseLast+time.Minute, "each has its store again", func() bool {
		return !slices.ContainsFunc(w.processes, func(p *process) bool { return !p.ended.Load() && p.storeless() > 0 })
	})
}

// prompt sees that a world in which nothing is broken any more is well: what is requested now is on time, and in a checkpoint soon.
func (w *world) prompt() {
	w.t.Helper()
	w.well()
	w.use("1")
	w.arrived()
	time.Sleep(3 * time.Second) // for the checkpoint
	w.clean()
	w.ill()
}

// While nothing is broken, nothing is late, and the checkpoint follows: with many records at a time and one now and then, in log
// order and not.
func TestSimPrompt(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: guarantee, partitions: 2}, func(w *world) {
				p := w.start("a", nil)
				w.until("live", func() bool { return p.live(2) })
				w.well()
				for i := range 60 {
					for j := range 1 + i%7 {
						r := request(fmt.Sprint(i), in(time.Duration((i*37+j*611)%4000)*time.Millisecond))
						r.Partition = int32(j % 2)
						w.send(r)
					}
					time.Sleep(100 * time.Millisecond)
				}
				w.arrived()
				w.send(request("in a minute", in(time.Minute))) // nothing is due, and it is accepted all the same
				time.Sleep(3 * time.Second)
				w.clean()
				w.ill()
			})
		})
	}
}
