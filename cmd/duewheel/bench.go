package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/duewheel/duewheel/bench"
)

func newBenchCommand(f *flags) *cobra.Command {
	var o bench.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure throughput, writes and lateness on a cluster",
		Long: `Measure on any cluster what duewheel does there: throughput against a plain copy loop,
records written to Kafka for each delayed record, lateness at a steady rate, what happens
when very many records are due at one instant, how all that compares with bare producers,
and what an idle processor costs. The processor runs in this process, but for hot: there
it is the memory of a process of its own that is measured, too, while a million records
are due at one instant, or as many as --burst says, and others beside them. The case
window has records go to the local store and come back while their lateness is measured.

It makes topics and groups of its own, whose names begin with duewheel-bench-, has every
record checked, and deletes them, also on Ctrl-C. All cases together take about
half an hour and write tens of millions of records of 100 bytes.

The cases are ` + strings.Join(bench.Cases(), ", ") + `.
The exit code is 1 when a case could not be measured or a record was not delivered as it
should be; a goal that is missed is only said.`,
		Example: "  duewheel bench -b localhost:9092\n  duewheel bench -b localhost:9092 --case lateness,instant --rate 2000 -o json",
		Args:    oneCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Replica = f.benchReplica
			return f.bench(cmd, bench.Run, o, asJSON)
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.StringSliceVar(&o.Cases, "case", nil, "`cases` to run; may be repeated (default all)")
	p.IntVar(&o.Records, "records", 1_000_000, "records of the cases throughput and store")
	p.IntVar(&o.Rate, "rate", 10_000, "records a second of the cases lateness, writes and floor; carry takes half of them, and window a quarter")
	lengthFlag(p, &o.For, "for", 0, "how long the lateness cases are measured (default 20s)")
	p.IntVar(&o.Burst, "burst", 0, "records of the cases instant (default 100000) and hot (default 1000000)")
	lengthFlag(p, &o.Spread, "spread", 0, "for how long those of the case hot are due (default: one instant)")
	oneProcess(p, &o, &asJSON)
	cmd.AddCommand(newBenchAskCommand(f), newBenchLookCommand(f), newBenchScaleCommand(f), newBenchSizeCommand(f), newBenchFailoverCommand(f), newBenchReplicaCommand(f))
	return cmd
}

// oneProcess are the flags of benchmarks of a processor in this process.
func oneProcess(p *pflag.FlagSet, o *bench.Options, asJSON *bool) {
	p.IntVar(&o.Rounds, "rounds", 3, "how often cases with medians are run")
	p.IntVar(&o.Partitions, "partitions", 4, "partitions of every topic")
	p.IntVar(&o.Lanes, "lanes", 0, "lanes of the processor (default: 1)")
	p.StringVar(&o.Dir, "dir", "", "where the state `directory` is made (default: the system's for temporary files)")
	jsonFlag(p, asJSON)
}

// bench runs a benchmark of a processor in this process.
func (f *flags) bench(cmd *cobra.Command, run func(context.Context, bench.Options) ([]bench.Result, error), o bench.Options, asJSON bool) error {
	log, err := f.benchOptions(cmd, &o)
	if err != nil {
		return err
	}
	o.Logger = log
	return runBench(cmd.Context(), run, o, asJSON, cmd.OutOrStdout())
}

// benchOptions fills in what every benchmark gets from the settings, and makes the log.
func (f *flags) benchOptions(cmd *cobra.Command, o *bench.Options) (*slog.Logger, error) {
	s, err := f.load()
	opts, clientErr := s.clientOpts()
	o.Client, o.Progress, o.MemoryBudget = opts, cmd.ErrOrStderr(), s.MemoryBudget
	return s.logger(cmd.ErrOrStderr()), joinLines(err, clientErr, f.unmeasured(), notNothing(cmd))
}

// notNothing refuses numbers that are 0 and a case without a name: a benchmark would take them for flags that were not given, and measure as much as ever.
func notNothing(cmd *cobra.Command) error {
	errs := []error{notEmpty(cmd, "case")}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Value.Type() == "int" && flag.Value.String() == "0" {
			errs = append(errs, fmt.Errorf("--%s 0: at least 1", flag.Name))
		}
	})
	return joinLines(errs...)
}

// unmeasured refuses settings on the command line that a benchmark would leave out. A file may have them: it is there for others, too.
func (f *flags) unmeasured() error {
	var errs []error
	for _, x := range f.x {
		name, _, _ := strings.Cut(x, "=")
		path := pathOf(name)
		if !slices.Contains(names(), general(path)) || path == "memory.budget" || strings.HasPrefix(path, "kafka.") || strings.HasPrefix(path, "log.") {
			continue
		}
		errs = append(errs, fmt.Errorf("-X %s: a benchmark measures the defaults; it takes kafka.*, log.*, memory.budget and its own flags", shown(path)))
	}
	return joinLines(errs...)
}

func newBenchAskCommand(f *flags) *cobra.Command {
	var o bench.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ask",
		Short: "Measure what cancels, retries, ids and the audit topic cost",
		Long: `Measure on any cluster what requests may ask for besides a delay: how many are cancelled
a second, whether a retry route keeps up with a consumer that fails everything, and what
it costs that records have ids, and that what becomes of them is told. The processor
runs in this process, but for ids-pending: there it is the memory of a process of its
own that is measured, while very many records with ids are pending.

It makes topics and groups of its own, whose names begin with duewheel-bench-, has every
record checked, and deletes them, also on Ctrl-C. All cases together take some six
minutes.

The cases are ` + strings.Join(bench.AskCases(), ", ") + `.
The exit code is 1 when a case could not be measured or a record was not delivered as it
should be; a goal that is missed is only said.`,
		Example: "  duewheel bench ask -b localhost:9092\n  duewheel bench ask -b localhost:9092 --case retry --rate 2000 -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Replica = f.benchReplica
			return f.bench(cmd, bench.Ask, o, asJSON)
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.StringSliceVar(&o.Cases, "case", nil, "`cases` to run; may be repeated (default all)")
	p.IntVar(&o.Records, "records", 500_000, "records of the cases cancels, ids and audit")
	p.IntVar(&o.Pending, "pending", 1_000_000, "records of the case ids-pending")
	p.IntVar(&o.Rate, "rate", 10_000, "failures a second of the cases retry and retry-dlq")
	lengthFlag(p, &o.For, "for", 0, "how long the cases retry and retry-dlq are measured (default 20s)")
	oneProcess(p, &o, &asJSON)
	return cmd
}

func newBenchLookCommand(f *flags) *cobra.Command {
	var o bench.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "look",
		Short: "Measure how soon it is known what is pending",
		Long: `Measure on any cluster how much log ls and agenda read a second, what they have in
memory at most, and how soon get shows a record. Each runs as a process of its own. And
in this one, what it costs to read when a record is due, in each form.

It makes topics and groups of its own, whose names begin with duewheel-bench-, and
deletes them, also on Ctrl-C. All cases together take a minute or two.

The cases are ` + strings.Join(bench.LookAheadCases(), ", ") + `.
The exit code is 1 when a case could not be measured; a goal that is missed is only said.`,
		Example: "  duewheel bench look -b localhost:9092\n  duewheel bench look -b localhost:9092 --pending 10000000 -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Command = f.itself
			return f.bench(cmd, bench.LookAhead, o, asJSON)
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.StringSliceVar(&o.Cases, "case", nil, "`cases` to run; may be repeated (default all)")
	p.IntVar(&o.Pending, "pending", 1_000_000, "records that are pending")
	p.IntVar(&o.Rounds, "rounds", 3, "how often each is run")
	p.IntVar(&o.Partitions, "partitions", 4, "partitions of every topic")
	jsonFlag(p, &asJSON)
	return cmd
}

func newBenchScaleCommand(f *flags) *cobra.Command {
	var o bench.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Measure what very many pending records cost",
		Long: `Measure on this machine what it costs that very many records are pending: how fast they
are taken in, what is written for them, what memory they take, how soon a process that is
started again knows them, and what is delivered beside them. No Kafka takes part; what
that adds, bench size measures.

The state directories take some 400 bytes a record while it runs, and are deleted. With
two million records it takes a minute or two.

The results are ` + strings.Join(bench.ScaleCases(), ", ") + `.
The exit code is 1 when something could not be measured; a goal that is missed is only said.`,
		Example: "  duewheel bench scale\n  duewheel bench scale --pending 100000000 --dir /data",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notNothing(cmd); err != nil {
				return err
			}
			o.Progress = cmd.ErrOrStderr()
			results, err := bench.Scale(cmd.Context(), o)
			return errors.Join(unwell(err), printBench(bench.Here(), results, asJSON, cmd.OutOrStdout()))
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.IntVar(&o.Pending, "pending", 2_000_000, "records that are pending")
	p.IntVar(&o.Rounds, "rounds", 3, "how often what has medians is measured")
	p.IntVar(&o.Partitions, "partitions", 8, "partitions that they lie in")
	p.StringVar(&o.Dir, "dir", "", "where state `directories` are made (default: the system's for temporary files)")
	jsonFlag(p, &asJSON)
	return cmd
}

func newBenchSizeCommand(f *flags) *cobra.Command {
	var o bench.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "size",
		Short: "Measure a process in which very many records are pending, on a cluster",
		Long: `Measure on any cluster what it costs a process that very many records are pending: how
late others are, how fast they are delivered and taken in, how soon a process delivers
that is started again, what memory it takes, and how late others are while those come. A
second process in which none are pending does the same in turn. Both are started by this
one.

It makes topics and groups of its own, whose names begin with duewheel-bench-, has every
record checked, and deletes them, also on Ctrl-C. With 20 million records it takes some
20 minutes; brokers and the state directory need some 200 bytes for each, and half of
that again while it runs. -X memory.budget=512MiB gives the processes another budget.

The results are ` + strings.Join(bench.SizeCases(), ", ") + `.
The exit code is 1 when something could not be measured or a record was not delivered as
it should be; a goal that is missed is only said.`,
		Example: "  duewheel bench size -b localhost:9092\n  duewheel bench size -b localhost:9092 --pending 100000000 -X memory.budget=512MiB --dir /data",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.benchReplicas(cmd, bench.Size, o, asJSON)
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.IntVar(&o.Pending, "pending", 20_000_000, "records that are pending")
	p.IntVar(&o.FillRate, "fill", 100_000, "how many of those are written a second")
	p.IntVar(&o.Records, "records", 1_000_000, "records that are delivered, and taken in, as fast as it can")
	p.IntVar(&o.Rate, "rate", 5_000, "records a second of which it is measured how late they are")
	lengthFlag(p, &o.For, "for", 0, "how long that is measured (default 20s)")
	p.IntVar(&o.Rounds, "rounds", 3, "how often everything is measured")
	p.IntVar(&o.Partitions, "partitions", 8, "partitions of every topic")
	p.StringVar(&o.Dir, "dir", "", "where state `directories` are made (default: the system's for temporary files)")
	jsonFlag(p, &asJSON)
	return cmd
}

// benchReplicas runs a benchmark of processors in processes of their own.
func (f *flags) benchReplicas(cmd *cobra.Command, run func(context.Context, bench.Options) ([]bench.Result, error), o bench.Options, asJSON bool) error {
	log, err := f.benchOptions(cmd, &o)
	if err != nil {
		return err
	}
	o.Replica = f.benchReplica
	if f.logLevel != "" { // else the lines of the replicas hide the progress
		o.Logger = log
	}
	return runBench(cmd.Context(), run, o, asJSON, cmd.OutOrStdout())
}

func newBenchFailoverCommand(f *flags) *cobra.Command {
	var o bench.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "failover",
		Short: "Measure what killing, restarting and adding replicas costs",
		Long: `Measure on any cluster what it costs when replicas are killed, restarted and added: how
soon their partitions are live elsewhere, with standbys and without, how fast pending
records are read from the log again, how soon a restarted process delivers, and how late
records are meanwhile. Replicas are processes of their own, started by this one.

It makes topics and groups of its own, whose names begin with duewheel-bench-, has every
record checked, and deletes them, also on Ctrl-C. All cases together take some six
minutes. The case standby-many has ten times the pending records: with ten million of
them brokers and state directories need some 3 GB each.

The cases are ` + strings.Join(bench.FailoverCases(), ", ") + `.
The exit code is 1 when a case could not be measured or a record was not delivered as it
should be; a goal that is missed is only said.`,
		Example: "  duewheel bench failover -b localhost:9092\n  duewheel bench failover -b localhost:9092 --case standby,rolling --rate 2000",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.benchReplicas(cmd, bench.Failover, o, asJSON)
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.StringSliceVar(&o.Cases, "case", nil, "`cases` to run; may be repeated (default all)")
	p.IntVar(&o.Pending, "pending", 1_000_000, "records of the cases standby, cold and restart that are due only hours later; standby-many has ten times as many")
	p.IntVar(&o.Rate, "rate", 10_000, "records a second of the cases rebalance and rolling")
	lengthFlag(p, &o.For, "for", 0, "how long it is quiet before replicas are added or restarted (default 10s)")
	p.IntVar(&o.Rounds, "rounds", 3, "how often the process of the case restart is restarted")
	p.IntVar(&o.Partitions, "partitions", 12, "partitions of delay topics")
	p.StringVar(&o.Dir, "dir", "", "where state `directories` are made (default: the system's for temporary files)")
	jsonFlag(p, &asJSON)
	return cmd
}

// newBenchReplicaCommand is what benchmarks start as a child where a replica needs a process of its own.
func newBenchReplicaCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:    "replica",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.load()
			opts, clientErr := s.clientOpts()
			if err := joinLines(err, clientErr); err != nil {
				return err
			}
			return bench.ServeReplica(cmd.Context(), opts, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

// benchReplica makes the command that is this program as a replica on the same cluster. The environment says what it has said here.
func (f *flags) benchReplica() *exec.Cmd { return f.itself("bench", "replica") }

// itself makes the command that is this program with other arguments, on the same cluster.
func (f *flags) itself(args ...string) *exec.Cmd {
	add := func(flag string, values ...string) {
		for _, v := range values {
			if v != "" {
				args = append(args, flag+"="+v)
			}
		}
	}
	add("--config", f.file)
	add("--bootstrap-server", f.brokers...)
	add("--property", f.x...)
	add("--command-config", f.commandConfig)
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return exec.Command(program, args...)
}

// runBench prints what was measured even when a part of it was not.
func runBench(ctx context.Context, measure func(context.Context, bench.Options) ([]bench.Result, error), o bench.Options, asJSON bool, stdout io.Writer) error {
	where, err := bench.Look(ctx, o.Client)
	if err != nil {
		return err
	}
	results, err := measure(ctx, o)
	return errors.Join(unwell(err), printBench(where, results, asJSON, stdout))
}

// unwell makes a finding (exit code 1) of whatever kept a case from being measured, also of brokers that stopped answering, but not of a mistake in the flags.
func unwell(err error) error {
	if wrong := (*bench.OptionsError)(nil); err == nil || errors.As(err, &wrong) {
		return err
	}
	return findings{err}
}

func printBench(where bench.Where, results []bench.Result, asJSON bool, stdout io.Writer) error {
	switch {
	case len(results) == 0:
		return nil
	case asJSON:
		return bench.WriteJSON(stdout, where, results)
	}
	_, err := fmt.Fprintln(stdout, where)
	return errors.Join(err, bench.WriteTable(stdout, results))
}
