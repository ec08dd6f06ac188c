//go:build linux

package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is written on a connection that its broker has closed, in the clear or under TLS, while nothing was sent on it is not sent. One that is open, or
// was in use just now, is written to.
func TestWhatIsClosedIsNotWrittenTo(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	server.Close()
	for _, kind := range []string{"plain", "tls"} {
		t.Run(kind, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			accepted := make(chan net.Conn, 1)
			go func() {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				if kind == "tls" {
					s := tls.Server(c, &tls.Config{Certificates: server.TLS.Certificates})
					s.Handshake()
					c = s
				}
				accepted <- c
			}()
			client := []kgo.Opt{kgo.Dialer((&net.Dialer{}).DialContext)}
			if kind == "tls" {
				client = []kgo.Opt{kgo.Dialer((&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext)}
			}
			s, _, err := ListenTo(client, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			conn, err := s.dial(t.Context(), "tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			c, far := conn.(*listening), <-accepted
			unused := func() { c.used = time.Now().Add(-2 * quiet) }
			unused()
			if _, err := c.Write([]byte{1}); err != nil {
				t.Fatalf("it is open: %v", err)
			}
			far.Close()
			for until := time.Now().Add(10 * time.Second); !hungUp(c.Conn); time.Sleep(time.Millisecond) {
				if time.Now().After(until) {
					t.Fatal("it is not seen that it was closed")
				}
			}
			c.used = time.Now()
			if _, err := c.Write([]byte{1}); errors.Is(err, errHungUp) {
				t.Error("it was in use, and looked at")
			}
			unused()
			if n, err := c.Write([]byte{1}); n != 0 || !errors.Is(err, errHungUp) || !errors.Is(err, net.ErrClosed) {
				t.Errorf("it is closed: %d written, %v", n, err)
			}
		})
	}
}

// A request that was not sent is sent on another connection; one that was is not.
func TestAskOnce(t *testing.T) {
	dials := func(why error) (n int) {
		cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
			n++
			return refusing{err: why}, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if _, err := Ask(t.Context(), cl.SeedBrokers()[0], VersionsRequest()); err == nil {
			t.Error("answered")
		}
		return n
	}
	if once, twice := dials(net.ErrClosed), dials(errHungUp); once == 0 || twice != 2*once {
		t.Errorf("%d connections for a request that may have been sent, %d for one that was not", once, twice)
	}
}

// refusing is a connection on which nothing can be sent.
type refusing struct {
	net.Conn
	err error
}

func (r refusing) Write([]byte) (int, error)        { return 0, r.err }
func (r refusing) Close() error                     { return nil }
func (r refusing) SetDeadline(time.Time) error      { return nil }
func (r refusing) SetReadDeadline(time.Time) error  { return nil }
func (r refusing) SetWriteDeadline(time.Time) error { return nil }
