package integration

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/duewheel/duewheel/bench/child"
	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/proxy"
)

// strike lets the fault of this step happen.
func (c *chaos) strike() {
	victim := min(c.now.victim, len(c.replicas)-1)
	switch c.now.fault {
	case killFault:
		c.kill(c.replicas[victim])
	case killAllFault:
		c.kill(c.replicas...)
	case terminateFault:
		c.terminate(victim)
		c.start(c.replicas[victim])
	case freezeFault:
		c.freeze(victim)
	case joinFault:
		c.view.begin(joinFault)
		c.join()
	case leaveFault:
		c.terminate(victim)
		c.replicas = slices.Delete(c.replicas, victim, victim+1)
	case partFault:
		c.cutPart(victim)
	case slowFault:
		c.slow(victim)
	case brokerFault:
		c.killBroker()
	case pauseFault:
		c.pauseBroker()
	default:
		c.cut(victim)
	}
}

// begin notes that the fault of this step strikes. Static members are told apart, since no replica takes over from them at once.
func (c *chaos) begin(victims ...*chaosReplica) {
	what := c.now.fault
	if len(victims) == 1 && victims[0].Order.InstanceID != "" {
		what += " (static member)"
	}
	c.view.begin(what)
}

// beginAll notes that the fault of this step strikes every group.
func (c *chaos) beginAll() {
	for _, group := range c.beside {
		group.view.begin(c.now.fault)
	}
}

// kill ends processes at the same moment and starts them again, with their stores or without.
func (c *chaos) kill(victims ...*chaosReplica) {
	c.begin(victims...)
	var all sync.WaitGroup
	for _, r := range victims {
		all.Go(r.Kill)
	}
	all.Wait()
	for _, r := range victims {
		c.ended(r)
	}
	for _, r := range victims {
		c.kills++
		if c.isOpen(r.Process) {
			c.open++
		}
		if c.now.wipe&(1<<slices.Index(c.replicas, r)) != 0 {
			if err := os.RemoveAll(r.Order.StateDir); err != nil {
				c.t.Fatal(err)
			}
		}
		c.start(r)
	}
}

// isOpen reports whether a replica has a transaction open. Where no coordinator says so, because a broker is away, it counts as none:
// what is away comes back only when this fault is over.
func (c *chaos) isOpen(p *child.Process) bool {
	for range 3 {
		if states, err := c.describe(transactionalIDs(p)); err == nil {
			return states["Ongoing"] > 0
		}
	}
	return false
}

// terminate stops a replica in order; to be able to, it must not be frozen or cut off.
func (c *chaos) terminate(victim int) {
	r := c.replicas[victim]
	c.undo(r.Process)
	c.begin(r)
	c.tenant.terminate(r.Process)
	c.ended(r)
}

// ended forgets a process.
func (c *chaos) ended(r *chaosReplica) {
	c.view.forget(r.Name())
	r.way.Close()
	c.undos = slices.DeleteFunc(c.undos, func(u undo) bool { return u.replica == r.Process })
}

// undo lets a replica go on, or a broker for nil.
func (c *chaos) undo(r *child.Process) {
	for _, u := range c.undos {
		if u.replica == r {
			c.view.begin(u.what)
			u.do()
		}
	}
	c.undos = slices.DeleteFunc(c.undos, func(u undo) bool { return u.replica == r })
}

func (c *chaos) join() {
	c.joined++
	r := &chaosReplica{id: c.joined}
	c.start(r)
	c.replicas = append(c.replicas, r)
}

// later notes how a fault that lasts will end.
func (c *chaos) later(r *child.Process, what fault, do func()) {
	c.undos = append(c.undos, undo{r, what, c.now.hold, do})
}

// freeze stops a replica in its tracks.
func (c *chaos) freeze(victim int) {
	r := c.replicas[victim].Process
	c.undo(r)
	c.view.begin(freezeFault)
	if err := r.Freeze(); err != nil {
		c.t.Error(err)
	}
	c.view.count(r.Name(), false)
	c.frozen++
	if c.isOpen(r) {
		c.openFrozen++
	}
	c.later(r, "SIGCONT", func() {
		if err := r.Thaw(); err != nil {
			c.t.Error(err)
		}
		c.view.count(r.Name(), true)
	})
}

// cut cuts the connections between a replica and the brokers.
func (c *chaos) cut(victim int) {
	r, s := c.replicas[victim], c.now
	c.undo(r.Process)
	c.view.begin(s.fault)
	way, name := r.way, r.Name()
	switch s.fault {
	case resetFault:
		way.Reset()
		return
	case refuseFault:
		way.Set(proxy.Refuse)
		way.Reset()
	case holeFault:
		way.Set(proxy.Hole)
	case deafFault:
		way.Set(proxy.Deaf)
	}
	c.view.count(name, false)
	c.later(r.Process, "connected again", func() {
		if s.reset {
			way.Reset()
		}
		way.Set(proxy.Open)
		c.view.count(name, true)
	})
}

// cutPart cuts the connections between a replica and one broker of several. What this costs depends on what is asked of this broker,
// and no other replica takes over from one that the coordinator still hears: only what comes after the cut is awaited.
func (c *chaos) cutPart(victim int) {
	r, s := c.replicas[victim], c.now
	c.undo(r.Process)
	addr := c.cluster.Node(s.node).Addr(brokers.Plain)
	r.way.Set(proxy.Hole, addr)
	passes(c.t, c.session+s.hold)
	c.view.begin(partFault)
	if s.reset {
		r.way.Reset()
	}
	r.way.Set(proxy.Open, addr)
}

// slowAnswers is how long answers take while brokers are slow: a take-over asks them some twenty times.
const slowAnswers = 300 * time.Millisecond

// slow kills a replica while brokers are slow to answer all others, and then it. All is live again all the same.
func (c *chaos) slow(victim int) {
	lag := func(r *chaosReplica) {
		way := r.way
		way.Lag(slowAnswers)
		c.later(r.Process, "answers in time", func() { way.Lag(0) })
	}
	dies := c.replicas[victim]
	for _, r := range c.replicas {
		if r != dies {
			lag(r)
		}
	}
	c.kill(dies)
	lag(dies)
}

// pauseBroker freezes one of several brokers until the others have taken over.
func (c *chaos) pauseBroker() {
	c.undo(nil)
	c.awaitInSync()
	node := c.cluster.Node(c.now.node)
	c.beginAll()
	if err := node.Pause(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	c.later(nil, "broker SIGCONT", func() {
		if err := node.Resume(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	})
}

// killBroker kills a broker. The only one starts again at once; one of three is away until the others have taken over.
func (c *chaos) killBroker() {
	c.undo(nil)
	if c.act.nodes > 1 {
		c.awaitInSync()
	}
	node := c.cluster.Node(c.now.node)
	c.beginAll()
	err := node.Kill(c.t.Context())
	if c.act.nodes == 1 {
		passes(c.t, c.now.hold)
		if err = errors.Join(err, node.Start(c.t.Context())); err != nil {
			c.t.Fatal(err)
		}
		return
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.later(nil, "broker back", func() { c.startBroker(node) })
}

func (c *chaos) startBroker(node *brokers.Node) {
	if err := node.Start(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}
