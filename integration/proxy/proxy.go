package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Mode is what a proxy does with what comes.
type Mode int

// The modes.
const (
	Open   Mode = iota // everything goes through
	Hole               // nothing does, and new connections are not answered
	Deaf               // requests go through and answers do not, so new connections are not answered either
	Refuse             // new connections are refused; those that are there go on
)

func (m Mode) String() string { return [...]string{"open", "hole", "deaf", "refuse"}[m] }

// holds tells whether bytes of a direction wait.
func (m Mode) holds(answers bool) bool { return m == Hole || m == Deaf && answers }

// Proxy is the way of one client to its brokers.
type Proxy struct {
	listeners []net.Listener
	via       map[string]string
	wg        sync.WaitGroup
	lag       atomic.Int64 // of answers, in ns

	mu      sync.Mutex      // guards what follows
	modes   map[string]Mode // by the broker's address
	changed chan struct{}   // closed and replaced when a mode changes
	links   map[*link]bool
	closed  bool
}

// link is one connection of the client, and the one to the broker that belongs to it.
type link struct {
	addr   string // of the broker
	client net.Conn
	broker net.Conn      // nil until the broker took it
	gone   chan struct{} // closed when both connections are
}

// New listens once for each address of a broker.
func New(addrs ...string) (*Proxy, error) {
	p := &Proxy{via: make(map[string]string), modes: make(map[string]Mode), changed: make(chan struct{}), links: make(map[*link]bool)}
	for _, addr := range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("proxy: %w", err)
		}
		p.listeners = append(p.listeners, l)
		p.via[addr] = l.Addr().String()
		p.wg.Go(func() { p.accept(l, addr) })
	}
	return p, nil
}

// Via maps the address of each broker to the one where the proxy listens for it.
func (p *Proxy) Via() map[string]string { return p.via }

// Set changes the mode of the ways to these brokers, or to all for none. Bytes that were read already may still go through.
func (p *Proxy) Set(m Mode, addrs ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for addr := range p.via {
		if len(addrs) == 0 || slices.Contains(addrs, addr) {
			p.modes[addr] = m
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Reset ends every connection at once, to both sides, whatever was on its way.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		p.end(l, true)
	}
}

// Close ends everything.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for _, l := range p.listeners {
		l.Close()
	}
	for l := range p.links {
		p.end(l, true)
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) accept(listener net.Listener, addr string) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		l := &link{addr: addr, client: conn, gone: make(chan struct{})}
		if !p.add(l) {
			conn.Close()
			return
		}
		p.wg.Go(func() { p.serve(l) })
	}
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.links[l] = true
	}
	return !p.closed
}

// dialLimit bounds how long a broker may take to accept. It is on the same machine.
const dialLimit = 5 * time.Second

// serve finds the broker for a connection and forwards until either side ends.
func (p *Proxy) serve(l *link) {
	defer p.drop(l)
	if !p.pass(l, true) {
		return
	}
	if p.refuses(l.addr) {
		l.client.Write([]byte{refused})
		return
	}
	broker, err := net.DialTimeout("tcp", l.addr, dialLimit)
	if err != nil {
		l.client.Write([]byte{refused})
		return
	}
	if !p.join(l, broker) {
		broker.Close()
		return
	}
	if _, err := l.client.Write([]byte{accepted}); err != nil {
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		p.pump(l, l.client, broker, true)
		p.drop(l)
	})
	p.pump(l, broker, l.client, false)
	p.drop(l)
	answers.Wait()
}

func (p *Proxy) refuses(addr string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.modes[addr] == Refuse
}

func (p *Proxy) join(l *link, broker net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.links[l] {
		return false
	}
	l.broker = broker
	return true
}

// Lag has answers arrive so much later than they come, one behind the other: a broker that has much to do, or is far away.
func (p *Proxy) Lag(d time.Duration) { p.lag.Store(int64(d)) }

// late are bytes that are on their way.
type late struct {
	at    time.Time
	bytes []byte
}

// mostLate is how much may be on its way on one connection, in reads.
const mostLate = 1024

// pump forwards one direction until its source ends or the link is gone. An end waits like bytes do.
func (p *Proxy) pump(l *link, to, from net.Conn, answers bool) {
	coming := make(chan late, mostLate)
	var arriving sync.WaitGroup
	arriving.Go(func() { p.arrive(l, to, coming, answers) })
	defer arriving.Wait()
	defer close(coming)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		next := late{bytes: bytes.Clone(buffer[:n])}
		if answers {
			next.at = time.Now().Add(time.Duration(p.lag.Load()))
		}
		select {
		case coming <- next:
		case <-l.gone:
			return
		}
		if err != nil {
			return
		}
	}
}

// arrive writes what is on its way when its time has come. It drops the link when that cannot be written.
func (p *Proxy) arrive(l *link, to net.Conn, coming <-chan late, answers bool) {
	for next := range coming {
		select {
		case <-time.After(time.Until(next.at)):
		case <-l.gone:
			return
		}
		if !p.pass(l, answers) {
			return
		}
		if _, err := to.Write(next.bytes); err != nil {
			p.drop(l)
			return
		}
	}
}

// pass waits until this direction is open, and tells whether the link is still there.
func (p *Proxy) pass(l *link, answers bool) bool {
	for {
		p.mu.Lock()
		there, holds, changed := p.links[l], p.modes[l.addr].holds(answers), p.changed
		p.mu.Unlock()
		if !there || !holds {
			return there
		}
		select {
		case <-changed:
		case <-l.gone:
			return false
		}
	}
}

func (p *Proxy) drop(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(l, false)
}

// end closes both connections of a link; reset lets the peers see that it was not in order. It is called with mu held.
func (p *Proxy) end(l *link, reset bool) {
	if !p.links[l] {
		return
	}
	delete(p.links, l)
	close(l.gone)
	for _, conn := range []net.Conn{l.client, l.broker} {
		if conn == nil {
			continue
		}
		if reset {
			conn.(*net.TCPConn).SetLinger(0) // closing then sends RST
		}
		conn.Close()
	}
}
