//go:build synctests

package processor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/producer"
)

// frozen are brokers that are silent, as after SIGSTOP: the kernel takes connections and requests, and
// all of it is answered when they go on. What the world itself asks them is answered.
type frozen struct {
	mu sync.Mutex
	m  map[string]chan struct{} // by address
}

// frozenBroker is what to wait for before a broker takes or gives anything; nil: nothing.
func (l *link) frozenBroker(address string) chan struct{} {
	if l.name == outsideLink {
		return nil
	}
	f := &l.world.frozen
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.m[address]
}

// outsideLink is that of the world's own clients.
const outsideLink = "outside"

// freezeBroker freezes one of the brokers for all processes.
func (w *world) freezeBroker(node int32) (thaw func()) {
	w.note("---- broker %d freezes", node)
	address, ch := w.cluster.ListenAddrs()[node], make(chan struct{})
	f := &w.frozen
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.m == nil {
		f.m = map[string]chan struct{}{}
	}
	f.m[address] = ch
	return func() {
		w.note("---- broker %d goes on", node)
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.m, address)
		close(ch)
	}
}

// roles are what a broker can be needed for.
type roles struct {
	group   bool // coordinates the group
	writers bool // coordinates the transactions of the first process, one at least
	topics  []string
}

func (r roles) String() string {
	return fmt.Sprintf("group %v, transactions %v, leader of %v", r.group, r.writers, r.topics)
}

// give gives a broker these roles and no other: nothing but that is led or coordinated by it. Of the
// topics it leads the first partition.
func (w *world) give(node int32, r roles) {
	for _, topic := range []string{simTopic, "orders", "bills", simTopic + ".dead", simAudit} {
		for _, p := range w.cluster.PartitionInfos(topic) {
			to := node
			if p.Partition != 0 || !slices.Contains(r.topics, topic) {
				to = (node + 1 + p.Partition%2) % int32(w.cfg.brokers)
			}
			if err := w.cluster.MoveTopicPartition(topic, p.Partition, to); err != nil {
				w.fail("%v", err)
			}
		}
	}
	for range 100_000 {
		fits := r.group == (w.cluster.CoordinatorFor(simGroup) == node)
		for i, p := range w.processes {
			coordinated := 0
			for _, id := range producer.IDsOf(p.p.lanes[0].writer) {
				if w.cluster.CoordinatorFor(id) == node {
					coordinated++
				}
			}
			fits = fits && (coordinated > 0) == (r.writers && i == 0)
		}
		if fits {
			return
		}
		w.cluster.RehashCoordinators()
	}
	w.fail("no such placement: %v", r)
}

// flow is a stream of requests that are due soon, and how far their delivery is behind.
type flow struct {
	other bool  // to partitions of the second process alone
	skip  int32 // not to this many partitions

	w    *world
	to   []int32
	dues []time.Time
}

const flowEvery = 20 * time.Millisecond

// begin decides which partitions the requests go to.
func (f *flow) begin(w *world, second *process) {
	f.w = w
	has := map[int32]bool{}
	for _, p := range second.p.Stats().Partitions {
		has[p.Partition] = true
	}
	for p := f.skip; p < w.cfg.partitions; p++ {
		if !f.other || has[p] {
			f.to = append(f.to, p)
		}
	}
}

// run sends requests for a while, and returns how far delivery was behind at most.
func (f *flow) run(d time.Duration) (behind time.Duration) {
	for until := in(d); time.Now().Before(until); time.Sleep(flowEvery) {
		due := in(5 * flowEvery).Truncate(time.Millisecond)
		f.dues = append(f.dues, due)
		n := len(f.dues)
		rec := request(fmt.Sprint(n), due)
		rec.Partition = f.to[n%len(f.to)]
		if n%3 == 0 {
			rec.Headers[2].Value = []byte("bills")
		}
		f.w.client.Produce(context.Background(), rec, nil)
		behind = max(behind, f.behind())
	}
	return behind
}

// behind is how long ago the first record was due that has not arrived.
func (f *flow) behind() time.Duration {
	if n := f.w.watch.Counts().Delivered; n < int64(len(f.dues)) {
		return time.Since(f.dues[n])
	}
	return 0
}

const (
	brokerSession = 2 * time.Second // after what time others take over from a silent broker
	takesOver     = brokerSession + 5*time.Second
	inTime        = 80 * time.Millisecond
)

// A broker that freezes for 20 s does not hold up what it is not needed for. What it was needed for goes
// on soon after others have taken that over, and does not stop again while it is frozen or when it wakes up.
func TestSimBrokerFreezes(t *testing.T) {
	for _, c := range []struct {
		name string
		is   roles
		flow flow // partitions that requests are sent to: all, those of the second process, or but the first
		most time.Duration
	}{
		{"needed for nothing", roles{}, flow{}, inTime},
		{"group coordinator", roles{group: true}, flow{}, takesOver},
		{"transaction coordinator", roles{writers: true}, flow{}, takesOver},
		{"transaction coordinator of another", roles{writers: true}, flow{other: true}, inTime},
		{"leads a delay partition", roles{topics: []string{simTopic}}, flow{}, takesOver},
		{"leads another delay partition", roles{topics: []string{simTopic}}, flow{skip: 1}, inTime},
		{"leads a target partition", roles{topics: []string{"bills"}}, flow{}, takesOver},
		{"all", roles{group: true, writers: true, topics: []string{simTopic, "orders", "bills"}}, flow{}, takesOver},
	} {
		for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
			if c.is.writers && guarantee == AtLeastOnce {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", c.name, guarantee), func(t *testing.T) {
				scenario(t, worldConfig{guarantee: guarantee, brokers: 3, partitions: 4}, func(w *world) {
					freezeFor20s(w, c.is, c.flow, c.most)
				})
			})
		}
	}
}

func freezeFor20s(w *world, is roles, f flow, most time.Duration) {
	const node = 1
	a, b := w.start("a", nil), w.start("b", nil)
	w.until("live", func() bool { return a.live(2) && b.live(2) })
	f.begin(w, b)
	w.give(node, is)
	f.run(5 * time.Second)
	before := f.run(time.Second)
	thaw := w.freezeBroker(node)
	first := f.run(brokerSession)
	if most > inTime {
		w.give(node, roles{})
	}
	second := f.run(takesOver - brokerSession)
	third := f.run(13 * time.Second)
	thaw()
	last := f.run(3 * time.Second)
	later := inTime
	if slices.Contains(is.topics, "bills") {
		later = takesOver - brokerSession // what was carried on meanwhile comes back in its own time
	}
	if w.t.Logf("behind %v before; %v; %v after others have taken over; %v later; %v when it went on", before, first, second, third, last); before > inTime ||
		max(first, second) > most || max(third, last) > later {
		w.t.Errorf("at most %v behind is expected, and %v later", most, later)
	}
	w.arrived()
}

// A member that the group gives up while it joins again goes on in another name, and its client keeps its partitions until the group has shared
// them out anew. Brokers take offset commits in that name for every partition (design rule 6), and others have had them since.
func TestSimGivenUpWhileJoining(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		for i := range 300 {
			w.send(request(fmt.Sprint(i), in(time.Duration(i)*50*time.Millisecond)))
		}
		var thaw func()
		frozen := a.link.on(rule{key: kmsg.JoinGroup, call: func() { thaw = a.link.freeze() }})
		b := w.start("b", nil)
		w.hit(frozen)
		w.until("b has it", func() bool { return b.live(1) })
		time.Sleep(time.Second)
		release := make(chan struct{})
		held := a.link.on(rule{key: kmsg.SyncGroup, wait: release})
		thaw()
		w.hit(held)
		time.Sleep(500 * time.Millisecond)
		close(release)
		w.finish()
	})
}
