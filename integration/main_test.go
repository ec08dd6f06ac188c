package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/brokers"
)

func TestMain(m *testing.M) {
	if os.Getenv(asReplica) != "" {
		os.Exit(runReplica())
	}
	code := m.Run()
	if err := common.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	removeBinary()
	os.Exit(code)
}

// common is the cluster of all tests that leave their brokers alone.
var common sharedCluster

type sharedCluster struct {
	once    sync.Once
	cluster *brokers.Cluster
	err     error
}

// shared returns the cluster that tests share. A test that kills, freezes or configures brokers starts a cluster of its own.
func shared(t *testing.T) *brokers.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	common.once.Do(func() {
		common.cluster, common.err = brokers.New(context.Background(), brokers.Options{Logf: t.Logf})
	})
	if common.err != nil {
		t.Fatal(common.err)
	}
	return common.cluster
}

func (s *sharedCluster) close() error {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}

// newSeed is what a test's choices follow from.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("DUEWHEEL_TEST_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("DUEWHEEL_TEST_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("DUEWHEEL_TEST_SEED=%d", seed)
	return seed
}

// patience bounds every wait of a test. It is many times what was seen on two idle cores.
const patience = 90 * time.Second

// eventually waits until a condition holds, which says what is still wanting.
func eventually(t *testing.T, wanting func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("waited for too long"))
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		what := wanting()
		if what == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Logf("what waits for what is in %s", stacks(t))
			t.Fatalf("%v: %s", context.Cause(ctx), what)
		}
	}
}

// stacks writes down what each goroutine is doing, and returns where.
func stacks(t *testing.T) string {
	t.Helper()
	f, err := os.CreateTemp("", "duewheel-integration-*.stacks")
	if err != nil {
		t.Error(err)
		return ""
	}
	if err := errors.Join(pprof.Lookup("goroutine").WriteTo(f, 1), f.Close()); err != nil {
		t.Error(err)
	}
	return f.Name()
}
