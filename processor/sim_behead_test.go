//go:build synctests

package processor

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/local"
)

// behead cuts the log of a partition of the delay topic at any offset, as a person may with kafka-delete-records, and a retention. The checkers learn of it:
// what lay there may be missing. It returns how many records went.
func (w *world) behead(partition int32, to int64) (went int64) {
	w.t.Helper()
	groups := []*world{w}
	if w.rival != nil {
		groups = append(groups, w.rival)
	}
	for _, g := range groups { // which must have seen what goes
		to = min(to, g.watch.Position(simTopic, partition))
	}
	info := w.cluster.PartitionInfo(simTopic, partition)
	if to <= info.LogStartOffset {
		return 0
	}
	if err := w.cluster.DeleteRecords(simTopic, partition, to); err != nil {
		w.fail("cut the log at %d: %v", to, err)
	}
	w.note("---- %s/%d is cut from %d to %d", simTopic, partition, info.LogStartOffset, to)
	for _, g := range groups {
		g.watch.Beheaded(simTopic, partition, to)
	}
	return to - info.LogStartOffset
}

// beheadSome cuts the log of one partition somewhere between L and its end. To a group without a checkpoint what is gone then was never there.
func (r *runner) beheadSome(s step) bool {
	partition := int32(s.Who) % r.plan.Partitions
	c, ok := r.checkpoint(partition)
	if r.rival != nil {
		_, too := r.rival.checkpoint(partition)
		ok = ok && too
	}
	if !ok {
		return false
	}
	from := max(c.LowWater, r.cluster.PartitionInfo(simTopic, partition).LogStartOffset)
	went := r.behead(partition, from+(r.watch.Position(simTopic, partition)-from)*int64(s.N%4+1)/4)
	r.cut += went
	return went > 0
}

// hasClaimed reports whether a group has a checkpoint for each partition of the delay topic.
func (w *world) hasClaimed() bool {
	for partition := range w.cfg.partitions {
		if _, ok := w.checkpoint(partition); !ok {
			return false
		}
	}
	return true
}

// leavesTheLogToOthers fails when a process has trimmed a topic that another group reads.
func (w *world) leavesTheLogToOthers() {
	w.t.Helper()
	if w.rival == nil {
		return
	}
	for _, p := range slices.Concat(w.processes, w.rival.processes) {
		for _, s := range p.p.Stats().Topics {
			if s.Topic == simTopic && s.Trimmed > 0 {
				w.fail("%s has deleted %d offsets of a topic that another group reads", p.name, s.Trimmed)
			}
		}
	}
}

var ofPartition = regexp.MustCompile(simTopic + `[ /](?:partition=)?(\d+)`)

// hearOfLoss notes of which partition a line of the log says that something is lost.
func (w *world) hearOfLoss(line string) {
	if !strings.Contains(line, "the log has lost") && !strings.Contains(line, ErrLogTruncated.Error()) {
		return
	}
	of := ofPartition.FindStringSubmatch(line)
	if of == nil {
		return
	}
	n, _ := strconv.Atoi(of[1])
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	if w.lossSaid == nil {
		w.lossSaid = map[int32]int{}
	}
	w.lossSaid[int32(n)]++
}

// owned are the partitions of the delay topic that are live, as the processes of a group show them.
func (w *world) owned() (all []PartitionStats) {
	for _, p := range w.processes {
		if p.ended.Load() {
			continue
		}
		for _, s := range p.p.Stats().Partitions {
			if s.Topic == simTopic && s.Phase == PhaseLive {
				all = append(all, s)
			}
		}
	}
	return all
}

// holdsLost reports whether a process holds what the log does not have any more, and whether it says so.
func (w *world) holdsLost(s PartitionStats) (holds, says bool) {
	c, ok := w.checkpoint(s.Partition)
	start := w.cluster.PartitionInfo(simTopic, s.Partition).LogStartOffset
	return ok && s.Pending > 0 && c.LowWater < start, strings.Contains(s.Error, ErrLogTruncated.Error())
}

// saysLost waits until each process says of what it holds that the log has lost it, and of nothing else. It looks at its logs every ten seconds.
func (w *world) saysLost() {
	w.t.Helper()
	time.Sleep(time.Second) // until what they show is of now
	w.within(30*time.Second, "what is held that the log has lost is said to be, and nothing else is", func() bool {
		return !slices.ContainsFunc(w.owned(), func(s PartitionStats) bool {
			holds, says := w.holdsLost(s)
			return holds != says
		})
	})
	if w.rival != nil {
		w.rival.saysLost()
	}
}

// accountsForLost fails when something is missing because the log has lost it, and nobody has said so; and when anything is said to be pending that the log has not,
// when all is over.
func (w *world) accountsForLost() {
	w.t.Helper()
	lost := w.watch.Counts().Lost
	w.host.mu.Lock()
	said := len(w.lossSaid)
	w.host.mu.Unlock()
	if lost > 0 && said == 0 {
		w.fail("%d records are lost, and no process says so", lost)
	}
	for partition := range w.cfg.partitions {
		c, ok := w.checkpoint(partition)
		if start := w.cluster.PartitionInfo(simTopic, partition).LogStartOffset; ok && c.LowWater < start && c.LowWater < c.Offset {
			w.fail("partition %d: the log begins at %d, and %+v says that something before is pending", partition, start, c)
		}
	}
	if w.rival != nil {
		w.rival.accountsForLost()
	}
}

// Wherever the log is cut, and whatever becomes of the replicas: what is missing was said to be lost, nothing comes twice, and all else comes. A process that holds
// what the log has lost says so until that has been delivered, and loses nothing.
func TestSimBeheadedAnywhere(t *testing.T) {
	all := map[string]int64{}
	hows := map[string]func(w *world, a *process){
		"goes on": func(*world, *process) {},
		"is killed, and its disk is left": func(w *world, a *process) {
			disk := a.kill()
			time.Sleep(session)
			w.start("a", disk)
		},
		"is killed with its disk": func(w *world, a *process) { a.kill(); w.start("b", nil) },
		"is told to stop":         func(w *world, a *process) { disk := a.shut(); w.start("a", disk) },
		"does not know what became of a turn": func(w *world, a *process) {
			a.link.on(rule{key: kmsg.EndTxn, cut: true, after: true})
			w.send(request("now", in(0)))
		},
		"is followed":        func(w *world, a *process) { a.kill() },
		"is followed, stops": func(w *world, a *process) { a.shut() },
	}
	for how, do := range hows {
		for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
			for to := int64(1); to <= 7; to++ {
				if testing.Short() && to%2 == 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d", how, guarantee, to), func(t *testing.T) {
					follows := strings.HasPrefix(how, "is followed")
					scenario(t, worldConfig{guarantee: guarantee, flush: true, tune: func(c *Config) {
						c.AcceptLoss, c.NearWindow = true, 5*time.Second
						if follows {
							c.Standbys = 1
						}
					}}, func(w *world) {
						a := w.live("a")
						if follows {
							b := w.start("b", nil)
							w.until("it is followed", func() bool { return len(b.p.Stats().Standbys) == 1 })
						}
						w.send(request("0", in(0)), request("1", in(40*time.Second)), request("2", in(9*time.Second)), request("3", in(0)),
							request("4", in(41*time.Second)), request("5", in(9*time.Second)))
						w.committed(6)
						w.send(request("6", in(8*time.Second)))
						w.within(soonEnough, "seen", func() bool { return w.watch.Position(simTopic, 0) == 7 })
						w.behead(0, to)
						if how == "goes on" {
							if to > 1 {
								w.saysLost()
							} else {
								time.Sleep(11 * time.Second) // until it has looked where the log begins
							}
							_, says := w.holdsLost(w.owned()[0])
							equal(t, "it says so", says, to > 1)
						}
						do(w, a)
						w.recovers()
						w.saysLost()
						time.Sleep(30 * time.Second)
						w.send(request("7", in(0)))
						w.arrived()
						w.within(time.Minute, "all is over", func() bool { o := w.owned(); return len(o) == 1 && o[0].Pending == 0 && o[0].Error == "" })
						w.finish()
						w.accountsForLost()
						lost := w.watch.Counts().Lost
						all[how] += lost
						if how == "goes on" && lost > 0 {
							t.Errorf("%d are lost", lost)
						}
					})
				})
			}
		}
	}
	if all["is killed with its disk"] == 0 {
		t.Errorf("nothing was lost: %v", all)
	}
	t.Logf("lost: %v", all)
}

// What was read before its log was cut is delivered, although the reader finds nothing where it is; what was not read is lost, and said to be, and the partition stops when it holds
// nothing more. With accept_loss it is read on from where its log begins.
func TestSimBeheadedAboveThePosition(t *testing.T) {
	for _, accept := range []bool{false, true} {
		for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
			t.Run(fmt.Sprint(guarantee, " accepted ", accept), func(t *testing.T) {
				scenario(t, worldConfig{guarantee: guarantee, late: time.Hour, tune: func(c *Config) { c.AcceptLoss = accept }}, func(w *world) {
					a := w.live("a")
					w.send(request("near", in(3*time.Second)), request("far", in(30*time.Second)))
					w.committed(2)
					ch := make(chan struct{})
					held := a.link.on(rule{key: kmsg.Fetch, wait: ch})
					w.hit(held)
					w.send(request("unread", in(4*time.Second)), request("unread", in(4*time.Second)))
					w.within(soonEnough, "seen", func() bool { return w.watch.Position(simTopic, 0) == 4 })
					w.behead(0, 4)
					close(ch)
					w.within(soonEnough, "it is told", func() bool { return a.told(EventCut) > 0 })
					w.saysLost()
					time.Sleep(4 * time.Second)
					equal(t, "delivered of what was near", w.watch.Counts().Delivered, 1)
					w.send(request("written since", in(0)))
					if accept {
						w.within(soonEnough, "read on", func() bool { return w.watch.Counts().Delivered == 2 })
					}
					time.Sleep(30 * time.Second)
					c := w.watch.Counts()
					equal(t, "lost", c.Lost, 2)
					equal(t, "told to start over", a.told(EventDropped), map[bool]int{true: 0, false: 1}[accept])
					if accept {
						equal(t, "delivered", c.Delivered, 3)
						w.finish()
						w.accountsForLost()
						return
					}
					equal(t, "delivered of what was held", c.Delivered, 2)
					w.within(soonEnough, "stopped", func() bool {
						return slices.ContainsFunc(a.p.Stats().Partitions, func(s PartitionStats) bool {
							return s.Phase == PhaseStopped && strings.Contains(s.Error, ErrLogTruncated.Error())
						})
					})
					a.kill()
				})
			})
		}
	}
}

// A fixed-delay route holds what it has read, too, when its log is cut above that.
func TestSimBeheadedQueue(t *testing.T) {
	for _, accept := range []bool{false, true} {
		t.Run(fmt.Sprint("accepted ", accept), func(t *testing.T) {
			guarantees(t, worldConfig{fixed: true, late: time.Hour, tune: func(c *Config) { c.AcceptLoss = accept }}, func(w *world) {
				a := w.fixedLive("a")
				w.send(delayed("known", time.Now().Add(-time.Minute)))
				w.until("the target is known", func() bool { return w.outstanding() == 0 })
				of := func() PartitionStats {
					i := slices.IndexFunc(a.p.Stats().Partitions, func(s PartitionStats) bool { return s.Topic == simFixed && s.Partition == 0 })
					return a.p.Stats().Partitions[i]
				}
				write := func(keys ...string) {
					for _, key := range keys {
						r := delayed(key, time.Now())
						r.Partition = 0
						w.send(r)
					}
				}
				write("held 1", "held 2", "held 3")
				w.within(soonEnough, "held", func() bool { return of().Pending == 3 })
				ch := make(chan struct{})
				w.hit(a.link.on(rule{key: kmsg.Fetch, wait: ch}))
				write("unread 1", "unread 2")
				end := w.cluster.PartitionInfo(simFixed, 0).HighWatermark
				w.within(soonEnough, "seen", func() bool { return w.watch.Position(simFixed, 0) == end })
				if err := w.cluster.DeleteRecords(simFixed, 0, end); err != nil {
					t.Fatal(err)
				}
				w.watch.Beheaded(simFixed, 0, end)
				close(ch)
				w.within(soonEnough, "it is said", func() bool { return strings.Contains(of().Error, ErrLogTruncated.Error()) })
				before := w.watch.Counts().Delivered
				w.within(4*time.Second, "what is held is delivered", func() bool { return w.watch.Counts().Delivered == before+3 })
				if accept {
					write("behind")
					w.within(4*time.Second, "read on", func() bool { return w.watch.Counts().Delivered == before+4 })
					equal(t, "lost", w.watch.Counts().Lost, 2)
					w.finish()
					return
				}
				w.within(soonEnough, "stopped", func() bool { return of().Phase == PhaseStopped })
				a.kill()
			})
		})
	}
}

// Who is told that a partition will stop since something was never read, and starts again with accept_loss, loses no more than that: the state directory has what was held.
func TestSimBeheadedThenAccepted(t *testing.T) {
	for how, down := range map[string]func(*process) *vfs.MemFS{"is told to stop": (*process).shut, "is killed": (*process).kill} {
		t.Run(how, func(t *testing.T) {
			accept := false
			guarantees(t, worldConfig{late: time.Hour, tune: func(c *Config) { c.AcceptLoss = accept }}, func(w *world) {
				accept = false
				a := w.live("a")
				w.send(request("near", in(70*time.Second)), request("far", in(5*time.Minute)))
				w.committed(2)
				ch := make(chan struct{})
				w.hit(a.link.on(rule{key: kmsg.Fetch, wait: ch}))
				w.send(request("unread", in(4*time.Minute)), request("unread", in(4*time.Minute)))
				w.within(soonEnough, "seen", func() bool { return w.watch.Position(simTopic, 0) == 4 })
				w.behead(0, 4)
				close(ch)
				w.within(soonEnough, "it is told", func() bool { return a.told(EventCut) > 0 })
				time.Sleep(local.FlushEvery + time.Second)
				disk := down(a)
				b := w.start("a", disk)
				w.within(2*session, "it stops", func() bool {
					return slices.ContainsFunc(b.p.Stats().Partitions, func(s PartitionStats) bool {
						return s.Phase == PhaseStopped && strings.Contains(s.Error, "the local store, which alone has it")
					})
				})
				disk = b.shut()
				accept = true
				c := w.start("a", disk)
				w.until("live", func() bool { return c.live(1) })
				w.start("a", c.kill()) // above the gap by its checkpoint
				w.recovers()
				w.saysLost()
				time.Sleep(5 * time.Minute)
				w.arrived()
				equal(t, "lost", w.watch.Counts().Lost, 2)
				w.finish()
				w.accountsForLost()
			})
		})
	}
}

// What a standby has read, and its owner has accepted a moment ago, is not lost with the log and the owner.
func TestSimBeheadedAheadOfAStandby(t *testing.T) {
	guarantees(t, worldConfig{late: time.Hour, tune: func(c *Config) {
		c.AcceptLoss, c.Standbys, c.CommitInterval = true, 1, 20*milli
	}}, func(w *world) {
		a := w.live("a")
		b := w.start("b", nil)
		w.send(request("known", in(3*time.Minute)))
		w.until("it is followed", func() bool { s := b.p.Stats().Standbys; return len(s) == 1 && s[0].Position == 1 })
		offset := func() int64 { return b.p.Stats().Standbys[0].Offset }
		w.send(request("known", in(3*time.Minute)))
		w.within(soonEnough, "it has just looked", func() bool { return offset() == 2 })
		var ahead []*kgo.Record
		for range 5 {
			ahead = append(ahead, request("ahead", in(3*time.Minute)))
		}
		w.send(ahead...) // in one batch: it reads no more than that before it looks again
		w.within(300*milli, "accepted", func() bool { c, _ := w.checkpoint(0); return c.Offset == 7 })
		time.Sleep(20 * milli)
		behind := offset()
		w.behead(0, w.watch.Position(simTopic, 0))
		a.shut()
		if c, _ := w.checkpoint(0); behind >= c.Offset {
			t.Errorf("the standby knew of all: O is %d, and it was at %d", c.Offset, behind)
		}
		w.recovers()
		time.Sleep(3 * time.Minute)
		w.arrived()
		equal(t, "lost", w.watch.Counts().Lost, 0)
		w.finish()
		w.accountsForLost()
	})
}

// A process without a store that holds what the log has lost does not read it again when it has a store.
func TestSimBeheadedWithoutAStore(t *testing.T) {
	guarantees(t, worldConfig{tune: func(c *Config) { c.AcceptLoss = true }}, func(w *world) {
		a := w.startOn("a", nil, true)
		w.until("live", func() bool { return a.live(1) })
		for i := range 5 {
			w.send(request(fmt.Sprint(i), in(2*time.Minute)))
		}
		w.committed(5)
		w.within(time.Minute, "it has no store", func() bool { return a.storeless() == 1 })
		w.within(soonEnough, "seen", func() bool { return w.watch.Position(simTopic, 0) == 5 })
		w.behead(0, 3)
		w.saysLost()
		a.full.Store(false)
		w.within(45*time.Second, "the store works", func() bool { return a.p.store.Works() })
		time.Sleep(5 * time.Second)
		equal(t, "without a store", a.storeless(), 1)
		w.within(2*time.Minute, "all are delivered", func() bool { return w.watch.Counts().Delivered == 5 })
		w.within(time.Minute, "with the store again", func() bool { return a.storeless() == 0 && a.live(1) })
		w.finish()
		w.accountsForLost()
		equal(t, "lost", w.watch.Counts().Lost, 0)
	})
}
