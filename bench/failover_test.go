package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// asReplica holds the brokers of a test binary that is to be a replica.
const asReplica = "DUEWHEEL_TEST_BENCH_REPLICA"

func TestMain(m *testing.M) {
	addrs, ok := os.LookupEnv(asReplica)
	if !ok {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := ServeReplica(ctx, []kgo.Opt{kgo.SeedBrokers(strings.Split(addrs, ",")...)}, os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// smallFailover is a failover case in some seconds, on an embedded broker.
func smallFailover(t *testing.T, cases ...string) Options {
	t.Helper()
	o, c := smallOn(t, cases...)
	o.Partitions, o.Rate, o.Pending, o.For = 6, 300, 3000, time.Second
	o.session, o.soonest, o.latest = 2*time.Second, 500*time.Millisecond, 700*time.Millisecond
	o.Logger = slog.New(slog.NewTextHandler(testWriter{t}, nil))
	o.Replica = func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asReplica+"="+strings.Join(c.ListenAddrs(), ","))
		return cmd
	}
	return o
}

// Every failover case measures something that can be, has every record checked, and leaves neither topics nor processes.
func TestFailoverCases(t *testing.T) {
	for name, want := range map[string]struct {
		results []string
		figures []string
		pending string
	}{
		"standby-many": {[]string{"standby-many"}, []string{"live_s", "first_delivery_s", "open_partitions"}, "; 30,000 more still pending"},
		"standby":      {[]string{"standby"}, []string{"assigned_s", "live_s", "first_delivery_s", "partitions", "open_partitions"}, "; 3,000 more still pending"},
		"cold":         {[]string{"cold"}, []string{"assigned_s", "restored_s", "live_s", "first_delivery_s", "partitions", "open_partitions", "log_per_s"}, "; 3,000 more still pending"},
		"restart":      {[]string{"restart", "restart, killed", "rebuild"}, []string{"live_s"}, "; 3,000 more still pending"},
		"rebalance":    {[]string{"rebalance"}, []string{"stay_p99_ms", "move_p99_ms", "moved_partitions", "stay_records", "move_records"}, ""},
		"rolling":      {[]string{"rolling", "rolling, standby"}, []string{"max_ms", "quiet_max_ms", "rolling_s"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := smallFailover(t, name)
			results, err := Failover(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			judgeResults(t, results, want.results, want.figures, "records: each delivered once", want.pending)
			if names := left(t, o); len(names) > 0 {
				t.Errorf("left behind: %q", names)
			}
		})
	}
}

// A replica that ends by itself ends the case, and its last words are told.
func TestFailoverReplicaFails(t *testing.T) {
	o := smallFailover(t, "rebalance")
	o.Replica = func() *exec.Cmd { return exec.Command(os.Args[0], "-no-such-flag") }
	_, err := Failover(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "has ended by itself") {
		t.Errorf("error %v", err)
	}
	if names := left(t, o); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

func TestFailoverRefuses(t *testing.T) {
	o := smallFailover(t, "throughput")
	if _, err := Failover(t.Context(), o); err == nil || !strings.Contains(err.Error(), `no case "throughput"; there are standby, standby-many, cold`) {
		t.Errorf("a case of Run: %v", err)
	}
	o = smallFailover(t, "cold")
	o.Replica = nil
	if _, err := Failover(t.Context(), o); err == nil {
		t.Error("without a way to start replicas there is no error")
	}
}

// A replica whose parent is gone does not go on.
func TestReplicaEndsWithItsParent(t *testing.T) {
	o := smallFailover(t)
	r := &runner{o: o.withDefaults(), id: namePrefix + "t"}
	f := (&stage{r: r, name: "t", group: "t", delays: []string{"t"}, targets: []string{"out"}, dead: "dead"}).fleet(1, 0)
	p, err := f.start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.abandon()
	if err := p.Orphan(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Exited():
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	if exit, ok := errors.AsType[*exec.ExitError](p.Err()); !ok || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v", p.Err())
	}
	if err := f.broken(); err == nil {
		t.Error("the fleet has not noticed")
	}
}

// What is first seen of a partition is found whether it came before or after it was asked for.
func TestFirsts(t *testing.T) {
	o := &observer{from: map[int32]int64{}}
	due := time.Now().Add(-time.Second).UnixMilli()
	see := func(source int32, fired, at int64) {
		s := sighting{due: due, fired: fired, at: at, source: source}
		o.seen = append(o.seen, s)
		for _, w := range o.waiting {
			w.look(&s)
		}
	}
	see(1, 10, 1000)
	see(1, 20, 2000)
	w := o.firstFrom([]int32{1, 2}, time.UnixMilli(15))
	if n, first, last := o.found(w); n != 1 || first.UnixNano() != 2000 || last.UnixNano() != 2000 {
		t.Errorf("before it was asked for: %d, %v, %v", n, first, last)
	}
	see(3, 30, 3000)
	see(2, 14, 4000)
	see(1, 40, 5000)
	see(2, 15, 6000)
	see(2, 16, 7000)
	if n, first, last := o.found(w); n != 2 || first.UnixNano() != 2000 || last.UnixNano() != 6000 {
		t.Errorf("%d, %v, %v", n, first, last)
	}
}
