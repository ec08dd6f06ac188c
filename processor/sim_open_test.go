//go:build synctests

package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// reasonOf is what a process says of a catch-up.
func reasonOf(p *process) (why string) {
	for _, s := range p.p.Stats().Partitions {
		why += s.Reason
	}
	return why
}

// heldBack is what a process says of open transactions.
func (p *process) heldBack() (why string) {
	for _, s := range p.p.Stats().Partitions {
		why += s.HeldBack
	}
	return why
}

// A producer that leaves its transaction open holds back all that is behind it: the owner of the partition says so, and its successor, which waits
// for the records of ours that lie there, until the transaction ends.
func TestSimOpenTransaction(t *testing.T) {
	scenario(t, worldConfig{late: time.Hour}, func(w *world) {
		a := w.live("a")
		w.send(request("known", in(0)))
		w.until("targets are known", func() bool { return w.outstanding() == 0 })
		mend := w.leaderless("orders")
		w.send(request("tried again", in(time.Second)))
		w.committed(1)
		end := w.transaction(request("open", in(0)))
		w.send(request("behind it", in(0)))
		lines := a.lines.Load()
		w.within(10*session, "the owner tells", func() bool { return strings.Contains(a.heldBack(), "open in "+simTopic+"/0 since offset") })
		if ready, why := a.p.Ready(); !ready {
			t.Errorf("not ready: %+v", why)
		}
		time.Sleep(5 * session)
		if n := a.told(EventBlocked); n != 1 || a.lines.Load()-lines > 6 {
			t.Errorf("it is told %d times, with %d lines in the log", n, a.lines.Load()-lines)
		}
		a.kill()
		mend()
		b := w.start("b", nil)
		w.within(soonEnough, "its successor waits", func() bool { return strings.Contains(reasonOf(b), "open in "+simTopic+"/0 since offset") })
		time.Sleep(3 * session)
		if b.live(1) {
			t.Error("it is live, although records of ours may lie behind the transaction")
		}
		end(true)
		w.within(soonEnough, "live", func() bool { return b.live(1) })
		w.until("all is delivered", func() bool { return w.watch.Counts().Delivered == 4 })
		w.within(10*session, "nothing is held back", func() bool { return b.heldBack() == "" })
		if n := b.told(EventFreed); n != 1 {
			t.Errorf("it is told %d times that it has ended", n)
		}
		w.finish()
	})
}

// A takeover that waits for an open transaction carries nothing: that it is behind is said in time, as of a partition that is live.
func TestSimOpenTransactionInACatchUpIsBehind(t *testing.T) {
	const keeps = 40 * time.Second // the transaction times out after a minute
	scenario(t, worldConfig{late: time.Hour}, func(w *world) {
		w.set("retention.ms", fmt.Sprint(keeps.Milliseconds()))
		a := w.live("a")
		w.send(request("known", in(0)))
		w.until("targets are known", func() bool { return w.outstanding() == 0 })
		mend := w.leaderless("orders")
		w.send(request("tried again", in(time.Second)), request("far", in(3*keeps)))
		w.committed(1)
		end := w.transaction(request("open", in(0)))
		w.within(10*time.Second, "it was, behind the transaction", func() bool { return a.p.Stats().Retried > 0 })
		time.Sleep(time.Second)
		a.kill()
		mend()
		b := w.start("b", nil)
		w.within(2*session, "its successor waits", func() bool { return strings.Contains(reasonOf(b), "open in "+simTopic+"/0 since offset") })
		behind := func() (why string) {
			for _, s := range b.p.Stats().Partitions {
				why += s.CarryBehind
			}
			return why
		}
		time.Sleep(keeps/2 - 5*time.Second)
		equal(t, "said soon", behind(), "")
		w.within(keeps/4+keeps/10, "it is said", func() bool {
			return strings.Contains(behind(), "nothing is carried before the partition is live") && strings.Contains(behind(), "open in "+simTopic+"/0 since offset")
		})
		end(true)
		w.within(soonEnough, "live", func() bool { return b.live(1) })
		w.within(keeps/4, "it is not behind", func() bool { return behind() == "" })
		w.ages(keeps, 3*keeps)
		w.arrived()
		w.finish()
	})
}

// Long transactions that overlap for ever hold nothing back for longer than each is open.
func TestSimOverlappingTransactionsHoldNothingBack(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		stop := w.overlap(overlap{producers: 3, each: session / 2, records: 5})
		for range 100 {
			if why := a.heldBack(); why != "" {
				t.Fatal(why)
			}
			time.Sleep(session / 4)
		}
		stop()
		w.clean()
		a.kill()
	})
}
