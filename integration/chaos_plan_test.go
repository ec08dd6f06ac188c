package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// fault is a kind of fault.
type fault string

// The faults. A cut concerns one replica, and all brokers unless it says otherwise.
const (
	killFault      fault = "kill -9"
	killAllFault   fault = "kill -9 of all"
	terminateFault fault = "SIGTERM and start"
	freezeFault    fault = "SIGSTOP"
	joinFault      fault = "replica added"
	leaveFault     fault = "replica removed"
	resetFault     fault = "connections reset"
	refuseFault    fault = "connections refused"
	holeFault      fault = "cut, nothing passes"
	deafFault      fault = "cut, no answers pass"
	partFault      fault = "cut from one broker"
	slowFault      fault = "kill -9, answers slow"
	brokerFault    fault = "broker kill -9"
	pauseFault     fault = "broker SIGSTOP"
)

// deck is what comes, in any order, before all of it comes again. Replicas come and go equally often.
func deck(kills int, more ...fault) []fault {
	return slices.Concat(slices.Repeat([]fault{killFault}, kills), more, []fault{killAllFault, terminateFault, freezeFault,
		joinFault, leaveFault, resetFault, refuseFault, holeFault, deafFault})
}

// step is one fault and what surrounds it.
type step struct {
	number int
	fault  fault
	victim int           // the place of a replica
	node   int           // of a broker
	before time.Duration // passes before it strikes
	hold   time.Duration // how long it lasts after the others have recovered, where it lasts
	wipe   int           // of what is killed: the places of those whose state directory is removed, as bits
	reset  bool          // a cut ends with all connections reset; what was held is lost then, and else arrives late
	rush   bool          // the next fault does not wait for the recovery from this one
}

func (s step) String() string {
	return fmt.Sprintf("%d: %s, victim %d, broker %d, wipe %03b, reset %t, rush %t", s.number, s.fault, s.victim, s.node, s.wipe, s.reset, s.rush)
}

// plan draws the steps. They follow from the seed alone, whatever comes of them.
type plan struct {
	random   *rand.Rand
	deck     []fault
	cards    []fault // that come next, before the whole deck comes again
	number   int
	replicas int // that there are after the last step
	brokers  int
}

// chaosReplicas is how many replicas there are but for those added and removed.
const chaosReplicas = 3

// mostReplicas is how many there ever are.
const mostReplicas = chaosReplicas + 1

// newPlan begins with the faults of an opening, in this order.
func newPlan(seed, stream uint64, brokers, replicas int, deck []fault, opening ...fault) *plan {
	return &plan{random: rand.New(rand.NewPCG(seed, stream)), deck: deck, cards: opening, replicas: replicas, brokers: brokers}
}

func (p *plan) next() step {
	if len(p.cards) == 0 {
		p.cards = slices.Clone(p.deck)
		p.random.Shuffle(len(p.cards), func(i, j int) { p.cards[i], p.cards[j] = p.cards[j], p.cards[i] })
	}
	s := step{
		fault:  p.cards[0],
		victim: p.random.IntN(p.replicas),
		node:   1 + p.random.IntN(p.brokers),
		before: time.Duration(p.random.IntN(800)) * time.Millisecond,
		hold:   time.Duration(p.random.IntN(1500)) * time.Millisecond,
		wipe:   p.random.IntN(1<<mostReplicas) & p.random.IntN(1<<mostReplicas), // one in four
		reset:  p.random.IntN(2) == 0,
		rush:   p.random.IntN(5) == 0,
	}
	p.cards = p.cards[1:]
	p.number++
	s.number = p.number
	switch s.fault {
	case joinFault:
		p.replicas++
	case leaveFault:
		p.replicas--
	}
	return s
}

// One seed gives the same faults in the same order, of every kind, for replicas that are there.
func TestChaosPlan(t *testing.T) {
	draw := func(seed uint64) (all []step) {
		for p := newPlan(seed, 1, 3, chaosReplicas, deck(4, brokerFault)); len(all) < 500; {
			before := p.replicas
			s := p.next()
			if s.victim >= before || s.node < 1 || s.node > 3 || p.replicas < 2 || p.replicas > mostReplicas {
				t.Fatalf("%v with %d replicas", s, before)
			}
			all = append(all, s)
		}
		return all
	}
	one := draw(7)
	if !slices.Equal(one, draw(7)) {
		t.Error("the same seed gives other steps")
	}
	if slices.Equal(one, draw(8)) {
		t.Error("another seed gives the same steps")
	}
	count := make(map[fault]int)
	for _, s := range one {
		count[s.fault]++
	}
	for _, f := range deck(4, brokerFault) {
		if count[f] < len(one)/len(deck(4, brokerFault)) {
			t.Errorf("%s came %d times in %d steps", f, count[f], len(one))
		}
	}
}
