//go:build synctests

package processor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/histogram"
)

// laterThan counts the records that were delivered later than some seconds, one of histogram.Bounds.
func (p *process) laterThan(seconds float64) (n int64) {
	for _, t := range p.p.Stats().Targets {
		for i, count := range t.Lateness.Counts {
			if i == len(histogram.Bounds) || histogram.Bounds[i] > seconds {
				n += count
			}
		}
	}
	return n
}

// storeless counts the partitions of a process that are live without a store.
func (p *process) storeless() (n int) {
	for _, s := range p.p.Stats().Partitions {
		if s.Phase == PhaseLive && strings.HasPrefix(s.Reason, "without the local store") {
			n++
		}
	}
	return n
}

// pending counts what is pending in the partitions of a process.
func (p *process) pending() (n int64) {
	for _, s := range p.p.Stats().Partitions {
		n += s.Pending
	}
	return n
}

// lines counts what the processes have said.
func (w *world) lines(what string) int { return strings.Count(w.history(), what) }

// spread sends requests that are due at regular intervals from a time on, over all partitions.
func (w *world) spread(n int, from, every time.Duration) {
	w.t.Helper()
	begin := in(from)
	for i := range n {
		r := request(fmt.Sprint(i), begin.Add(time.Duration(i)*every))
		r.Partition = int32(i) % w.cfg.partitions
		w.send(r)
	}
}

// large sends requests of a KiB and a half each that do not compress, as fast as brokers take them.
func (w *world) large(n int, due func(i int) time.Time) {
	w.t.Helper()
	for i := 0; i < n; {
		var rs []*kgo.Record
		for ; i < n && len(rs) < 1000; i++ {
			r := request(fmt.Sprint(i%7), due(i))
			r.Partition = int32(i) % w.cfg.partitions
			r.Value = make([]byte, 1500)
			for k := range r.Value {
				r.Value[k] = byte(w.rng.Uint32())
			}
			rs = append(rs, r)
		}
		if err := w.client.ProduceSync(w.t.(*testing.T).Context(), rs...).FirstErr(); err != nil {
			w.fail("produce requests: %v", err)
		}
		w.sent += int64(len(rs))
	}
	w.note("%d large requests", n)
}

// A disk that fills up costs nothing while memory holds what is pending: near and far
// records are delivered in time, nothing is restarted over and over, and it is said once. When there
// is room again the store is used again.
func TestSimDiskFull(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: guarantee, partitions: 2}, func(w *world) {
				a := w.live("a")
				w.spread(200, time.Second, 500*time.Millisecond)
				time.Sleep(6 * time.Second)
				empty := a.fill()
				w.within(20*time.Second, "without a store", func() bool { return a.storeless() == 2 })
				w.spread(100, time.Second, time.Second)
				time.Sleep(30 * time.Second)
				if ready, not := a.p.Ready(); !ready || !strings.Contains(a.p.Stats().StoreTrouble, "the disk is full") {
					t.Errorf("ready is %v, %v; the store's trouble is %q", ready, not, a.p.Stats().StoreTrouble)
				}
				empty()
				w.within(45*time.Second, "with the store again", func() bool { return a.live(2) && a.storeless() == 0 })
				if s := a.p.Stats(); s.StoreTrouble != "" {
					t.Errorf("the store's trouble is %q", s.StoreTrouble)
				}
				w.until("all is delivered", func() bool { return w.outstanding() == 0 })
				if n := a.laterThan(1); n > 0 {
					t.Errorf("%d records were more than a second late", n)
				}
				if n := w.watch.Counts().Doubled; n > 0 {
					t.Errorf("%d records came twice", n)
				}
				if n := a.p.Stats().ReadAgain; n > 2 { // each once, for what was in the store alone
					t.Errorf("partitions were read again %d times", n)
				}
				if n := w.lines("the local store cannot be used; "); n != 1 {
					t.Errorf("it is said %d times that the store cannot be used", n)
				}
				if n := w.lines("the local store works again"); n != 1 {
					t.Errorf("it is said %d times that the store works again", n)
				}
				w.finish()
			})
		})
	}
}

// A disk that stands still, as network disks do for some seconds, keeps nothing waiting that is in memory: only what is far is not read meanwhile.
func TestSimDiskStandsStill(t *testing.T) {
	const far = 12_000
	guarantees(t, worldConfig{partitions: 2}, func(w *world) {
		a := w.live("a")
		w.spread(200, time.Second, 100*time.Millisecond)
		resume := a.halt()
		w.large(far, func(int) time.Time { return in(2 * time.Minute) })
		time.Sleep(25 * time.Second)
		if n := a.laterThan(0.1); n > 0 || w.outstanding() != far {
			t.Errorf("%d records were late, and %d are outstanding", n, w.outstanding()-far)
		}
		held := a.pending()
		if held < 1000 || held > far-1000 {
			t.Errorf("%d of %d were read while nothing can be written", held, far)
		}
		resume()
		w.within(10*time.Second, "the rest is read", func() bool { return a.pending() == far })
		w.until("all is delivered", func() bool { return w.outstanding() == 0 })
		w.finish()
	})
}

// A disk that fails once costs a restart of the partitions, not more: the store is opened again at
// once. The same goes for one that loses its tables, which is built anew.
func TestSimDiskFailsOnce(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("tables lost %v", lost), func(t *testing.T) {
			scenario(t, worldConfig{partitions: 2}, func(w *world) {
				a := w.live("a")
				w.spread(100, time.Second, 500*time.Millisecond)
				time.Sleep(6 * time.Second)
				a.flush()
				if lost {
					a.lose()
				}
				a.fails.Store(true)
				w.spread(40, time.Second, 500*time.Millisecond)
				time.Sleep(time.Second)
				a.flush()
				w.within(10*time.Second, "it is noticed, and all is as before", func() bool {
					return w.lines("the local store works again") == 1 && a.live(2) && a.storeless() == 0
				})
				w.until("all is delivered", func() bool { return w.outstanding() == 0 })
				if n := a.laterThan(1); n > 0 {
					t.Errorf("%d records were more than a second late", n)
				}
				w.finish()
			})
		})
	}
}

// lose removes the tables of the store from under it.
func (p *process) lose() {
	names, err := p.fs.List("state")
	if err != nil {
		p.w.fail("%v", err)
	}
	n := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			n++
			if err := p.fs.Remove("state/" + name); err != nil {
				p.w.fail("%v", err)
			}
		}
	}
	if n == 0 {
		p.w.fail("the store has no tables: %v", names)
	}
}

// Without a store, memory stays bounded when more is pending than it holds; what it does not hold
// is read again in time.
func TestSimDiskFullBeyondMemory(t *testing.T) {
	scenario(t, worldConfig{partitions: 2}, func(w *world) {
		a := w.live("a")
		a.fill()
		begin := in(10 * time.Second)
		w.large(24_000, func(i int) time.Time { return begin.Add(time.Duration(i%9000) * 10 * time.Millisecond) })
		worst := int64(0)
		w.until("all is delivered", func() bool {
			worst = max(worst, a.p.Stats().NearBytes)
			return w.outstanding() == 0
		})
		if limit := int64(minMemory/2) * 5 / 4; worst > limit {
			t.Errorf("%d bytes were held, and %d are the limit", worst, limit)
		}
		if n := a.p.Stats().ReadAgain; n < 2 || n > 40 {
			t.Errorf("partitions were read again %d times", n)
		}
		if n := a.laterThan(2.5); n > 0 {
			t.Errorf("%d records were more than 2.5 s late", n)
		}
		t.Logf("%d bytes at most, read again %d times", worst, a.p.Stats().ReadAgain)
		w.finish()
	})
}

// The same with everything due at one moment: it is delivered in portions of what memory holds.
func TestSimDiskFullOneInstant(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		a.fill()
		due := in(20 * time.Second)
		w.large(24_000, func(int) time.Time { return due })
		worst := int64(0)
		w.until("all is delivered", func() bool {
			worst = max(worst, a.p.Stats().NearBytes)
			return w.outstanding() == 0
		})
		if limit := int64(minMemory/2) * 7 / 4; worst > limit { // what stays is copied before the rest is given back
			t.Errorf("%d bytes were held, and %d are the limit", worst, limit)
		}
		if n := a.laterThan(30); n > 0 {
			t.Errorf("%d records were more than 30 s late", n)
		}
		t.Logf("%d bytes at most, read again %d times", worst, a.p.Stats().ReadAgain)
		w.finish()
	})
}

// A process that is killed while its disk is full, and one that starts on a full disk, leave
// everything to the log.
func TestSimDiskFullKillAndMove(t *testing.T) {
	for _, flush := range []bool{true, false} {
		t.Run(fmt.Sprintf("flushed %v", flush), func(t *testing.T) {
			scenario(t, worldConfig{partitions: 3, flush: flush}, func(w *world) {
				a := w.live("a")
				w.spread(120, time.Second, 500*time.Millisecond)
				time.Sleep(4 * time.Second)
				a.fill()
				time.Sleep(3 * time.Second)
				w.spread(120, time.Second, 500*time.Millisecond)
				disk := a.kill()
				b := w.start("b", nil)
				w.until("b has all", func() bool { return b.live(3) })
				time.Sleep(5 * time.Second)
				a = w.startOn("a", disk, true)
				w.until("shared", func() bool { return a.live(1) && b.live(2) || a.live(2) && b.live(1) })
				time.Sleep(5 * time.Second)
				b.kill()
				w.until("a has all", func() bool { return a.live(3) })
				time.Sleep(5 * time.Second)
				if n := a.storeless(); n != 3 {
					t.Errorf("%d partitions are without a store, want 3", n)
				}
				c := w.start("c", nil)
				w.until("shared again", func() bool { return c.live(1) || c.live(2) })
				a.full.Store(false)
				w.within(45*time.Second, "with the store again", func() bool { return a.p.store.Works() && a.storeless() == 0 })
				w.finish()
			})
		})
	}
}

// A standby on a disk that fills up is given up until there is room; its process takes over all the
// same, from the log.
func TestSimDiskFullOfAStandby(t *testing.T) {
	scenario(t, worldConfig{partitions: 2, tune: func(c *Config) { c.Standbys = 1 }}, func(w *world) {
		a := w.live("a")
		b := w.start("b", nil)
		w.until("shared out", func() bool { return a.live(1) && b.live(1) })
		w.spread(200, time.Second, 500*time.Millisecond)
		w.within(20*time.Second, "each follows the other", func() bool { return a.follows(1) && b.follows(1) })
		empty := b.fill()
		w.within(20*time.Second, "b is without a store", func() bool { return b.storeless() == 1 && len(b.p.Stats().Standbys) == 0 })
		time.Sleep(30 * time.Second)
		if n := w.lines("standby is given up"); n > 0 {
			t.Errorf("it is said %d times that a standby is given up", n)
		}
		a.kill()
		w.within(session+2*time.Second, "b has taken over", func() bool { return b.live(2) })
		time.Sleep(5 * time.Second)
		empty()
		a = w.start("a", nil)
		w.within(60*time.Second, "each follows the other again", func() bool { return b.storeless() == 0 && a.follows(1) && b.follows(1) })
		w.finish()
	})
}

// A disk from which nothing comes back holds up what is in memory, too. The process is not ready, and ends when that has lasted, so that others take over: its
// heartbeats would go on.
func TestSimDiskHangs(t *testing.T) {
	for _, stops := range []bool{false, true} {
		t.Run(fmt.Sprintf("told to stop %v", stops), func(t *testing.T) {
			scenario(t, worldConfig{partitions: 2}, func(w *world) {
				a := w.live("a")
				w.large(3000, func(int) time.Time { return in(25 * time.Second) })
				time.Sleep(5 * time.Second)
				a.flush()
				w.start("b", nil)
				time.Sleep(10 * time.Second)
				resume := a.hang()
				a.ended.Store(true)
				began := time.Now()
				if stops {
					time.Sleep(20 * time.Second) // by then something was read
					began = time.Now()
					a.stop()
				} else {
					time.Sleep(leastPatience + 15*time.Second)
					if ready, _ := a.p.Ready(); ready || a.p.Alive() {
						t.Errorf("ready %t, alive %t", ready, a.p.Alive())
					}
				}
				<-a.done
				most := 3 * leastPatience
				if stops {
					most = a.p.cfg.ShutdownTimeout + shutdownGrace + 2*time.Second
				}
				if took := time.Since(began); !errors.Is(a.err, ErrHangs) || took > most {
					t.Errorf("it has ended after %v: %v", took, a.err)
				}
				a.link.kill()
				w.within(30*time.Second, "the other one delivers all", func() bool { return w.outstanding() == 0 })
				w.finish()
				resume() // what is left of it in this program has to end
				a.stop()
				time.Sleep(time.Minute)
			})
		})
	}
}

// Nor does it read again, when the store works, what its log has lost a moment before.
func TestSimBeheadedAsTheStoreWorks(t *testing.T) {
	guarantees(t, worldConfig{tune: func(c *Config) { c.AcceptLoss = true }}, func(w *world) {
		a := w.startOn("a", nil, true)
		w.until("live", func() bool { return a.live(1) })
		for i := range 5 {
			w.send(request(fmt.Sprint(i), in(2*time.Minute)))
		}
		w.committed(5)
		w.within(time.Minute, "it has no store", func() bool { return a.storeless() == 1 })
		w.within(soonEnough, "seen", func() bool { return w.watch.Position(simTopic, 0) == 5 })
		a.full.Store(false)
		w.within(45*time.Second, "the store works", func() bool { return a.p.store.Works() })
		w.behead(0, 3)
		w.saysLost()
		w.within(3*time.Minute, "all are delivered", func() bool { return w.watch.Counts().Delivered == 5 })
		w.within(time.Minute, "with the store again", func() bool { return a.storeless() == 0 && a.live(1) })
		w.finish()
		equal(t, "lost", w.watch.Counts().Lost, 0)
	})
}
