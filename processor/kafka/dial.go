package kafka

import (
	"context"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Dial makes a connection to a broker.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Between returns client options with what stands between the clients and the connections that the options ask for. An error is about the
// options that were given.
func Between(client []kgo.Opt, stand func(inner Dial) Dial) ([]kgo.Opt, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.DialTimeout(BrokerPatience)}, client...)...)
	if err != nil {
		return nil, fmt.Errorf("client options: %w", err)
	}
	defer cl.Close()
	inner := cl.OptValue(kgo.Dialer).(func(context.Context, string, string) (net.Conn, error))
	return append(client[:len(client):len(client)], kgo.DialTLSConfig(nil), kgo.Dialer(stand(inner))), nil
}
