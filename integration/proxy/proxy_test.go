package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// limit bounds every wait for what must happen.
const limit = 10 * time.Second

func TestOpenAndReset(t *testing.T) {
	broker := startEcho(t)
	p, dial := start(t, broker.addr)
	one := dial()
	one.ask("hello")
	one.answers("hello")
	p.Reset()
	if _, err := one.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection that was reset reads %v", err)
	}
	two := dial()
	two.ask("again")
	two.answers("again")
}

// What was asked in a hole does not arrive until it is gone, and is answered then. Deaf holds back the answer alone.
func TestHeld(t *testing.T) {
	for _, mode := range []Mode{Hole, Deaf} {
		t.Run(mode.String(), func(t *testing.T) {
			broker := startEcho(t)
			p, dial := start(t, broker.addr)
			c := dial()
			c.ask("before")
			c.answers("before")
			<-broker.asked
			p.Set(mode)
			c.ask("meanwhile")
			if mode == Deaf {
				broker.awaits(t, "meanwhile")
			}
			c.silent()
			if mode == Hole {
				select {
				case line := <-broker.asked:
					t.Errorf("%q went through a hole", line)
				default:
				}
			}
			p.Set(Open)
			c.answers("meanwhile")
		})
	}
}

// Answers that take longer come one behind the other, and wait for none before them.
func TestLag(t *testing.T) {
	broker := startEcho(t)
	p, dial := start(t, broker.addr)
	c := dial()
	const lag = time.Second
	p.Lag(lag)
	began := time.Now()
	c.ask("one")
	c.ask("two")
	c.answers("one")
	c.answers("two")
	if took := time.Since(began); took < lag || took >= 2*lag { // one after the other they take twice as long at least
		t.Errorf("two answers took %v, want %v", took, lag)
	}
	p.Lag(0)
	c.ask("three")
	c.answers("three")
}

// The way to one broker may be cut alone.
func TestOneOfTwo(t *testing.T) {
	one, two := startEcho(t), startEcho(t)
	p, err := New(one.addr, two.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	p.Set(Refuse, one.addr)
	if _, err := Dialer(p.Via())(t.Context(), "tcp", one.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the broker that is cut off: %v", err)
	}
	conn, err := Dialer(p.Via())(t.Context(), "tcp", two.addr)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// A request arrives through a hole that is gone although its client has given up.
func TestLateRequest(t *testing.T) {
	broker := startEcho(t)
	p, dial := start(t, broker.addr)
	c := dial()
	p.Set(Hole)
	c.ask("late")
	c.Close()
	p.Set(Open)
	broker.awaits(t, "late")
}

// Where nothing comes back a connection is not answered, and it ends with the patience of its client.
func TestDialInHole(t *testing.T) {
	for _, mode := range []Mode{Hole, Deaf} {
		p, _ := start(t, startEcho(t).addr)
		p.Set(mode)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		for addr := range p.Via() {
			_, err := Dialer(p.Via())(ctx, "tcp", addr)
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("%v: dial says %v", mode, err)
			}
		}
	}
}

// A connection is refused by the proxy as by a broker that is down.
func TestRefused(t *testing.T) {
	broker := startEcho(t)
	p, dial := start(t, broker.addr)
	c := dial()
	p.Set(Refuse)
	refusal(t, p)
	c.ask("still")
	c.answers("still")
	p.Set(Open)
	broker.Close()
	refusal(t, p)
}

func TestNoWay(t *testing.T) {
	if _, err := Dialer(nil)(t.Context(), "tcp", "127.0.0.1:1"); err == nil {
		t.Error("a broker without a proxy was reached")
	}
}

func refusal(t *testing.T, p *Proxy) {
	t.Helper()
	for addr := range p.Via() {
		_, err := Dialer(p.Via())(t.Context(), "tcp", addr)
		var dialing *net.OpError
		if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &dialing) || dialing.Op != "dial" {
			t.Errorf("dial says %v", err)
		}
	}
}

func start(t *testing.T, addr string) (*Proxy, func() *client) {
	t.Helper()
	p, err := New(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, func() *client {
		t.Helper()
		conn, err := Dialer(p.Via())(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return &client{conn, bufio.NewReader(conn), t}
	}
}

type client struct {
	net.Conn
	*bufio.Reader
	t *testing.T
}

func (c *client) Read(b []byte) (int, error) { return c.Reader.Read(b) }

func (c *client) ask(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) answers(want string) {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(limit))
	if line, err := c.ReadString('\n'); line != want+"\n" {
		c.t.Fatalf("got %q, %v, want %q", line, err, want)
	}
}

// silent sees that no answer comes for a moment.
func (c *client) silent() {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if b, err := c.ReadByte(); err == nil {
		c.t.Errorf("got %q", b)
	}
}

// echo answers every line with itself.
type echo struct {
	net.Listener
	addr  string
	asked chan string
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{Listener: l, addr: l.Addr().String(), asked: make(chan string, 100)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		e.asked <- lines.Text()
		io.WriteString(conn, lines.Text()+"\n")
	}
}

func (e *echo) awaits(t *testing.T, want string) {
	t.Helper()
	select {
	case line := <-e.asked:
		if line != want {
			t.Errorf("%q arrived, want %q", line, want)
		}
	case <-time.After(limit):
		t.Errorf("%q did not arrive", want)
	}
}
