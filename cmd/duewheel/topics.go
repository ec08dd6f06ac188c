package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/setting"
	"github.com/duewheel/duewheel/topics"
)

func newTopicsCommand(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topics",
		Short: "Create or check the topics of a configuration",
		Args:  oneCommand, // which counts for commands that can be run only
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTopicsCheckCommand(f), newTopicsCreateCommand(f))
	return cmd
}

func newTopicsCheckCommand(f *flags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say what is wrong with the topics, and how to mend it",
		Long: `Look at the delay topics, dead letter topics, audit topic and targets of a
configuration: whether they are there, keep what is pending, and survive the loss of a
broker; whether duewheel may use its group and its transactional ids, as far as brokers
tell; whether another group has checkpoints on a delay topic, so that both deliver;
whether several read the target of a retry route; and, among the last 10,000 records of
each delay topic, or what of them comes within 3 s, whether one id with one key lies in
two partitions, and whether a record comes to a retry topic again without its
delay-attempt. Every finding comes with what mends it, and a note, of what is not wrong,
with what does without it. The exit code is 1 when records are lost or stuck as things
are, 0 when there are warnings and notes only, and 2 when it could not be asked, or run
would refuse the settings.`,
		Example: "  duewheel topics check -c duewheel.yaml",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTopics(cmd.Context(), f, func(cl *kgo.Client, s settings, want topics.Expect) error {
				if err := s.wouldRun(); err != nil {
					return err
				}
				problems, err := findAllProblems(cmd.Context(), cl, s, want)
				if err != nil && len(problems) == 0 {
					return err
				}
				for i := range problems {
					if problems[i].Mend == topics.ByCreate && f.file != "" {
						problems[i].Mend += " -c " + f.file
					}
				}
				if shown := printProblems(cmd.OutOrStdout(), problems, asJSON); err == nil {
					return shown
				}
				return err // what was found until then is shown
			})
		},
	}
	jsonFlag(cmd.Flags(), &asJSON)
	return cmd
}

func newTopicsCreateCommand(f *flags) *cobra.Command {
	var partitions int32
	var replication int16
	var largest string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create the delay, dead letter and audit topics that are missing",
		Long: `Create the delay topics and dead letter topics of a configuration with what they need:
cleanup.policy=delete, retention.ms=-1, three replicas or as many as there are brokers,
min.insync.replicas, no unclean leader election, and room in the dead letter topics for
the headers that say what was wrong. The audit topic, if one is named, has as many
partitions as a delay topic, compression.type=zstd, and is kept for 30 days. Topics that
are there are left as they are, and targets are not made.`,
		Example: "  duewheel topics create -c duewheel.yaml --partitions 24",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			bytes, err := asMessageBytes(largest)
			errs := []error{err}
			for _, set := range []struct {
				flag string
				n    int
			}{{"partitions", int(partitions)}, {"replication", int(replication)}} {
				if set.n < 1 && cmd.Flags().Changed(set.flag) {
					errs = append(errs, fmt.Errorf("--%s %d: at least 1", set.flag, set.n))
				}
			}
			if err := joinLines(errs...); err != nil {
				return err
			}
			return withTopics(cmd.Context(), f, func(cl *kgo.Client, _ settings, want topics.Expect) error {
				want.Partitions, want.Replication, want.MaxMessageBytes = partitions, replication, bytes
				made, err := topics.Create(cmd.Context(), newPatient(cl), want)
				return errors.Join(printCreated(cmd.OutOrStdout(), made), err)
			})
		},
	}
	cmd.Flags().Int32Var(&partitions, "partitions", 0, "`partitions` of a new delay topic (default 12)")
	cmd.Flags().Int16Var(&replication, "replication", 0, "`replicas` of a new topic (default 3, or as many as there are brokers)")
	cmd.Flags().StringVar(&largest, "max-message-bytes", "", "largest record of a new delay topic, a `size` (default: the broker's)")
	return cmd
}

// leastMessageBytes leaves room for a request without a value: its headers, and those of a retry.
const leastMessageBytes = 4 << 10

// asMessageBytes is how large a record may be: 0 for the broker's default.
func asMessageBytes(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	n, err := setting.Size(s)
	if err == nil && (n < leastMessageBytes || n > math.MaxInt32-topics.DeadLetterRoom) {
		err = fmt.Errorf("%q: 4KiB to 2047MiB", s)
	}
	if err != nil {
		return 0, fmt.Errorf("--max-message-bytes: %w", err)
	}
	return int(n), nil
}

// withTopics calls fn with a client and what the topics of the configuration should be.
func withTopics(ctx context.Context, f *flags, fn func(*kgo.Client, settings, topics.Expect) error) error {
	cl, s, err := f.connect(sampleOpts()...)
	if err != nil {
		return err
	}
	defer cl.Close()
	want, err := s.expectation()
	if err != nil {
		return err
	}
	if err := reach(ctx, cl, s.Brokers); err != nil {
		return err
	}
	return fn(cl, s, want)
}

// wouldRun returns what `run` refuses of the settings, but for a group that is not named, without which topics can be looked at.
func (s settings) wouldRun() error {
	if s.Group == "" {
		s.Group = "any"
	}
	c, configErr := s.processorConfig(slog.New(slog.DiscardHandler))
	var clientErr error
	c.Client, clientErr = s.clientOpts()
	_, err := processor.New(c)
	return joinLines(clientErr, configErr, err)
}

// findAllProblems looks at records and at readers of targets, too. With an error it returns what was found until then.
func findAllProblems(ctx context.Context, cl *kgo.Client, s settings, want topics.Expect) ([]topics.Problem, error) {
	problems, err := findProblems(ctx, cl, s, want)
	if err != nil {
		return problems, err
	}
	sampled, err := sampleTopics(ctx, cl, want)
	problems = append(problems, sampled...)
	if err != nil {
		return problems, fmt.Errorf("look at the last records: %w", err)
	}
	shared, err := sharedTargets(ctx, newPatient(cl), s.Group, want)
	if err != nil {
		return problems, fmt.Errorf("look for groups that read a target: %w", err)
	}
	return append(problems, shared...), nil
}

// findProblems looks at the topics, for other groups that read them, and at what may not be done with the own group.
func findProblems(ctx context.Context, cl *kgo.Client, s settings, want topics.Expect) ([]topics.Problem, error) {
	adm := newPatient(cl)
	problems, err := topics.Check(ctx, adm, want)
	if err != nil || s.Group == "" {
		return problems, err
	}
	others, err := otherGroups(ctx, cl, s, want)
	if err != nil {
		return problems, fmt.Errorf("look for other groups: %w", err)
	}
	left, err := unrouted(ctx, adm, s.Group, want)
	if err != nil {
		return slices.Concat(problems, others), err
	}
	own, err := ownRights(ctx, cl, s)
	return slices.Concat(problems, others, left, own), err
}

// expectation is what the topics of a configuration should be.
func (s *settings) expectation() (topics.Expect, error) {
	if len(s.Routes) == 0 {
		return topics.Expect{}, errors.New("no routes: name a configuration that has some with -c")
	}
	filled := s.Config
	setting.Fill(&filled)
	want := topics.Expect{Bootstrap: strings.Join(s.Brokers, ","), Audit: s.AuditTopic, CarryRecords: filled.CarryRecords}
	all, missing := s.routes()
	var err error
	want.Routes, err = topics.NewRoutes(all...)
	return want, joinLines(missing, err, topics.ReserveAudit(s.AuditTopic, want.Routes))
}

// printProblems prints what is worst first. Of what is not wrong it says what does without it.
func printProblems(w io.Writer, problems []topics.Problem, asJSON bool) error {
	slices.SortStableFunc(problems, func(a, b topics.Problem) int { return int(b.Severity) - int(a.Severity) })
	if asJSON {
		enc := newJSON(w)
		enc.SetIndent("", "  ")
		if err := enc.Encode(append([]topics.Problem{}, problems...)); err != nil {
			return err
		}
	} else {
		if !slices.ContainsFunc(problems, func(p topics.Problem) bool { return p.Severity > topics.Note }) {
			fmt.Fprintln(w, "all topics are as they should be")
		}
		for _, p := range problems {
			mend := "mend"
			if p.Severity == topics.Note {
				mend = "else"
			}
			what := p.What
			if p.Topic != "" {
				what = p.Topic + ": " + what
			}
			fmt.Fprintf(w, "%s: %s\n    why:  %s\n    %s: %s\n", p.Severity, what, p.Why, mend, p.Mend)
		}
	}
	if slices.ContainsFunc(problems, func(p topics.Problem) bool { return p.Severity == topics.Error }) {
		return errShown
	}
	return nil
}

func sizeOf(t topics.Created) string {
	return topics.Plural(int64(t.Partitions), "partition") + ", " + topics.Plural(int64(t.Replication), "replica")
}

func printCreated(w io.Writer, made []topics.Created) error {
	for _, t := range made {
		if t.Existed {
			fmt.Fprintf(w, "%s is there already: %s\n", t.Topic, sizeOf(t))
			continue
		}
		var configs []string
		for _, name := range sorted(t.Configs) {
			configs = append(configs, name+"="+t.Configs[name])
		}
		fmt.Fprintf(w, "%s created: %s, %s\n", t.Topic, sizeOf(t), strings.Join(configs, " "))
	}
	return nil
}

// warnOfTopics makes the checks of `duewheel topics check` and logs what is wrong. It stops nothing:
// a topic may be mended while the processor runs.
func warnOfTopics(ctx context.Context, s settings, opts []kgo.Opt, logger *slog.Logger) {
	checking, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	problems, err := checkTopics(checking, s, opts)
	if err != nil && ctx.Err() == nil {
		logger.Warn("topics were not checked", "error", err)
	}
	for _, p := range problems {
		if p.Topic == "" && p.Severity == topics.Note {
			logger.Info("a right is missing", "what", p.What, "why", p.Why, "mend", p.Mend)
			continue
		}
		if p.Severity == topics.Note {
			logger.Info("what a setting of a topic comes to", "topic", p.Topic, "what", p.What, "why", p.Why, "otherwise", p.Mend)
			continue
		}
		if p.Topic == "" {
			logger.Warn("a right is missing", "severity", p.Severity, "what", p.What, "why", p.Why, "mend", p.Mend)
			continue
		}
		logger.Warn("topic is not as it should be", "topic", p.Topic, "severity", p.Severity, "what", p.What, "why", p.Why, "mend", p.Mend)
	}
}

const (
	checkTimeout = time.Minute // long enough for brokers that are just starting
	checkAgain   = time.Second
)

// checkTopics tries until it gets an answer or ctx ends.
func checkTopics(ctx context.Context, s settings, opts []kgo.Opt) ([]topics.Problem, error) {
	want, err := s.expectation()
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	for {
		problems, err := findProblems(ctx, cl, s, want)
		if err == nil {
			return problems, nil
		}
		select {
		case <-ctx.Done():
			return problems, err
		case <-time.After(checkAgain):
		}
	}
}
