//go:build synctests

package processor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// arrived waits until everything that was requested has arrived, and fails on any fault.
func (w *world) arrived() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	err := w.watch.Wait(ctx)
	for n := -1; err == nil && n != w.failing.failures(); err = w.watch.Wait(ctx) {
		n = w.failing.failures()
	}
	if err != nil {
		for _, p := range w.processes {
			if !p.ended.Load() {
				w.note("%s: %+v", p.name, p.p.Stats().Partitions)
			}
		}
		w.note("group: %+v", w.cluster.GroupInfo(w.group))
		w.fail("%v\n%v", err, w.watch.Report())
	}
	w.clean()
}

// clean fails on any fault seen so far.
func (w *world) clean() {
	w.t.Helper()
	w.calm()
	if back := w.wentBack(); back != "" {
		w.fail("%s", back)
	}
	if r := w.watch.Report(); w.watch.Counts().Faults > 0 {
		w.fail("%v", r)
	}
}

// finish stops every process, starts a new one with an empty disk, which has nothing but the log
// and the checkpoints, and checks everything.
func (w *world) finish() {
	w.t.Helper()
	w.arrived()
	for _, p := range w.processes {
		if !p.ended.Load() {
			p.shut()
		}
	}
	last := w.start("last", nil)
	w.until("the last process is live", func() bool { return last.live(int(w.cfg.partitions)) })
	time.Sleep(3 * time.Second)
	w.arrived()
	if w.host == w && w.rival == nil { // which would refuse what is asked for
		w.prompt()
	}
	w.exhaust(last)
	last.shut()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.watch.Settle(ctx); err != nil {
		w.fail("%v", err)
	}
	r := w.watch.Report()
	if err := r.Err(); err != nil {
		w.fail("%v", err)
	}
	w.t.Logf("%v after %v", r, time.Since(w.began).Round(time.Second))
	if w.cfg.audit && w.host == w {
		w.checkAudit()
	}
	if w.rival != nil {
		w.rival.finish()
	}
}

// exhaust waits until consumers that fail have no more to fail: what is delivered although it is not owed, because one of two outcomes was
// allowed, may be written to the retry topic, too.
func (w *world) exhaust(p *process) {
	if w.failing == nil {
		return
	}
	w.t.Helper()
	for n := -1; n != w.failing.failures(); w.arrived() {
		n = w.failing.failures()
		w.until("nothing is pending", func() bool {
			return !slices.ContainsFunc(p.p.Stats().Partitions, func(s PartitionStats) bool { return s.Pending > 0 })
		})
	}
}

// checkpoint is what the group has committed for a partition of the delay topic.
func (w *world) checkpoint(partition int32) (state.Checkpoint, bool) {
	info := w.cluster.GroupInfo(w.group)
	if info == nil {
		return state.Checkpoint{}, false
	}
	c, ok := info.Commits[simTopic][partition]
	if !ok {
		return state.Checkpoint{}, false
	}
	cp, err := state.ParseCheckpoint(c.Offset, state.NoEpoch, c.Metadata)
	if err != nil {
		w.fail("checkpoint %d %q: %v", c.Offset, c.Metadata, err)
	}
	return cp, true
}

// setBackFor is for how long a checkpoint may be what it was before, in at_least_once: a commit that was not answered is carried out
// late, and a newer one follows when brokers answer again.
const setBackFor = 30 * time.Second

// isSetBack reports whether a late commit may have set a checkpoint back, not long ago.
func (w *world) isSetBack(tp kafka.TopicPartition) bool {
	if w.cfg.guarantee != AtLeastOnce || !slices.ContainsFunc(w.processes, func(p *process) bool { return p.p.Stats().Checkpoints["unknown"] > 0 }) {
		return false
	}
	since, ok := w.setBack[tp]
	if !ok {
		since = time.Now()
		w.setBack[tp] = since
	}
	return time.Since(since) < setBackFor
}

// compared are the checkpoints of a group as they were after the last commit.
type compared struct {
	mu   sync.Mutex
	last map[kafka.TopicPartition]state.Checkpoint
	back string // what has gone back first
}

// compareCheckpoints is called when a commit was carried out: what goes back for some ms only is not seen by inspect. In at_least_once a
// late commit may set a checkpoint back.
func (w *world) compareCheckpoints() {
	if w.rival != nil {
		w.rival.compareCheckpoints()
	}
	info := w.cluster.GroupInfo(w.group)
	if info == nil || w.cfg.guarantee == AtLeastOnce {
		return
	}
	w.compared.mu.Lock()
	defer w.compared.mu.Unlock()
	if w.compared.last == nil {
		w.compared.last = map[kafka.TopicPartition]state.Checkpoint{}
	}
	for topic, partitions := range info.Commits {
		for partition, c := range partitions {
			is, err := state.ParseCheckpoint(c.Offset, state.NoEpoch, c.Metadata)
			if err != nil {
				continue
			}
			tp := kafka.TopicPartition{Topic: topic, Partition: partition}
			if was, ok := w.compared.last[tp]; ok && isBehind(is, was) && w.compared.back == "" {
				w.compared.back = fmt.Sprintf("checkpoint of %s went back:\n was %+v\n is  %+v", tp, was, is)
				w.note("---- %s", w.compared.back)
			}
			w.compared.last[tp] = is
		}
	}
}

// wentBack is what compareCheckpoints has found.
func (w *world) wentBack() string {
	w.compared.mu.Lock()
	defer w.compared.mu.Unlock()
	return w.compared.back
}

// isBehind reports a checkpoint that says less than another one. What a queue has sighted above where a leader epoch ends that another one follows counts no
// more for a new owner, who cannot tell that from a log that was cut (design rule 16).
func isBehind(is, was state.Checkpoint) bool {
	w := was.Watermark
	if n := len(is.Parsers); n > 0 && topics.FixedDelay(is.Parsers[n-1].Spec) && is.Watermark.Due == w.Due {
		w.Seq = min(w.Seq, is.Watermark.Seq)
	}
	return is.Offset < was.Offset || is.Watermark.Less(w) || is.LowWater < was.LowWater
}

// inspect fails when a checkpoint has gone back (design rule 4), or leads its log.
func (w *world) inspect() {
	w.t.Helper()
	if w.rival != nil {
		w.rival.inspect()
	}
	if back := w.wentBack(); back != "" {
		w.fail("%s", back)
	}
	for partition := range w.cfg.partitions {
		c, ok := w.checkpoint(partition)
		if !ok {
			continue
		}
		tp := kafka.TopicPartition{Topic: simTopic, Partition: partition}
		was := w.furthest[tp]
		if isBehind(c, was) {
			if w.isSetBack(tp) {
				continue
			}
			w.fail("checkpoint of %s went back:\n was %+v\n is  %+v", tp, was, c)
		}
		if c.LowWater > c.Offset || c.Offset > w.cluster.PartitionInfo(simTopic, partition).HighWatermark {
			w.fail("checkpoint of %s is impossible: %+v", tp, c)
		}
		w.furthest[tp] = c
		delete(w.setBack, tp)
	}
}
