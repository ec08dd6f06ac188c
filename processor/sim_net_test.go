//go:build synctests

package processor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/wait"
)

// link is all that one simulated process sees of the network: every connection of its clients
// goes through it, request by request. What was written is on its way whatever becomes of the
// client, as with a kernel's socket buffers, so a request can arrive late, and twice.
type link struct {
	world *world
	name  string

	mu       sync.Mutex
	rng      *rand.Rand
	thaw     chan struct{} // not nil: nothing passes until it is closed
	dead     bool
	wires    map[*wire]struct{}
	rules    []*rule
	asked    map[kmsg.Key]int // requests that were delivered
	quota    quotaOf
	bar      string        // an address that refuses connections
	late     time.Duration // of answers
	lateFrom string        // "": from all addresses
	dials    atomic.Int64

	carriersRead atomic.Int64 // bytes
}

// rule is what happens to the next requests of a kind: either as they are about to be delivered,
// or, after, when they have been carried out and the answer is about to be delivered.
type rule struct {
	key   kmsg.Key
	match func(kmsg.Request) bool // nil: every one
	count int                     // how many are left; negative: no bound
	after bool

	timekeeper bool // it is for requests of the timekeeper, and else for all others

	call func()        // called first
	wait chan struct{} // not nil: held until it is closed
	cut  bool          // the connection breaks

	hits    chan struct{} // told of each hit; buffered
	dropped bool          // cleared; guarded by the link
}

func newLink(w *world, name string, seed uint64) *link {
	return &link{world: w, name: name, rng: rand.New(rand.NewPCG(seed, 1)), wires: map[*wire]struct{}{}, asked: map[kmsg.Key]int{}}
}

var errUnplugged = &net.OpError{Op: "dial", Net: "fake", Err: errors.New("unplugged")}

// dial is the dialer of the process's clients. A refusal takes its time there as everywhere: where it came at once, a client that tries
// again at once would stop the world's clock.
func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.dials.Add(1)
	l.world.count(l.name, "dials")
	c, err := l.connect(ctx, network, address)
	if err != nil {
		wait.For(ctx, l.world.latency)
	}
	return c, err
}

func (l *link) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if l.isDead() || l.bars(address) || l.name != outsideLink && l.world.unplugged.Load() {
		return nil, errUnplugged
	}
	l.mu.Lock()
	thaw := l.thaw
	l.mu.Unlock()
	if thaw != nil {
		select {
		case <-thaw:
		case <-ctx.Done():
			return nil, &net.OpError{Op: "dial", Net: "fake", Err: ctx.Err()}
		}
	}
	server, err := l.world.network.DialContext(ctx, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "fake", Err: err}
	}
	client, far := net.Pipe()
	w := &wire{link: l, address: address, client: far, server: server, cut: make(chan struct{}), asked: map[int32]*frame{}, queue: make(chan *frame, 256)}
	l.mu.Lock()
	dead := l.dead
	if !dead {
		l.wires[w] = struct{}{}
	}
	l.mu.Unlock()
	if dead {
		client.Close()
		w.close()
		return nil, errUnplugged
	}
	l.world.wg.Go(w.listen)
	l.world.wg.Go(w.forward)
	l.world.wg.Go(w.back)
	return socket{client}, nil
}

// socket is one end of a pipe that says of its own end what a TCP connection says: clients try again then.
type socket struct{ net.Conn }

func (s socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	return n, asOfTCP(err)
}

func (s socket) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	return n, asOfTCP(err)
}

func asOfTCP(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return net.ErrClosed
	}
	return err
}

// freeze stops everything that is on its way, in both directions, and gives back what lets it
// go on.
func (l *link) freeze() (thaw func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.thaw != nil {
		return func() {}
	}
	ch := make(chan struct{})
	l.thaw = ch
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.thaw == ch {
			close(ch)
			l.thaw = nil
		}
	}
}

// refuse makes an address refuse the process's connections, and breaks those that there are.
func (l *link) refuse(address string) (mend func()) {
	l.mu.Lock()
	l.bar = address
	wires := maps.Clone(l.wires)
	l.mu.Unlock()
	for w := range wires {
		if w.address == address {
			w.close()
		}
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.bar = ""
	}
}

func (l *link) bars(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bar == address
}

// slowness is by how much later a broker answers than it could: one that has much to do, or is far away.
type slowness struct {
	by  time.Duration
	one bool // broker of several; else all of them
}

func (s slowness) String() string {
	if s.one {
		return fmt.Sprintf("of one broker, by %v", s.by)
	}
	return fmt.Sprintf("of all brokers, by %v", s.by)
}

// slows makes answers to the process late: those from one address, or from all for none.
func (l *link) slows(by time.Duration, address string) (mend func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late, l.lateFrom = by, address
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.late = 0
	}
}

// lateness is by how much later an answer from an address is to arrive.
func (l *link) lateness(address string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lateFrom != "" && l.lateFrom != address {
		return 0
	}
	return l.late
}

// kill unplugs the process for good.
func (l *link) kill() {
	l.mu.Lock()
	l.dead = true
	wires := l.wires
	l.wires = map[*wire]struct{}{}
	if l.thaw != nil {
		close(l.thaw)
		l.thaw = nil
	}
	l.rules = nil
	l.mu.Unlock()
	for w := range wires {
		w.close()
	}
}

func (l *link) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// on adds a rule. It gives back a channel that is told of each hit.
func (l *link) on(r rule) <-chan struct{} {
	r.hits = make(chan struct{}, 64)
	if r.count == 0 {
		r.count = 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules = append(l.rules, &r)
	return r.hits
}

// clear drops every rule, for requests that are under way as well; what is held goes on when its own channel says so.
func (l *link) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.rules {
		r.dropped = true
	}
	l.rules = nil
}

// holds reports whether a rule that was found for a request still holds as it is answered.
func (l *link) holds(r *rule) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return r != nil && !r.dropped
}

// requests is how many requests of each kind have come from the process so far.
func (p *process) requests() map[kmsg.Key]int {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	return maps.Clone(p.link.asked)
}

// judge finds the rule for a request.
func (l *link) judge(f *frame) *rule {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[f.key]++
	for _, r := range l.rules {
		if r.count == 0 || r.key != f.key || f.ofTimekeeper() != r.timekeeper || r.match != nil && !r.match(f.request()) {
			continue
		}
		if r.count > 0 {
			r.count--
		}
		select {
		case r.hits <- struct{}{}:
		default:
		}
		return r
	}
	return nil
}
