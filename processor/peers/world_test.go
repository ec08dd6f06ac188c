package peers

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// world is replicas that reach each other without a network, in a bubble of synctest.
type world struct {
	t  *testing.T
	mu sync.Mutex

	at       map[string]*place // by address
	wires    []*wire           // all that were
	group    map[string]string // what the group says: addresses by replica
	takenOut []string
	fails    error         // of taking out
	refuses  bool          // connections, wherever they go
	cut      chan struct{} // closed when the one that watches reaches the group again; nil: it does
}

// place is a replica where it listens.
type place struct {
	*Presence
	conns  chan net.Conn
	ended  chan struct{} // closed when it listens no more
	server *http.Server
	frozen chan struct{} // closed when it is not any more; nil: it is not
}

func newWorld(t *testing.T) *world {
	return &world{t: t, at: map[string]*place{}, group: map[string]string{}}
}

// begin has a replica listen at an address, and be in the group.
func (w *world) begin(replica, address string) *place {
	own := NewPresence()
	own.Begin(replica)
	p := w.serve(replica, address, own)
	p.Presence = own
	return p
}

// serve has a replica be in the group, and something answer at its address.
func (w *world) serve(replica, address string, what http.Handler) *place {
	p := &place{conns: make(chan net.Conn), ended: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, what)
	p.server = &http.Server{Handler: mux}
	go p.server.Serve(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[address], w.group[replica] = p, address
	w.t.Cleanup(p.kill)
	return p
}

// kill ends the replica at once.
func (p *place) kill() { p.server.Close() }

// Accept implements net.Listener.
func (p *place) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It is called once, by the server.
func (p *place) Close() error {
	close(p.ended)
	return nil
}

// Addr implements net.Listener.
func (p *place) Addr() net.Addr { return &net.TCPAddr{} }

// freeze keeps what a replica says from getting through, and new connections to it from being answered.
func (w *world) freeze(p *place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.frozen = make(chan struct{})
}

func (w *world) thaw(p *place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(p.frozen)
	p.frozen = nil
}

func (w *world) frozen(p *place) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.frozen
}

// cutOff keeps the one that watches from the group, until it is called off.
func (w *world) cutOff() (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = make(chan struct{})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		close(w.cut)
		w.cut = nil
	}
}

// reach waits until the group is reached, or ctx ends, or a request has had no answer for long.
func (w *world) reach(ctx context.Context, longest time.Duration) error {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut == nil {
		return nil
	}
	select {
	case <-cut:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(longest):
		return errors.New("no answer")
	}
}

func (w *world) dial(ctx context.Context, _, address string) (net.Conn, error) {
	w.mu.Lock()
	p := w.at[address]
	if w.refuses {
		p = nil
	}
	w.mu.Unlock()
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if p == nil {
		return nil, refused
	}
	own, its := net.Pipe()
	select {
	case p.conns <- its:
	case <-p.ended:
		return nil, refused
	}
	conn := &wire{Conn: own, w: w, to: p, closed: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wires = append(w.wires, conn)
	return conn, nil
}

// wire is a connection to a replica, which says nothing while that is frozen.
type wire struct {
	net.Conn
	w      *world
	to     *place
	once   sync.Once
	closed chan struct{}
}

// Read implements net.Conn.
func (c *wire) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if frozen := c.w.frozen(c.to); frozen != nil {
		select {
		case <-frozen:
		case <-c.closed:
			return 0, net.ErrClosed
		}
	}
	return n, err
}

// refuse has connections be refused, or not any more.
func (w *world) refuse(is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuses = is
}

// hangUp ends all connections, as what is between replicas may.
func (w *world) hangUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.wires {
		_ = c.Conn.Close()
	}
	w.wires = nil
}

// Close implements net.Conn.
func (c *wire) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// watch has a replica watch the others, until stop is called.
func (w *world) watch(self string, atLeastOnce bool) (watch *Watch, stop func()) {
	watch = NewWatch(&Env{
		Self: self, AtLeastOnce: atLeastOnce, Dial: w.dial, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
		Addresses: func(ctx context.Context) (map[string]string, error) {
			if err := w.reach(ctx, 3*time.Second); err != nil {
				return nil, err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			m := map[string]string{}
			for replica, address := range w.group {
				m[replica] = address
			}
			return m, nil
		},
		TakeOut: func(ctx context.Context, replica string) (int, error) {
			if err := w.reach(ctx, time.Minute); err != nil {
				return 0, err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.takenOut = append(w.takenOut, replica)
			if w.fails != nil {
				return 0, w.fails
			}
			return 1, nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		watch.Run(ctx)
	}()
	return watch, func() {
		cancel()
		<-done
	}
}

// out is which replicas were taken out, in order.
func (w *world) out() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.takenOut)
}

func (w *world) isOut(want ...string) {
	w.t.Helper()
	if got := w.out(); !slices.Equal(got, want) {
		w.t.Errorf("taken out are %v, want %v", got, want)
	}
}

// takes is how long it takes until so many were taken out.
func (w *world) takes(n int, longest time.Duration) time.Duration {
	w.t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if took := time.Since(began); len(w.out()) >= n || took > longest {
			if took > longest {
				w.t.Errorf("after %v, taken out are %v", took, w.out())
			}
			return took
		}
	}
}

// alone runs f in a bubble, with a replica a that watches, and b.
func alone(t *testing.T, atLeastOnce bool, f func(w *world, watch *Watch, b *place)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.begin("a", "a:1")
		b := w.begin("b", "b:1")
		watch, stop := w.watch("a", atLeastOnce)
		defer stop()
		time.Sleep(10 * time.Second)
		if watch.Heard() != 1 {
			t.Fatalf("heard are %d", watch.Heard())
		}
		f(w, watch, b)
	})
}

var errForbidden = errors.Join(io.EOF, errors.New("forbidden"))
