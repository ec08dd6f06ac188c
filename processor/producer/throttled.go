package producer

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
)

// throttled knows until when brokers read nothing more from the connections of a producer (KIP-219). A request that was written before
// its client was told so lies there until then. The client (kgo v1.22) gives it the time that a broker may take to answer, cuts
// the connection, and sends all of it once more, which the quota is charged for again. So such a connection is read for as much longer.
type throttled struct {
	mu    sync.Mutex
	until map[string]time.Time // by address
}

var _ kgo.HookBrokerThrottle = (*throttled)(nil)

// OnBrokerThrottle is called before anything else is read from the connection that the answer has come from.
func (t *throttled) OnBrokerThrottle(b kgo.BrokerMetadata, d time.Duration, after bool) {
	if !after {
		return // the broker has waited already
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until[net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))] = time.Now().Add(d)
}

// left is for how long a broker still reads nothing.
func (t *throttled) left(address string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(time.Until(t.until[address]), 0)
}

// dial stands between a producer and its connections.
func (t *throttled) dial(inner kafka.Dial) kafka.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := inner(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &patient{conn, t, address}, nil
	}
}

// patient is a connection that is read for longer while the broker reads nothing from it.
type patient struct {
	net.Conn
	throttled *throttled
	address   string
}

// SetReadDeadline implements net.Conn. A time that has come ends what is being read.
func (c *patient) SetReadDeadline(at time.Time) error {
	if at.After(time.Now()) {
		at = at.Add(c.throttled.left(c.address))
	}
	return c.Conn.SetReadDeadline(at)
}
