package producer

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A connection is read for as much longer as the broker reads nothing from it, and one that is not wanted any more is not read at all.
func TestPatientConnection(t *testing.T) {
	const asked = 100 * time.Millisecond
	broker := kgo.BrokerMetadata{Host: "127.0.0.1", Port: 9092}
	for _, c := range []struct {
		name    string
		address string
		after   bool // the client is to wait after the answer
		in      time.Duration
		least   time.Duration
	}{
		{"throttled", "127.0.0.1:9092", true, time.Millisecond, asked},
		{"not wanted any more", "127.0.0.1:9092", true, 0, 0},
		{"the broker has waited", "127.0.0.1:9092", false, time.Millisecond, 0},
		{"another broker", "127.0.0.1:9093", true, time.Millisecond, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			th := &throttled{until: map[string]time.Time{}}
			conn, err := th.dial(func(context.Context, string, string) (net.Conn, error) { return ours, nil })(t.Context(), "tcp", c.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			long := asked
			if c.least == 0 {
				long = time.Hour // which nothing here waits for
			}
			began := time.Now()
			th.OnBrokerThrottle(broker, long, c.after)
			conn.SetReadDeadline(time.Now().Add(c.in))
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) < max(c.least, c.in) {
				t.Errorf("read ended after %v with %v", time.Since(began), err)
			}
		})
	}
}
