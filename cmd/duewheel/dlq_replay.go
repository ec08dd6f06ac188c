package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/term"

	"github.com/duewheel/duewheel/topics"
)

// replaying is what `duewheel dlq replay` was asked for.
type replaying struct {
	choice
	places []string
	rate   int
	most   int
	dryRun bool
	yes    bool
}

const twice = "dead letters stay where they are, so what is replayed twice is delivered twice"

func newDLQReplayCommand(f *flags) *cobra.Command {
	var o replaying
	cmd := &cobra.Command{
		Use:   "replay [[<topic>/]<partition>@<offset>...]",
		Short: "Write dead letters to their delay topics again",
		Long: `Write the requests of dead letters, all or those that flags or places choose, to the same
partition of their delay topic again: key, value and headers as they were, without
__delay.errors.*. They are accepted as new records: a delay-for counts from now, and a
delay-until that is over is due at once. One that was given up as attempts_exhausted
loses its delay-attempt, so that its attempts are counted anew.

Nothing is removed or marked:
` + twice + `.
What is replayed and cannot be delivered comes back as another dead letter; it lies behind
the end as it was at the beginning, so it is not replayed by the same command. The next
one finds both, unless --since or --from leaves out what has been replayed.

Those that were cut (__delay.errors.cut) are not whole and are not replayed, nor are those
whose delay topic, partition or route is gone; the exit code is 1 then. Where it ends early,
it says with which --from to go on.`,
		Example: "  duewheel dlq replay -c duewheel.yaml --code unknown_target --since 2h --dry-run\n" +
			"  duewheel dlq replay -c duewheel.yaml delay-requests.dead/0@17 --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.places = args
			want, err := o.filter(cmd, time.Now())
			if err := joinLines(err, o.check(cmd)); err != nil {
				return err
			}
			return o.withLetters(f, func(l *letters) error {
				r := replay{letters: l, rate: o.rate, now: time.Now, stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr()}
				if in := cmd.InOrStdin(); !o.yes && !o.dryRun {
					r.ask = func(ctx context.Context) (bool, error) { return answered(ctx, in) }
				}
				if !o.dryRun && hasScreen(r.stderr) && isScreen(r.stdout) {
					r.bar = r.stderr
				}
				return o.run(cmd.Context(), &r, want)
			}, append(answeredWithin(produceTimeout), kgo.RecordPartitioner(kgo.ManualPartitioner()),
				kgo.ProducerBatchMaxBytes(96<<20))...) // how large is for the broker to say
		},
	}
	o.addTopics(cmd)
	o.addFilters(cmd)
	p := cmd.Flags()
	p.IntVar(&o.rate, "rate", 1000, "records a second at most")
	p.IntVar(&o.most, "max", 0, "end after so many")
	p.BoolVar(&o.dryRun, "dry-run", false, "only say what would be done")
	p.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	return cmd
}

// check says what is wrong with flags and arguments alone.
func (o *replaying) check(cmd *cobra.Command) error {
	errs := []error{checkPlaces(append(o.places, o.from)...)}
	if o.rate < 1 {
		errs = append(errs, fmt.Errorf("--rate %d: at least 1 record a second", o.rate))
	}
	if o.most < 1 && cmd.Flags().Changed("max") {
		errs = append(errs, fmt.Errorf("--max %d: at least 1", o.most))
	}
	if len(o.places) > 0 {
		for _, flag := range []string{"code", "header", "since", "until", "target", "route", "from", "max"} {
			if cmd.Flags().Changed(flag) {
				errs = append(errs, fmt.Errorf("--%s chooses among all dead letters, and places name some: give one of them", flag))
			}
		}
	}
	if in := cmd.InOrStdin(); !o.yes && !o.dryRun && !isScreen(in) {
		errs = append(errs, errors.New("there is no terminal to ask on: --yes replays without asking, and --dry-run says what would be done"))
	}
	return joinLines(errs...)
}

// isScreen tells whether something is a terminal.
func isScreen(what any) bool {
	f := fileOf(what)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// answered waits for a person's yes.
func answered(ctx context.Context, in io.Reader) (bool, error) {
	answer := make(chan string, 1)
	go func() { // left to the end of the process when ctx ends first
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case said := <-answer:
		return said == "y" || said == "yes", nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// replay writes dead letters to their delay topics again. What is to be written is a plan, sending writes it, and a journal keeps how far it
// has come.
type replay struct {
	*letters
	rate   int
	now    func() time.Time
	stdout io.Writer
	stderr io.Writer
	ask    func(context.Context) (bool, error) // nil: yes was said
	bar    io.Writer                           // nil: a line of stdout for each

	partitions map[string]int      // of delay topics that were looked up; 0: it does not exist
	entrances  map[string]entrance // of the same
	next       *position           // the first beyond --max
}

func (o *replaying) run(ctx context.Context, r *replay, want filter) error {
	all, err := o.chosen(ctx, r, want)
	if err != nil {
		return err
	}
	p, err := r.plan(ctx, all, o.dryRun)
	if err != nil {
		return err
	}
	if p.codes.total == 0 && p.refused.total == 0 {
		fmt.Fprintln(r.stdout, o.none())
		return nil
	}
	if err := r.tell(ctx, p); err != nil || p.codes.total == 0 {
		return cmp.Or(err, p.err())
	}
	if o.dryRun {
		fmt.Fprintf(r.stdout, "nothing was written; %s\n", countLetters(&p.codes))
		return p.err()
	}
	if r.ask != nil {
		fmt.Fprintf(r.stderr, "replay %s? [y/N] ", countLetters(&p.codes))
		if yes, err := r.ask(ctx); err != nil || !yes {
			return cmp.Or(err, errors.New("nothing was replayed"))
		}
	}
	s := sending{replay: r, journal: journal{stdout: r.stdout, bar: r.bar, now: r.now, began: r.now(), total: p.codes.total}}
	if err := s.run(ctx, all); err != nil {
		return s.journal.interrupted(err, s.pending, len(o.places) == 0)
	}
	fmt.Fprintf(r.stdout, "%s replayed: %s\n", topics.Plural(s.journal.written.total, "dead letter"), &s.journal.written)
	fmt.Fprintf(r.stderr, "note: --since %s chooses those that come back\n", formatTime(s.journal.began))
	return p.err()
}
