package bench

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/bench/check"
)

// small is every case in about a second, on an embedded broker.
func small(t *testing.T, cases ...string) Options {
	t.Helper()
	o, _ := smallOn(t, cases...)
	return o
}

func smallOn(t *testing.T, cases ...string) (Options, *kfake.Cluster) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "1000"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return Options{
		Client: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, Cases: cases,
		Records: 3000, Rate: 1000, For: 400 * time.Millisecond, Burst: 1000, Rounds: 1, wave: 300 * time.Millisecond, pairs: 1, Partitions: 2, Lanes: 2,
		Dir: t.TempDir(), Progress: testWriter{t}, settle: 700 * time.Millisecond,
	}, c
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

// left is what a run has left on the cluster and on disk.
func left(t *testing.T, o Options) []string {
	t.Helper()
	cl, err := kgo.NewClient(o.Client...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	topics, err := adm.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := adm.ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Concat(topics.Names(), groups.Groups())
	files, err := os.ReadDir(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// Every case measures something that can be, has every record checked, and leaves nothing.
func TestCases(t *testing.T) {
	for name, want := range map[string]struct {
		results []string
		records string // so many were checked
		figures []string
	}{
		"throughput":   {[]string{"throughput", "cpu"}, "3,000 records", []string{"records_per_s", "ratio", "accepted_per_s", "copy_5000_per_s", "copy_50000_per_s"}},
		"store":        {[]string{"store"}, "3,000 records", []string{"records_per_s", "ratio", "accepted_per_s", "delivered_per_s", "accepted_ratio", "delivered_ratio"}},
		"writes":       {[]string{"writes"}, "500 records", []string{"records_per_record", "markers_per_record", "transactions"}},
		"lateness":     {[]string{"lateness", "lateness, live"}, "500 records", []string{"p50_ms", "p99_ms", "p999_ms", "max_ms", "records"}},
		"lateness-alo": {[]string{"lateness-alo", "lateness-alo, live"}, "500 records", []string{"p50_ms", "p99_ms", "p999_ms", "max_ms", "records"}},
		"instant":      {[]string{"instant"}, " records", []string{"last_seen_s", "pause_ms"}},
		"floor": {[]string{"floor, 1 × 4", "floor, 3 × 8"}, "250 records", []string{"p50_ms", "p99_ms", "floor_p50_ms", "floor_p99_ms", "p50_ms_ratio", "p99_ms_ratio",
			"transactions_per_s", "floor_transactions_per_s", "cpu_ratio"}},
		"window": {[]string{"window"}, " records", []string{"near_p99_ms", "loads_p99_ms", "spills_p99_ms"}},
		"carry":  {[]string{"carry"}, "125 records", []string{"p50_ms", "p99_ms", "without_p50_ms", "without_p99_ms", "copies_per_s"}},
		"idle":   {[]string{"idle"}, "5 records", []string{"cpu_percent", "floor_cpu_percent", "requests_per_record"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := small(t, name)
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			judgeResults(t, results, want.results, want.figures, want.records+": each delivered once")
			if name == "writes" && !results[0].Met {
				t.Errorf("%s", results[0].Measured)
			}
			if names := left(t, o); len(names) > 0 {
				t.Errorf("left behind: %q", names)
			}
		})
	}
}

// judgeResults: they are those that are wanted, whole, with figures, and say what the checker says.
func judgeResults(t *testing.T, results []Result, cases, figures []string, checked ...string) {
	t.Helper()
	var got []string
	for _, r := range results {
		got = append(got, r.Case)
		for _, says := range checked {
			if !strings.Contains(r.Checked, says) {
				t.Errorf("%s: checked %q", r.Case, r.Checked)
			}
		}
		if r.Case == "cpu" {
			figures = []string{"cpu_us", "cpu_silent_us", "copy_cpu_us"}
		}
		for _, f := range figures {
			if !(r.Figures[f] > 0) {
				t.Errorf("%s: figure %s is %v", r.Case, f, r.Figures[f])
			}
		}
		if r.Goal == "" || r.Measured == "" || r.What == "" {
			t.Errorf("incomplete: %+v", r)
		}
	}
	if !slices.Equal(got, cases) {
		t.Errorf("results of %q, want %q", got, cases)
	}
}

// Ctrl-C in the middle of a case leaves nothing behind either.
func TestCleansUpWhenInterrupted(t *testing.T) {
	o := small(t, "lateness", "instant")
	o.For = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Progress = cancelOn{"lateness:", cancel}
	results, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) || err.Error() != "interrupted: context canceled" || len(results) > 0 {
		t.Errorf("results %v, error %v", results, err)
	}
	if names := left(t, o); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

// cancelOn is a Progress that interrupts as soon as something is said.
type cancelOn struct {
	prefix string
	cancel context.CancelFunc
}

func (c cancelOn) Write(b []byte) (int, error) {
	if strings.HasPrefix(string(b), c.prefix) {
		c.cancel()
	}
	return len(b), nil
}

// The error of one case does not keep the others from running, and says whose it is.
func TestCasesAreIndependent(t *testing.T) {
	o, cluster := smallOn(t, "throughput", "writes")
	cluster.ControlKey(int16(kmsg.CreateTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		create := req.(*kmsg.CreateTopicsRequest)
		if !strings.HasSuffix(create.Topics[0].Topic, "-throughput") {
			return nil, nil, false
		}
		resp := create.ResponseKind().(*kmsg.CreateTopicsResponse)
		refused := kmsg.NewCreateTopicsResponseTopic()
		refused.Topic, refused.ErrorCode = create.Topics[0].Topic, kerr.TopicAuthorizationFailed.Code
		resp.Topics = append(resp.Topics, refused)
		return resp, nil, true
	})
	results, err := Run(t.Context(), o)
	if !errors.Is(err, kerr.TopicAuthorizationFailed) || !strings.HasPrefix(err.Error(), "throughput: make topic ") {
		t.Errorf("error %v", err)
	}
	if len(results) != 1 || results[0].Case != "writes" {
		t.Errorf("results %+v", results)
	}
}

// testStage is a stage with one partition.
func testStage(t *testing.T, o Options) *stage {
	t.Helper()
	r, err := newRunner(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.adm.Close)
	s, err := r.newStage(t.Context(), "test", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What the checker finds is the case's error.
func TestCheckFindsFaults(t *testing.T) {
	o := small(t).withDefaults()
	s := testStage(t, o)
	st := stamp{due: time.Now().UnixMilli()}
	if err := s.fill(t.Context(), 1, func(int) stamp { return st }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.check(t.Context()); !errors.Is(err, check.ErrFaults) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a request that was not delivered: %v", err)
	}
}

// Held requests are seen all at once, or never.
func TestHold(t *testing.T) {
	o := small(t).withDefaults()
	s := testStage(t, o)
	visible := func() (n int) {
		records := fetchAll(t, o, s.delays[0])
		for _, r := range records {
			if st, ok := stampOf(r.Value); !ok || st.index != uint32(n) {
				t.Errorf("record %d has stamp %+v", n, st)
			}
			n++
		}
		return n
	}
	make := func(i int) stamp { return stamp{due: 1, index: uint32(i)} }
	_, forget, err := s.hold(t.Context(), 5, make)
	if err != nil {
		t.Fatal(err)
	}
	forget()
	reveal, forget, err := s.hold(t.Context(), 10, make)
	if err != nil {
		t.Fatal(err)
	}
	defer forget()
	if n := visible(); n != 0 {
		t.Errorf("%d records can be seen before they are revealed", n)
	}
	if err := reveal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := visible(); n != 10 {
		t.Errorf("%d records can be seen, want 10", n)
	}
}

// fetchAll is what a read_committed consumer can see of a topic with one partition.
func fetchAll(t *testing.T, o Options, topic string) (records []*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(append(o.Client, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	for next := int64(0); next < end.Offset; {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		})
	}
	return records
}

// What is counted as written is everything that any client wrote, and markers apart.
func TestAppended(t *testing.T) {
	o := small(t).withDefaults()
	cl, err := kgo.NewClient(append(o.Client, kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	r := testStage(t, o).r
	for _, topic := range []string{"t", "empty"} {
		if err := r.newTopic(t.Context(), topic, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord("a"), kgo.StringRecord("b")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	records, markers, err := appended(t.Context(), r.cluster, "t", "empty")
	if err != nil || records != 4 || markers != 2 {
		t.Errorf("%d records and %d markers, %v; want 4 and 2", records, markers, err)
	}
}
