package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/duewheel/duewheel/admin"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

const (
	demoGroup      = "demo"
	demoRequests   = "delay-requests"
	demoDeadLetter = "delay-requests.dead"
	demoRate       = 300 // requests a second
	// demoGrace is how long what is due when the traffic stops may take until it is seen.
	demoGrace = 10 * time.Second
	// demoKeep is how long the embedded broker keeps what was delivered: it keeps it in memory.
	demoKeep = 5 * time.Minute
)

var demoTargets = []string{"orders", "billing.invoices", "billing.reminders"}

func newDemoCommand() *cobra.Command {
	var length time.Duration
	var rate int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show it: an embedded broker, a processor and traffic, in this one process",
		Long: `Start an embedded broker on 127.0.0.1:9092 (or the next free port), a processor on it,
and requests that are due within seconds, some far ahead, and one that must be dead-
lettered. It shows what waits and what was delivered, with its lateness, until Ctrl-C;
and a record that is cancelled by its id, and one that its consumer fails to process
twice and gets back from a retry topic.

The last line sums up. The exit code is 0 when everything due was delivered exactly
once and nothing early.`,
		Example: "  duewheel demo\n  duewheel demo --for 10s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"config", "bootstrap-server", "property", "command-config", "group", "log-level"} {
				if cmd.Flags().Changed(name) {
					return fmt.Errorf("--%s: the demo has a broker and settings of its own; `duewheel run` takes it", name)
				}
			}
			if length < 0 {
				return fmt.Errorf("--for %v is negative", length)
			}
			return runDemo(cmd.Context(), length, rate, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().DurationVar(&length, "for", 0, "end after this time by itself")
	cmd.Flags().IntVar(&rate, "rate", demoRate, "requests a second")
	return cmd
}

// demo is one run of it.
type demo struct {
	broker  string
	admin   string
	begun   chan struct{} // closed when the traffic begins
	started time.Time     // when it did; set before begun is closed
	watch   *watch
	stats   func() processor.Stats
	every   int // of the records that wait, one in every is shown
}

func runDemo(ctx context.Context, length time.Duration, rate int, stdout, stderr io.Writer) error {
	if rate < 1 || rate > 100_000 {
		return fmt.Errorf("--rate %d: 1 to 100000", rate)
	}
	cluster, err := startDemoBroker()
	if err != nil {
		return err
	}
	defer cluster.Close()
	d := &demo{broker: cluster.ListenAddrs()[0], begun: make(chan struct{}), watch: newWatch(), every: max(1, rate/6)}
	dir, err := os.MkdirTemp("", "duewheel-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, registry, err := d.newProcessor(filepath.Join(dir, "state"), stderr)
	if err != nil {
		return err
	}
	d.stats = p.Stats
	listener, err := admin.Listen("")
	if err != nil {
		return err
	}
	d.admin = listener.Addr().String()

	// What runs is stopped in this order: traffic, processor, consumer and screen.
	var g errgroup.Group
	processing, stopProcessor := context.WithCancel(context.WithoutCancel(ctx))
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	defer stopProcessor()
	var processorErr error
	processed := make(chan struct{})
	go func() {
		defer close(processed)
		processorErr = serveAndRun(processing, p, listener, registry, func(context.Context) {})
	}()
	g.Go(func() error { return d.consume(watching) })
	g.Go(func() error { return keepSmall(watching, cluster) })
	g.Go(func() error { return d.show(watching, stdout) })

	waitReady(ctx, p.Ready, processed)
	d.started = time.Now()
	close(d.begun)
	err = d.requestUntilEnd(ctx, length, rate, processed)
	cut := time.Now()
	if err == nil {
		d.watch.waitForDue(cut.UnixMilli(), demoGrace)
	}
	stopProcessor()
	<-processed
	d.readRest(cluster)
	stopWatching()
	if err := errors.Join(err, processorErr, g.Wait()); err != nil {
		return err
	}
	summary, ok := d.watch.summary(cut.UnixMilli())
	fmt.Fprintln(stdout, summary)
	if !ok {
		return errShown
	}
	return nil
}

// waitReady returns when the processor has its partitions, so that the first lateness that is shown
// is not that of a group that was just being formed.
func waitReady(ctx context.Context, ready func() (bool, []processor.PartitionStats), processed <-chan struct{}) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(demoGrace)
	for {
		if ok, _ := ready(); ok {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			return
		case <-processed:
			return
		case <-ctx.Done():
			return
		}
	}
}

func startDemoBroker() (*kfake.Cluster, error) {
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.ListenFn(func(_, _ string) (net.Listener, error) { return admin.ListenNear("127.0.0.1", 9092) }),
	)
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	keep := fmt.Sprint(demoKeep.Milliseconds())
	err = errors.Join(
		cluster.CreateTopic(demoRequests, 4, map[string]string{"cleanup.policy": "delete", "retention.ms": "-1"}),
		cluster.CreateTopic(demoDeadLetter, 1, map[string]string{"cleanup.policy": "delete", "max.message.bytes": fmt.Sprint(1048588 + 64<<10)}),
	)
	err = errors.Join(err, cluster.CreateTopic(demoRetry, 2, map[string]string{"cleanup.policy": "delete", "retention.ms": "-1"}),
		cluster.CreateTopic(demoRetry+".dead", 1, map[string]string{"cleanup.policy": "delete", "max.message.bytes": fmt.Sprint(1048588 + 64<<10)}))
	for _, t := range demoTargets {
		err = errors.Join(err, cluster.CreateTopic(t, 2, map[string]string{"cleanup.policy": "delete", "retention.ms": keep}))
	}
	if err != nil {
		cluster.Close()
		return nil, fmt.Errorf("create topics: %w", err)
	}
	return cluster, nil
}

// keepSmall lets the embedded broker forget what was delivered a while ago.
func keepSmall(ctx context.Context, cluster *kfake.Cluster) error {
	tick := time.NewTicker(demoKeep / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			cluster.ApplyRetention()
		}
	}
}

func (d *demo) newProcessor(dir string, stderr io.Writer) (*processor.Processor, *prometheus.Registry, error) {
	registry := newRegistry()
	p, err := processor.New(processor.Config{
		Client:   []kgo.Opt{kgo.SeedBrokers(d.broker), kgo.ClientID("duewheel-demo"), kgo.WithHooks(admin.NewClientMetrics(registry))},
		Group:    demoGroup,
		StateDir: dir,
		Routes: []topics.Route{
			routeSettings{Topic: demoRequests, Allow: []string{"orders", "billing.*"}}.route(),
			routeSettings{Topic: demoRetry, Allow: []string{"orders"}, Retry: retrySettings{Backoff: backoffSettings{Initial: time.Second}}}.route(),
		},
		Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err == nil {
		registry.MustRegister(admin.NewCollector(p.Stats, time.Now))
	}
	return p, registry, err
}

// requestUntilEnd makes traffic until the length is over, ctx ends (Ctrl-C: no error), or the
// processor does, which is one.
func (d *demo) requestUntilEnd(ctx context.Context, length time.Duration, rate int, processed <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if length > 0 {
		ctx, cancel = context.WithTimeout(ctx, length)
		defer cancel()
	}
	traffic := make(chan error, 1)
	go func() { traffic <- d.request(ctx, rate) }()
	select {
	case err := <-traffic:
		return err
	case <-processed:
		cancel()
		return errors.Join(errors.New("the processor ended before its time"), <-traffic)
	}
}

// readRest waits until the consumer has seen all that the processor wrote before it stopped, so
// that a second copy of anything would be noticed.
func (d *demo) readRest(cluster *kfake.Cluster) {
	for _, t := range append([]string{demoDeadLetter, demoRetry + ".dead"}, demoTargets...) {
		for _, p := range cluster.PartitionInfos(t) {
			d.watch.waitForOffset(t, p.Partition, p.HighWatermark, demoGrace)
		}
	}
}
