package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A coordinator whose broker is down is asked for until another one has taken its place; what does not pass is told at once.
func TestPatiently(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1})
	adm := kadm.NewClient(client(t, addr))
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		answers []error
		want    error
	}{
		{[]error{fmt.Errorf("ask: %w", refused), kerr.NotCoordinator, nil}, nil},
		{[]error{refused, kerr.GroupIDNotFound, nil}, kerr.GroupIDNotFound},
		{[]error{kerr.GroupAuthorizationFailed, nil}, kerr.GroupAuthorizationFailed},
	} {
		asked := 0
		_, err := patiently(t.Context(), adm, func(context.Context) (any, error) {
			asked++
			return nil, c.answers[asked-1]
		})
		if !errors.Is(err, c.want) || err == nil && asked != len(c.answers) {
			t.Errorf("of %v: %v after %d", c.answers, err, asked)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := patiently(ended, adm, func(context.Context) (any, error) { return nil, refused }); !errors.Is(err, refused) && !errors.Is(err, context.Canceled) {
		t.Errorf("%v when nobody waits for it any more", err)
	}
}

// One that has taken a request and is silent is not waited for until patience is over.
func TestPatientlyWithOneThatIsSilent(t *testing.T) {
	t.Parallel()
	_, addr := cluster(t, map[string]int32{"delays": 1})
	var asked atomic.Int64
	n, err := patiently(t.Context(), kadm.NewClient(client(t, addr)), func(context.Context) (int64, error) {
		n := asked.Add(1)
		if n == 1 {
			select { // it heeds no context
			case <-t.Context().Done():
			case <-time.After(20 * time.Second):
			}
		}
		return n, nil
	})
	if err != nil || n != 2 {
		t.Errorf("%v after %d", err, n)
	}
}

// A client that has found a coordinator once does not go on with it when its broker is gone, and another one has taken its place.
func TestCoordinatorIsAnotherOne(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, "delays"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	first := c.CoordinatorFor("g")
	seeds := c.ListenAddrs()
	down := seeds[first]
	adm := kadm.NewClient(client(t, "", kgo.SeedBrokers(slices.Delete(seeds, int(first), int(first)+1)...), kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == down {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	})))
	if _, err := adm.FetchOffsets(t.Context(), "g"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("the first coordinator is not down: %v", err)
	}
	if err := c.RemoveNode(first); err != nil {
		t.Fatal(err)
	}
	if _, err := fetchOffsets(t.Context(), adm, "g"); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		t.Error(err)
	}
}
