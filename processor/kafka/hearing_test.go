package kafka

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// speaker is a broker that answers, or not.
type speaker struct {
	mute atomic.Bool

	mu   sync.Mutex
	ends []net.Conn // those of the broker
}

func (b *speaker) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	b.mu.Lock()
	b.ends = append(b.ends, far)
	b.mu.Unlock()
	go func() {
		buf := make([]byte, 256)
		for {
			if _, err := far.Read(buf); err != nil {
				return
			}
			if !b.mute.Load() {
				far.Write([]byte{0, 0, 0, 1, 7})
			}
		}
	}()
	return near, nil
}

// hangUp closes all connections of the broker.
func (b *speaker) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.ends {
		c.Close()
	}
}

// exchange sends something and waits for an answer, for so long.
func exchange(c net.Conn, wait time.Duration) error {
	c.SetDeadline(time.Now().Add(wait))
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 5))
	return err
}

// A broker that does not answer is not asked again, by anyone, until it speaks. One that answers others
// meanwhile is only slow.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &speaker{}
		s, opts, err := ListenTo([]kgo.Opt{kgo.SeedBrokers("b:9092"), kgo.Dialer(b.dial)}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			t.Fatal(err)
		}
		cl.Close()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		dial := func() net.Conn {
			t.Helper()
			c, err := s.dial(ctx, "tcp", "b:9092")
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		one, other := dial(), dial()
		slow := make(chan error)
		go func() { // a request that takes long, while the other connection is answered
			one.SetDeadline(time.Now().Add(3 * time.Second))
			_, err := one.Read(make([]byte, 1))
			slow <- err
		}()
		time.Sleep(2 * time.Second)
		if err := exchange(other, time.Second); err != nil {
			t.Fatal(err)
		}
		if err := <-slow; err == nil {
			t.Fatal("it was answered")
		}
		one.Close()
		one = dial()

		b.mute.Store(true)
		if err := exchange(one, 3*time.Second); err == nil {
			t.Fatal("it was answered")
		}
		if err := exchange(other, time.Second); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the other connection: %v", err)
		}
		_, err = s.dial(ctx, "tcp", "b:9092")
		if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" || !errors.Is(err, errSilent) || !notSent(err) {
			t.Errorf("a connection to a silent broker: %v", err)
		}
		if c, err := s.dial(ctx, "tcp", "c:9092"); err != nil {
			t.Errorf("a connection to another broker: %v", err)
		} else {
			c.Close()
		}

		time.Sleep(time.Minute) // in which it is asked, and does not answer
		if _, err := s.dial(ctx, "tcp", "b:9092"); !errors.Is(err, errSilent) {
			t.Errorf("a connection to a broker that goes on to be silent: %v", err)
		}
		b.mute.Store(false)
		time.Sleep(11 * time.Second) // it is asked once more in this time
		again := dial()
		if err := exchange(again, time.Second); err != nil {
			t.Error(err)
		}
		b.hangUp()
		for _, c := range []net.Conn{one, other, again} {
			c.Close()
		}
		stop()
		<-done
	})
}

// A read that ends before a broker has been silent for long says nothing of it: its request is not wanted any more. Nor does a
// connection that is refused.
func TestReadEndedEarlyIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &speaker{}
		refuses := errors.New("refused")
		s := &Hearing{log: slog.New(slog.DiscardHandler), wake: make(chan struct{}, 1), heard: map[string]time.Time{}, mute: map[string]bool{}, open: map[string]map[*listening]bool{}}
		s.inner = b.dial
		idle, err := s.dial(t.Context(), "tcp", "b:9092")
		if err != nil {
			t.Fatal(err)
		}
		other, err := s.dial(t.Context(), "tcp", "b:9092")
		if err != nil {
			t.Fatal(err)
		}
		for _, wait := range []time.Duration{0, time.Second, BrokerPatience / 2} {
			idle.SetReadDeadline(time.Now().Add(wait))
			if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("after %v: %v", wait, err)
			}
			if err := exchange(other, time.Second); err != nil {
				t.Errorf("the other connection, after a read of %v: %v", wait, err)
			}
			time.Sleep(time.Minute) // nothing is heard of it since
		}
		s.inner = func(context.Context, string, string) (net.Conn, error) { return nil, refuses }
		if _, err := s.dial(t.Context(), "tcp", "b:9092"); !errors.Is(err, refuses) {
			t.Errorf("a connection that is refused: %v", err)
		}
		if err := exchange(other, time.Second); err != nil {
			t.Errorf("the other connection, after one that was refused: %v", err)
		}
		idle.SetReadDeadline(time.Now().Add(BrokerPatience))
		if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if _, err := s.dial(t.Context(), "tcp", "b:9092"); !errors.Is(err, errSilent) {
			t.Errorf("a connection to a broker that has been silent for %v: %v", BrokerPatience, err)
		}
		b.hangUp()
		for _, c := range []net.Conn{idle, other} {
			c.Close()
		}
	})
}

// To be refused a connection to a silent broker takes a while, so that a client which tries again at once does not keep a core busy.
func TestRefusalTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Hearing{mute: map[string]bool{"a": true}}
		began, tries := time.Now(), 0
		for ; time.Since(began) < time.Second && tries < 1000; tries++ {
			if _, err := s.dial(t.Context(), "tcp", "a"); !errors.Is(err, errSilent) {
				t.Fatalf("dial: %v", err)
			}
		}
		if tries > 100 {
			t.Errorf("%d tries in %v", tries, time.Since(began))
		}
	})
}

// A silent broker is asked a few times a second whether it speaks again, however soon it refuses.
func TestSilentBrokerIsAskedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		asked := 0
		s := &Hearing{log: slog.New(slog.DiscardHandler), wake: make(chan struct{}, 1), heard: map[string]time.Time{}, mute: map[string]bool{}, open: map[string]map[*listening]bool{}}
		s.inner = func(context.Context, string, string) (net.Conn, error) {
			if asked++; asked > 1000 {
				<-ctx.Done() // else the bubble's clock would stand still
			}
			return nil, errors.New("refused")
		}
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		s.timedOut("b:9092", time.Now())
		time.Sleep(10 * time.Second)
		stop()
		<-done
		if asked < 10 || asked > 50 {
			t.Errorf("it was asked %d times in 10 s", asked)
		}
	})
}

// A broker that was silent for a moment is asked four times a second, and one that is gone for good twice a minute.
func TestListenRest(t *testing.T) {
	for silent, want := range map[time.Duration]time.Duration{
		0: 250 * time.Millisecond, 50 * time.Second: 250 * time.Millisecond, 10 * time.Minute: 3 * time.Second, 100 * time.Hour: 30 * time.Second,
	} {
		if got := listenRest(silent); got != want {
			t.Errorf("after %v it is asked again in %v, want %v", silent, got, want)
		}
	}
}

// ownEnd is a connection that is made from some address.
type ownEnd struct {
	net.Conn
	from net.Addr
}

func (c ownEnd) LocalAddr() net.Addr { return c.from }

// Where brokers are reached from is said as long as they are, and is an address that other machines can reach if there is one.
func TestLocal(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 40000} }
	b := &speaker{}
	var from net.Addr
	s, _, err := ListenTo([]kgo.Opt{kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := b.dial(ctx, network, address)
		return ownEnd{c, from}, err
	})}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var open []net.Conn
	for _, c := range []struct {
		from net.Addr
		want string
	}{
		{&net.UnixAddr{Name: "proxy", Net: "unix"}, ""},
		{tcp("::1"), "::1"},
		{tcp("127.0.0.1"), "::1"},
		{tcp("10.0.0.2"), "10.0.0.2"},
		{tcp("127.0.0.1"), "10.0.0.2"},
		{tcp("10.0.0.1"), "10.0.0.1"},
		{tcp("10.0.0.9"), "10.0.0.1"},
		{tcp("fd00::1"), "10.0.0.1"},
	} {
		from = c.from
		conn, err := s.dial(t.Context(), "tcp", c.from.String())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
		if got := s.Local(); got != c.want {
			t.Errorf("after one from %v: %q, want %q", c.from, got, c.want)
		}
	}
	for _, c := range open {
		c.Close()
	}
	b.hangUp()
	if got := s.Local(); got != "" {
		t.Errorf("with no connection: %q", got)
	}
}
