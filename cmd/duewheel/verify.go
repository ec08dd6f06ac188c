package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sync/errgroup"

	"github.com/duewheel/duewheel/admin"
	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/setting"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/verify"
)

// verifying is what `duewheel verify` was asked for.
type verifying struct {
	from, to    string
	routes      []string
	grace, late time.Duration
	heard       time.Duration
	show        int
	memory      string
	allTargets  bool
	output      string
	watch       bool
	every       time.Duration
	listen      string
}

// verifyPort is where the metrics of `duewheel verify --watch` are: not where those of a processor are.
const verifyPort = admin.DefaultPort + 1

func newVerifyCommand(f *flags) *cobra.Command {
	var o verifying
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Say whether all is well: what is missing, doubled, altered, early or late",
		Long: `Read the delay topics of a configuration, their targets and their dead letter topics, and
compare what was requested with what has arrived. It knows nothing of the processor but the
group's checkpoints, writes nothing, takes no part in the group, and a processor may run
meanwhile. What is due and not delivered is overdue as long as the checkpoint does not say
that it is resolved; only then it is missing.

It says since when it can tell: a topic whose older part is gone hides what lay there. The
exit code is 0 when all is well, also of a window in which nothing was requested, 1 when
faults were found, and 2 when it could not tell: brokers that cannot be reached, rights or
topics that are missing, a mistake in the flags, such as --from in the future.

With --watch it goes on until it is stopped, prints what it finds as it finds it, and has
/metrics on --listen.`,
		Example: "  duewheel verify -c duewheel.yaml --from 2d\n" +
			"  duewheel verify -c duewheel.yaml --watch --listen :9465",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("verify takes no arguments, and %q was given", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return askToLook(o.run(cmd, f)) },
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.StringVar(&o.from, "from", "", "only requests written at or after this `time`, in any form that delay-until takes, or so long ago, such as 1h or 2d")
	p.StringVar(&o.to, "to", "", "only requests written before this `time`")
	p.StringSliceVar(&o.routes, "route", nil, "only these delay `topics`")
	lengthFlag(p, &o.grace, "grace", time.Minute, "for how long a request may be due before it is overdue")
	lengthFlag(p, &o.late, "late", 0, "how late a delivery may be before that is a fault (default: it is only told)")
	lengthFlag(p, &o.heard, "cancels-within", 0, "within what time a cancel or a replacement takes effect; what is delivered later all the same is a fault (default: not judged)")
	p.IntVar(&o.show, "show", 10, "how many faults of each kind are shown; all are counted")
	p.BoolVar(&o.allTargets, "all-targets", false, "read every topic that a pattern of targets.allow matches, not only those that requests name")
	p.StringVar(&o.memory, "memory", "512MiB", "what may be held of requests, a `size`")
	addOutput(cmd, &o.output)
	p.BoolVar(&o.watch, "watch", false, "go on until stopped")
	lengthFlag(p, &o.every, "every", 10*time.Second, "how often to look, with --watch")
	p.StringVar(&o.listen, "listen", "", fmt.Sprintf("where /metrics is with --watch, an `address`; off: nowhere (default 127.0.0.1:%d, or the next free port)", verifyPort))
	return cmd
}

// askToLook adds to an error which right is missing.
func askToLook(err error) error {
	var d *verify.Denied
	switch {
	case !errors.As(err, &d):
		return err
	case d.Group != "":
		return askForGroup(err, d.Group)
	}
	return askFor("Read", err, d.Topic)
}

// config reads flags and settings. The error names everything that is wrong with them.
func (o *verifying) config(cmd *cobra.Command, s settings, now time.Time) (verify.Config, error) {
	c := verify.Config{Group: s.Group, Identity: s.Identity, AtLeastOnce: s.Guarantee == processor.AtLeastOnce, Skew: s.MaxClockSkew, Grace: o.grace, Late: o.late, InTime: o.heard, Keep: o.show, AllTargets: o.allTargets}
	errs := []error{checkOutput(o.output), notEmpty(cmd, "from", "to", "route", "listen")}
	if s.Group == "" && !s.isUnread("group.id") {
		errs = append(errs, errNoGroup)
	}
	var err error
	if c.From, err = instant("from", o.from, now); err != nil {
		errs = append(errs, err)
	}
	if c.From.After(now) { // of an empty window it would say that all is well, and so of a year that is mistyped
		errs = append(errs, fmt.Errorf("--from %s lies in the future, %s: the window is empty", o.from, relative(c.From, now)))
	}
	if c.To, err = instant("to", o.to, now); err != nil {
		errs = append(errs, err)
	}
	if !c.From.IsZero() && !c.To.IsZero() && !c.From.Before(c.To) {
		errs = append(errs, fmt.Errorf("--from %s is not before --to %s: nothing lies between them", o.from, o.to))
	}
	if o.watch && o.to != "" {
		errs = append(errs, errors.New("--to and --watch: give one of them"))
	}
	if c.Memory, err = setting.Size(o.memory); err != nil || c.Memory < 16<<20 {
		errs = append(errs, fmt.Errorf("--memory %s: a size of at least 16MiB", o.memory))
	}
	if o.show < 1 {
		errs = append(errs, fmt.Errorf("--show %d: at least 1", o.show))
	}
	for _, d := range []struct {
		flag string
		is   time.Duration
		min  time.Duration
	}{{"grace", o.grace, time.Second}, {"late", o.late, time.Millisecond}, {"cancels-within", o.heard, time.Millisecond}, {"every", o.every, time.Second}} {
		if cmd.Flags().Changed(d.flag) && d.is < d.min { // 0 would be as if the flag were not there, and of nothing it would be said that it is late
			errs = append(errs, fmt.Errorf("--%s %v: at least %v", d.flag, d.is, d.min))
		}
	}
	for _, only := range []string{"every", "listen"} {
		if cmd.Flags().Changed(only) && !o.watch {
			errs = append(errs, fmt.Errorf("--%s is for --watch", only))
		}
	}
	want, err := s.expectation()
	if len(s.Routes) > 0 || !s.isUnread("routes.0.topic") {
		errs = append(errs, err)
	}
	for _, r := range want.Routes {
		if len(o.routes) == 0 || slices.Contains(o.routes, r.Topic) {
			route := promised(r)
			route.PutOff = max(cmp.Or(s.RetryBackoffMax, 5*time.Minute), s.RetryBackoff) // the default of retry_backoff_max
			c.Routes = append(c.Routes, route)
		}
	}
	for _, name := range o.routes {
		if err == nil && !slices.ContainsFunc(want.Routes, func(r *topics.Route) bool { return r.Topic == name }) {
			errs = append(errs, fmt.Errorf("--route %s is not the delay topic of any route of the configuration", name))
		}
	}
	return c, joinLines(errs...)
}

// promised is what a route promises, as far as it is checked.
func promised(r *topics.Route) check.Route {
	c := check.Route{
		Topic: r.Topic, Target: r.Target, Delay: r.Delay, Allow: r.Allow, MaxDelay: r.MaxDelay, DeadLetter: r.DeadLetter, Emit: r.Emit.String(),
		Timestamp: r.Timestamp.String(), Prefix: r.HeaderPrefix(), Tools: r.Aliases, Jitter: r.Jitter, ExpireAfter: r.ExpireAfter, CancelsAnswered: r.CancelsAnswered, ReplacesLate: r.ReplacesLate, Keyed: r.Keyed, Remember: r.Remember,
		Partitioner: map[topics.Partitioner]check.Partitioner{
			topics.PartitionerMurmur2: check.ByKey, topics.PartitionerCRC32: check.ByCRC32, topics.PartitionerSource: check.AsInItsTopic,
		}[r.Partitioner],
		OnDuplicate: map[topics.OnDuplicate]check.OnDuplicate{
			topics.DuplicateRejected: check.Reject, topics.DuplicateReplaces: check.Replace, topics.DuplicateIgnored: check.LeaveOut,
		}[r.OnDuplicate],
	}
	if again := r.Retry; again != nil {
		b := again.Backoff
		c.Retry = &check.Retry{
			Initial: b.Initial, Max: b.Max, Factor: b.Factor, Jitter: b.Jitter, MaxAttempts: int64(again.MaxAttempts),
			Parking: again.Parking, FromHeaders: again.FromHeaders, Strip: again.Strip, Behind: time.Hour,
		}
	}
	return c
}

func (o *verifying) run(cmd *cobra.Command, f *flags) error {
	s, err := f.load()
	opts, clientErr := s.clientOpts()
	config, configErr := o.config(cmd, s, time.Now())
	if err := joinLines(err, clientErr, configErr); err != nil {
		return err
	}
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if hasScreen(stderr) && !o.watch {
		began := time.Now()
		config.Progress = func(done, of int64) {
			if of > 0 {
				fmt.Fprint(stderr, progress(int(done), int(of), time.Since(began), columnsOf(stderr, 80)))
			}
		}
	}
	v, err := verify.New(config, opts...)
	if err != nil {
		return err
	}
	defer v.Close()
	if o.watch {
		return o.keepWatching(cmd.Context(), v, stdout, stderr)
	}
	report, err := v.Pass(cmd.Context())
	if hasScreen(stderr) {
		fmt.Fprint(stderr, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	return o.print(stdout, report)
}

// print prints a report; errShown says that it has faults, which are those of the group.
func (o *verifying) print(w io.Writer, r *verify.Report) error {
	err := r.Write
	if o.output == "json" {
		err = func(w io.Writer) error { return newJSON(w).Encode(r) }
	}
	if err := err(w); err != nil {
		return err
	}
	if !r.Well() && !r.Doubtful() {
		return errShown
	}
	return undecidedOf(r)
}

// undecidedOf says that it cannot be told whether all is well, since some topics are not there or may not be looked at, or nothing is known of the group; nil: it can.
func undecidedOf(r *verify.Report) error {
	var errs []error
	for _, why := range r.Blind {
		errs = append(errs, fmt.Errorf("cannot tell of all: %s", why))
	}
	if len(r.Denied) > 0 {
		errs = append(errs, askFor("Read", fmt.Errorf("cannot tell of all: %w", kerr.TopicAuthorizationFailed), r.Denied...))
	}
	return joinLines(errs...)
}

// listenForVerify opens the port of --listen. Without one it is one that is free: processors on this machine take several.
func listenForVerify(address string) (net.Listener, error) {
	if address == "" {
		return admin.ListenNear("127.0.0.1", verifyPort)
	}
	return admin.Listen(address)
}

// keepWatching looks again and again, until ctx ends.
func (o *verifying) keepWatching(ctx context.Context, v *verify.Verifier, stdout, stderr io.Writer) error {
	var metrics verify.Metrics
	var g errgroup.Group
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if o.listen != listenOff {
		listener, err := listenForVerify(o.listen)
		if err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		registry := newRegistry()
		registry.MustRegister(&metrics)
		fmt.Fprintf(stderr, "metrics are at http://%s/metrics\n", listener.Addr())
		g.Go(func() error {
			err := admin.Serve(ctx, listener, metricsHandler(registry))
			stop(err)
			return err
		})
	}
	var last *verify.Report
	var failed error // of the last pass
	g.Go(func() error {
		defer stop(nil)
		for {
			report, err := v.Pass(ctx)
			if ctx.Err() != nil {
				return nil
			}
			metrics.Took(report, v.Held())
			if failed = err; err != nil {
				if last == nil && !mayPass(err) || errors.Is(err, verify.ErrMemory) || errors.Is(err, verify.ErrAnew) {
					return err // it will not be better by itself
				}
				fmt.Fprintf(stderr, "%s could not tell: %v\n", formatTime(time.Now()), askToLook(err))
			} else {
				if err := o.tellNews(stdout, last, report); err != nil {
					return err
				}
				if err := undecidedOf(report); err != nil && (last == nil || !slices.Equal(last.Denied, report.Denied) || !slices.Equal(last.Blind, report.Blind)) {
					fmt.Fprintf(stderr, "%s %v\n", formatTime(time.Now()), err)
				}
				last = report
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(o.every):
			}
		}
	})
	if err := g.Wait(); err != nil {
		return err
	}
	if last == nil {
		return errors.New("it was stopped before all had been read")
	}
	err := o.print(stdout, last)
	if err == nil && failed != nil {
		return fmt.Errorf("that was at %s, and at the end it could not tell any more: %w", formatTime(time.UnixMilli(last.At)), askToLook(failed))
	}
	return err
}

func metricsHandler(r *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "duewheel verify: /metrics /livez") })
	return mux
}

// tellNews prints what a pass has found and the one before had not: a line for each kind, and the first time one for all.
func (o *verifying) tellNews(w io.Writer, before, now *verify.Report) error {
	if o.output == "json" {
		return newJSON(w).Encode(now)
	}
	at := formatTime(time.UnixMilli(now.At))
	if before == nil {
		c := now.Counts
		if _, err := fmt.Fprintf(w, "%s requested %d, delivered %d, dead-lettered %d, pending %d, faults %d\n", at, c.Requested, c.Delivered, c.DeadLettered, c.Pending, c.Faults); err != nil {
			return err
		}
		before = &verify.Report{}
	}
	known := make(map[string]verify.Found)
	for _, f := range before.Faults {
		known[f.Kind] = f
	}
	for _, f := range now.Faults {
		was := known[f.Kind]
		delete(known, f.Kind)
		if !f.Differs(was) {
			continue
		}
		than := fmt.Sprintf("and there were %d", was.Count)
		if f.Count == was.Count {
			than = "as many as before, and not the same"
		}
		line := fmt.Sprintf("%s %s: %d, %s", at, strings.ToUpper(f.Kind), f.Count, than)
		switch one, is := f.New(was); {
		case is:
			line += ": " + one.String()
		case f.Count >= was.Count && f.Count > int64(len(f.First)):
			line += fmt.Sprintf("; what is new is none of the first %d (--show)", len(f.First))
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	for _, kind := range sorted(known) {
		if _, err := fmt.Fprintf(w, "%s %s: none any more\n", at, kind); err != nil {
			return err
		}
	}
	return nil
}
