package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/wait"
)

// Hearing knows which brokers are silent: a connection is taken and nothing comes back, as from a
// machine that is paused, swaps, or has lost its network. A client finds that out for itself after
// BrokerPatience, and then asks the same broker again, because it has last heard that this one leads or
// coordinates. So all clients of the process share what one has found out: every connection to a silent
// broker is cut, and none is made. Clients take that for a broker that is down, and look for another one.
//
// It stands between the clients and their connections, which may use it at the same time. One goroutine, that of Run, notices when a
// broker speaks again.
type Hearing struct {
	inner Dial
	log   *slog.Logger
	wake  wait.Wake

	mu    sync.Mutex
	heard map[string]time.Time // by address: when it last sent anything
	mute  map[string]bool      // those that are silent; true: it is being listened to
	open  map[string]map[*listening]bool
}

// errSilent is why no connection is made.
var errSilent = errors.New("the broker is silent")

// ListenTo stands between the connections that the options ask for and the clients made with the options that
// it returns. An error is about the options that were given.
func ListenTo(client []kgo.Opt, log *slog.Logger) (*Hearing, []kgo.Opt, error) {
	s := &Hearing{log: log, wake: wait.NewWake(), heard: map[string]time.Time{}, mute: map[string]bool{}, open: map[string]map[*listening]bool{}}
	opts, err := Between(client, func(inner Dial) Dial {
		s.inner = inner
		return s.dial
	})
	return s, opts, err
}

// refusalTime is how long it takes to be refused a connection, at least. A producer that has to begin a new epoch, and has records that may have been
// written, asks for its coordinator again as soon as it was refused, without a pause, and so does a member of the consumer protocol that was just given partitions: it
// would keep a core busy until the broker speaks, or brokers name another one.
const refusalTime = 10 * time.Millisecond

// dial is the clients' dialer.
func (s *Hearing) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	_, mute := s.mute[address]
	s.mu.Unlock()
	if mute {
		wait.For(ctx, refusalTime)
		return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("%s: %w", address, errSilent)}
	}
	began := time.Now()
	conn, err := s.inner(ctx, network, address)
	if err != nil {
		if time.Since(began) >= BrokerPatience {
			s.timedOut(address, began)
		}
		wait.For(ctx, refusalTime-time.Since(began))
		return nil, err
	}
	c := &listening{Conn: conn, s: s, address: address, used: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[address] == nil {
		s.open[address] = map[*listening]bool{}
	}
	s.open[address][c] = true
	return c, nil
}

// Local is the IP address from which brokers are reached now, and not a loopback one if there is another; empty: from none that is known.
func (s *Hearing) Local() (ip string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var best net.IP
	for _, conns := range s.open {
		for c := range conns {
			own, ok := c.LocalAddr().(*net.TCPAddr)
			if !ok || own.IP == nil {
				continue
			}
			if best == nil || best.IsLoopback() && !own.IP.IsLoopback() || best.IsLoopback() == own.IP.IsLoopback() && bytes.Compare(own.IP.To16(), best.To16()) < 0 {
				best = own.IP
			}
		}
	}
	if best == nil {
		return ""
	}
	return best.String()
}

// listening is a connection whose other end is listened to.
type listening struct {
	net.Conn
	s       *Hearing
	address string
	used    time.Time // when it was last written to; whoever writes has it for itself
}

// quiet is for how long nothing was sent on a connection that may have been closed because of that.
const quiet = 100 * time.Millisecond

// errHungUp is why nothing was sent. A client takes it for a connection that is gone, and makes another one.
var errHungUp = fmt.Errorf("the broker had closed the connection: %w", net.ErrClosed)

// Write implements net.Conn. Brokers, and what stands before them, close connections that are not used (connections.max.idle.ms), and a broker that
// stops closes all. What is sent on one that was closed is lost; the client learns only that it was not answered, as of what may have been carried out.
func (c *listening) Write(b []byte) (int, error) {
	now := time.Now()
	if now.Sub(c.used) > quiet && hungUp(c.Conn) {
		return 0, errHungUp
	}
	c.used = now
	return c.Conn.Write(b)
}

// Read implements net.Conn.
func (c *listening) Read(b []byte) (int, error) {
	began := time.Now()
	n, err := c.Conn.Read(b)
	var timeout net.Error
	switch {
	case n > 0:
		c.s.spoke(c.address)
	case errors.As(err, &timeout) && timeout.Timeout() && time.Since(began) > BrokerPatience*9/10:
		// The client ends a read the same way when a request is not wanted any more, which says nothing.
		c.s.timedOut(c.address, began)
	}
	return n, err
}

// Close implements net.Conn.
func (c *listening) Close() error {
	c.s.mu.Lock()
	delete(c.s.open[c.address], c)
	c.s.mu.Unlock()
	return c.Conn.Close()
}

func (s *Hearing) spoke(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard[address] = time.Now()
	delete(s.mute, address)
}

// timedOut notes that a broker has not answered since a time. One that has meanwhile sent something on
// another connection is only slow.
func (s *Hearing) timedOut(address string, since time.Time) {
	cut := s.silent(address, since)
	if cut != nil {
		s.log.Warn("a broker does not answer; it is left alone until it does", "address", address)
	}
	for _, c := range cut {
		c.Conn.Close() // what waits for an answer on it need not wait as long
	}
}

// silent makes a broker a silent one, unless it has been heard since a time, and returns the connections
// to it.
func (s *Hearing) silent(address string, since time.Time) (cut []*listening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, mute := s.mute[address]; mute || s.heard[address].After(since) {
		return nil
	}
	s.mute[address], cut = false, []*listening{}
	for c := range s.open[address] {
		cut = append(cut, c)
	}
	s.wake.Ask()
	return cut
}

// Run listens to silent brokers until ctx ends.
func (s *Hearing) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		for address, listened := range s.mute {
			if !listened {
				s.mute[address] = true
				wg.Go(func() { s.listen(ctx, address) })
			}
		}
		s.mu.Unlock()
	}
}

// listenRest is after what time a broker is asked again that has been silent for so long: one that comes back is noticed soon, and one that was taken away for
// good costs nothing.
func listenRest(silent time.Duration) time.Duration {
	return min(max(silent/200, 250*time.Millisecond), 30*time.Second)
}

// listen asks a broker until it answers.
func (s *Hearing) listen(ctx context.Context, address string) {
	for began := time.Now(); ; {
		if s.ask(ctx, address) == nil {
			s.log.Info("a broker speaks again", "address", address)
			s.spoke(address)
			return
		}
		if !wait.For(ctx, listenRest(time.Since(began))) {
			return
		}
	}
}

// ask sends the one request that every broker answers to every client, and waits for any answer.
func (s *Hearing) ask(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := s.inner(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(0)
	body := (&kmsg.RequestFormatter{}).AppendRequest(nil, req, 1)
	if _, err := conn.Write(body); err != nil {
		return err
	}
	size := make([]byte, 4)
	if _, err := io.ReadFull(conn, size); err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size)))
	return err
}
