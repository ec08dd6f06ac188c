//go:build synctests

package processor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// runner carries a plan out.
type runner struct {
	*world
	plan          plan
	slots         []*slot
	later         []event
	mend          []func() // ends what still goes wrong
	stepped       map[*process]bool
	requests      int
	borrowed      int64 // of these: by the headers of another tool
	cut           int64 // records of the log that retention took
	overlaps      bool  // there are producers with overlapping transactions
	clocked       bool  // a broker's clock has been wrong
	acts          map[op]int64
	frozenBrokers map[int32]bool
	healed        bool
	known         known
	users         sync.WaitGroup // transactions of request producers
}

// slot is a machine: a process of a group runs on it, or will again.
type slot struct {
	of   *world
	name string
	p    *process // nil: down
	disk *vfs.MemFS
	skew time.Duration // of its clock, when a process starts
	gone bool
}

type event struct {
	at time.Time
	do func()
}

// sleep lets time pass, carries out what is due meanwhile, and looks at the checkpoints.
func (r *runner) sleep(d time.Duration) {
	until := time.Now().Add(d)
	for {
		next := time.Now().Add(100 * time.Millisecond)
		if next.After(until) {
			next = until
		}
		slices.SortStableFunc(r.later, func(a, b event) int { return a.at.Compare(b.at) })
		if len(r.later) > 0 && r.later[0].at.Before(next) {
			next = r.later[0].at
		}
		time.Sleep(time.Until(next))
		r.reap()
		for len(r.later) > 0 && !r.later[0].at.After(time.Now()) {
			e := r.later[0]
			r.later = r.later[1:]
			e.do()
		}
		r.inspect()
		if !time.Now().Before(until) {
			return
		}
	}
}

// reap takes note of processes that a rule has killed.
func (r *runner) reap() {
	for _, m := range r.slots {
		if m.p == nil {
			continue
		}
		if c := m.p.crashed.Load(); c != nil {
			m.p, m.disk = nil, c.disk
			r.after(c.down, func() { r.up(m) })
		}
	}
}

// after carries something out later, or when everything is healed.
func (r *runner) after(d time.Duration, do func()) {
	r.later = append(r.later, event{time.Now().Add(d), do})
}

// heal ends everything that is still wrong, and makes sure that a replica runs.
func (r *runner) heal() {
	r.note("---- healed")
	r.healed = true
	for _, m := range r.slots {
		m.skew = 0
		for _, p := range m.of.processes {
			p.link.clear()
			p.skew.Store(0)
		}
	}
	for len(r.later) > 0 {
		e := r.later[0]
		r.later = r.later[1:]
		e.do()
	}
	for _, do := range r.mend {
		do()
	}
	remembers := 200 * time.Millisecond // the checker's client remembers for some tens what was answered
	if r.cfg.grows || r.cfg.widens {
		remembers = 1200 * time.Millisecond // and of topics as long as it does without new metadata
	}
	if r.acts[opWiden] > 0 {
		remembers = learnsOfPartitions
	}
	time.Sleep(remembers)
	r.reap()
	for _, w := range []*world{r.world, r.rival} {
		if w != nil && !slices.ContainsFunc(r.slots, func(s *slot) bool { return s.of == w && s.p != nil }) {
			r.up(r.slots[slices.IndexFunc(r.slots, func(s *slot) bool { return s.of == w })])
		}
	}
}

func (r *runner) up(s *slot) {
	if s.p == nil && !s.gone {
		s.p = s.of.launch(s.name, s.disk, false, s.skew)
	}
}

// pick finds a process that runs.
func (r *runner) pick(who int) *slot {
	for i := range r.slots {
		if s := r.slots[(who+i)%len(r.slots)]; s.p != nil {
			return s
		}
	}
	return nil
}

// soonPlayed is for how long an act may keep the schedule: nothing that is due later ends while it does, and so neither what it may be waiting for.
const soonPlayed = 30 * time.Second

// play carries a step out, and reports whether it could.
func (r *runner) play(s step) bool {
	late := time.AfterFunc(soonPlayed, func() {
		panic(fmt.Sprintf("%s has kept the schedule for %v, and so all that ends what is wrong: %s", s, soonPlayed, r.plan.line()))
	})
	defer late.Stop()
	return r.step(s)
}

func (r *runner) step(s step) bool {
	if r.plan.loses() && (s.Op == opCancel || s.Op == opRefuseOne) {
		return false // nothing is named
	}
	switch s.Op {
	case opSend:
		for range s.N {
			r.client.Produce(context.Background(), r.draw(), r.known.add) // the checker sees what became of it
		}
		return true
	case opBurst:
		r.burst(s)
		return true
	case opTransact:
		r.transact(s)
		return true
	case opBehead:
		return r.beheadSome(s)
	case opRefuseOne:
		r.refuseOne(s)
		return true
	case opCancel:
		r.cancelMany(s.N, func() {})
		return true
	case opRetain:
		went := r.retain()
		r.cut += went
		return went > 0
	case opOverlap:
		r.overlapFor(s)
		return true
	case opJoin:
		if len(r.slots) < 4 {
			r.slots = append(r.slots, &slot{of: r.world, name: string(rune('a' + len(r.slots)))})
			r.up(r.slots[len(r.slots)-1])
		}
		return true
	case opFault:
		f := faults[s.N]
		h := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{f.key}, Topic: f.topic, Err: f.err, TopLevel: f.top, Count: 1 + s.Who})
		r.mend = append(r.mend, h.Remove)
		return true
	case opLeaderless:
		r.after(s.For, r.leaderless(leaderless[s.N]))
		return true
	case opForget:
		_, mend := r.forget("orders", int64(s.N)+1, kerr.OutOfOrderSequenceNumber)
		r.mend = append(r.mend, mend)
		return true
	case opCoordinator:
		r.cluster.RehashCoordinators()
		return true
	case opLeaders:
		r.cluster.ShufflePartitionLeaders()
		return true
	}
	if done, handled := r.actOnBrokers(s); handled {
		return done
	}
	m := r.pick(s.Who)
	if m == nil {
		return false
	}
	if r.actOnProcess(s, m) {
		return true
	}
	p := m.p
	down := func(disk *vfs.MemFS) {
		m.p, m.disk = nil, disk
		r.after(s.For, func() { r.up(m) })
	}
	switch s.Op {
	case opKill:
		down(p.kill())
	case opPowerLoss:
		down(p.crash(50))
	case opWipe:
		p.kill()
		down(nil)
	case opFlush:
		p.flush()
	case opFull:
		r.after(s.For, p.fill())
	case opStop, opLeave:
		r.note("---- %s is told to stop", p.name)
		p.ended.Store(true)
		p.stop()
		m.p = nil
		m.gone = s.Op == opLeave && m != r.slots[0] && m.of == r.world
		r.after(s.For, func() {
			select {
			case <-p.done:
				m.disk = p.fs
			default:
				m.disk = nil // it still runs, so the next one on this machine has a disk of its own
			}
			r.up(m)
		})
	case opFreeze:
		r.after(s.For, p.link.freeze())
	case opAhead, opBehind:
		if r.stepped[p] {
			return false
		}
		r.stepped[p] = true
		by := time.Duration(1+s.For.Milliseconds()%20) * time.Second
		if s.Op == opBehind {
			by = -by
		}
		p.skew.Store(int64(by))
		r.after(s.For, func() { p.skew.Store(0) })
	case opHold:
		ch := make(chan struct{})
		p.link.on(rule{key: kinds[s.N], wait: ch})
		r.after(s.For, func() { close(ch) })
	case opCutBefore, opCutAfter:
		p.link.on(rule{key: kinds[s.N], cut: true, after: s.Op == opCutAfter})
	case opKillBefore, opKillAfter:
		p.link.on(rule{key: kinds[s.N], after: s.Op == opKillAfter, call: func() {
			if p.crashed.Load() == nil {
				p.crashed.Store(&crashed{disk: p.kill(), down: s.For})
			}
		}})
	case opFreezeBefore, opFreezeAfter:
		p.link.on(rule{key: kinds[s.N], after: s.Op == opFreezeAfter, call: func() {
			r.note("---- %s freezes for %v", p.name, s.For)
			thaw := p.link.freeze()
			time.AfterFunc(s.For, thaw)
		}})
	}
	return true
}
