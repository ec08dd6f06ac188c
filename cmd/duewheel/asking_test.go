package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A coordinator whose broker is down is asked for until another one has taken its place; what does not pass is told at once.
func TestPatiently(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1})
	adm := newPatient(client(t, addr))
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

// Whatever a command asks a cluster it asks patiently: nothing has a client of its own for that.
func TestCommandsAskPatiently(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") && strings.Contains(string(text), "kadm.NewClient(") != (name == "asking.go") {
			t.Errorf("%s: newPatient makes clients that ask", name)
		}
	}
}

// One that has taken a request and is silent is not waited for until patience is over.
func TestPatientlyWithOneThatIsSilent(t *testing.T) {
	t.Parallel()
	_, addr := cluster(t, map[string]int32{"delays": 1})
	var asked atomic.Int64
	began := time.Now()
	n, err := patiently(t.Context(), newPatient(client(t, addr)), func(context.Context) (int64, error) {
		n := asked.Add(1)
		if n == 1 {
			select { // it heeds no context
			case <-t.Context().Done():
			case <-time.After(20 * time.Second):
			}
		}
		return n, nil
	})
	if took := time.Since(began); err != nil || n != 2 || took > 4*time.Second {
		t.Errorf("%v after %d, and %v", err, n, took)
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
	adm := newPatient(client(t, "", kgo.SeedBrokers(slices.Delete(seeds, int(first), int(first)+1)...), kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == down {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	})))
	if _, err := adm.Client.FetchOffsets(t.Context(), "g"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("the first coordinator is not down: %v", err)
	}
	if err := c.RemoveNode(first); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.FetchOffsets(t.Context(), "g"); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		t.Error(err)
	}
}

// A leader that has just been elected is asked again until it can say where its log ends.
func TestLeaderHasJustBeenElected(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1})
	fill(t, addr, "delays", 1, 3)
	c.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) { // once
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, t := range req.(*kmsg.ListOffsetsRequest).Topics {
			resp.Topics = append(resp.Topics, kmsg.ListOffsetsResponseTopic{Topic: t.Topic, Partitions: []kmsg.ListOffsetsResponseTopicPartition{{ErrorCode: kerr.OffsetNotAvailable.Code}}})
		}
		return resp, nil, true
	})
	ends, err := newPatient(client(t, addr)).ListEndOffsets(t.Context(), "delays")
	if end, is := ends.Lookup("delays", 0); err != nil || !is || end.Err != nil || end.Offset != 3 {
		t.Errorf("the log ends at %+v, %v", end, err)
	}
}
