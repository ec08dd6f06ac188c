//go:build synctests

package processor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"strings"
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

	mu    sync.Mutex
	rng   *rand.Rand
	thaw  chan struct{} // not nil: nothing passes until it is closed
	dead  bool
	wires map[*wire]struct{}
	rules []*rule
	asked map[kmsg.Key]int // requests that were delivered
	quota quotaOf
	bar   string // an address that refuses connections
	dials atomic.Int64
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

// dial is the dialer of the process's clients. A refusal takes its time there as everywhere: where it came at once, whoever tries
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

// pass waits for the time that a frame takes, and while the link is frozen.
func (w *wire) pass() bool {
	l := w.link
	l.mu.Lock()
	delay := 1 + time.Duration(l.rng.Int64N(int64(l.world.latency)))
	l.mu.Unlock()
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return w.melt()
	case <-w.cut:
		return false
	}
}

// melt waits while the link or the broker is frozen.
func (w *wire) melt() bool {
	w.link.mu.Lock()
	thaw := w.link.thaw
	w.link.mu.Unlock()
	for _, thaw := range []chan struct{}{thaw, w.link.frozenBroker(w.address)} {
		if thaw == nil {
			continue
		}
		select {
		case <-thaw:
		case <-w.cut:
			return false
		}
	}
	return true
}

// apply does what a rule says.
func (w *wire) apply(r *rule) {
	if r.call != nil {
		r.call()
	}
	if r.wait != nil {
		select {
		case <-r.wait:
		case <-w.cut:
		}
	}
	if r.cut {
		w.close()
	}
	w.melt() // the call may have frozen the link
}

// wire is one connection.
type wire struct {
	link    *link
	address string
	client  net.Conn // our end of the client's pipe
	server  net.Conn
	queue   chan *frame // requests that were written and not delivered yet
	once    sync.Once
	cut     chan struct{}

	mu    sync.Mutex
	asked map[int32]*frame // by correlation id
	muted time.Time        // until then the broker reads nothing from it
}

type frame struct {
	bytes   []byte // with its size
	key     kmsg.Key
	version int16
	corr    int32
	rule    *rule
}

// request parses the frame.
func (f *frame) request() kmsg.Request {
	req := kmsg.RequestForKey(int16(f.key))
	req.SetVersion(f.version)
	b := f.bytes[12:]
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2+max(n, 0):]
	if req.IsFlexible() {
		b = b[1:] // no tags
	}
	if err := req.ReadFrom(b); err != nil {
		panic(fmt.Sprintf("request %d version %d: %v", f.key, f.version, err))
	}
	return req
}

// ofTimekeeper reports a request by which a process asks what time it is.
func (f *frame) ofTimekeeper() bool {
	var id *string
	switch f.key {
	case kmsg.InitProducerID:
		id = f.request().(*kmsg.InitProducerIDRequest).TransactionalID
	case kmsg.AddOffsetsToTxn:
		id = &f.request().(*kmsg.AddOffsetsToTxnRequest).TransactionalID
	case kmsg.DescribeTransactions:
		return true
	case kmsg.EndTxn:
		id = &f.request().(*kmsg.EndTxnRequest).TransactionalID
	}
	return id != nil && strings.Contains(*id, "-clock-")
}

func (w *wire) close() {
	w.once.Do(func() {
		close(w.cut)
		w.client.Close()
		w.server.Close()
		w.link.mu.Lock()
		delete(w.link.wires, w)
		w.link.mu.Unlock()
	})
}

func (w *wire) isCut() bool {
	select {
	case <-w.cut:
		return true
	default:
		return false
	}
}

// listen takes what the client writes. When the client hangs up, what it wrote is delivered
// all the same.
func (w *wire) listen() {
	defer close(w.queue)
	for {
		b, err := readFrame(w.client)
		if err != nil {
			return
		}
		f := &frame{bytes: b, key: kmsg.Key(binary.BigEndian.Uint16(b[4:])), version: int16(binary.BigEndian.Uint16(b[6:])), corr: int32(binary.BigEndian.Uint32(b[8:]))}
		select {
		case w.queue <- f:
		case <-w.cut:
			return
		}
	}
}

func readFrame(c net.Conn) ([]byte, error) {
	b := make([]byte, 4, 512)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, err
	}
	b = append(b, make([]byte, binary.BigEndian.Uint32(b))...)
	_, err := io.ReadFull(c, b[4:])
	return b, err
}

// forward delivers requests in order, and hangs up when the last one was answered.
func (w *wire) forward() {
	defer w.server.Close()
	defer w.settle()
	for f := range w.queue {
		if !w.pass() {
			break
		}
		if !w.unmute() {
			break
		}
		if f.rule = w.link.judge(f); f.rule != nil && !f.rule.after {
			w.apply(f.rule)
		}
		w.link.world.heard.note(f, w, false)
		w.link.world.count(w.link.name, f.key.Name())
		w.mu.Lock()
		w.asked[f.corr] = f
		w.mu.Unlock()
		if _, err := w.server.Write(f.bytes); err != nil {
			w.close()
		}
	}
	for range w.queue { // listen must not hang on a full queue
	}
}

// settle waits until every request was answered, for as long as a broker may take for one.
func (w *wire) settle() {
	for range 500 {
		w.mu.Lock()
		n := len(w.asked)
		w.mu.Unlock()
		select {
		case <-w.cut:
			return
		case <-time.After(10 * time.Millisecond):
		}
		if n == 0 {
			return
		}
	}
}

// back brings the answers.
func (w *wire) back() {
	defer w.close()
	hungUp := false
	for {
		b, err := readFrame(w.server)
		if err != nil {
			return
		}
		corr := int32(binary.BigEndian.Uint32(b[4:]))
		w.mu.Lock()
		f := w.asked[corr]
		delete(w.asked, corr)
		w.mu.Unlock()
		if f == nil {
			continue
		}
		w.link.world.heard.note(f, w, true)
		if hungUp {
			continue
		}
		if w.link.holds(f.rule) && f.rule.after {
			w.apply(f.rule)
		}
		switch f.key {
		case kmsg.OffsetFetch:
			b = unstableAnswers(f, b)
		case kmsg.DescribeTransactions:
			b = w.link.world.byClockOf(w.address, f, b)
		case kmsg.OffsetForLeaderEpoch:
			b = w.link.world.epochsOfEmptied(f, b)
		case kmsg.Produce:
			b = w.charge(f, b)
		}
		if f.key == kmsg.InitProducerID {
			b = w.link.world.busy.answer(f, b)
		}
		if !w.pass() {
			return
		}
		if _, err := w.client.Write(b); err != nil {
			hungUp = true // what it wrote before is carried out all the same
		}
	}
}
