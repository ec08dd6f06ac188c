package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
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
			want, err := o.filter(time.Now())
			if err := joinLines(err, o.check(cmd)); err != nil {
				return err
			}
			return o.withLetters(f, func(l *letters) error {
				r := replay{letters: l, rate: o.rate, now: time.Now, stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr()}
				if in := cmd.InOrStdin(); !o.yes && !o.dryRun {
					r.ask = func(ctx context.Context) (bool, error) { return answered(ctx, in) }
				}
				if !o.dryRun && isScreen(r.stderr) && isScreen(r.stdout) {
					r.bar = r.stderr
				}
				return o.run(cmd.Context(), &r, want)
			}, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordDeliveryTimeout(produceTimeout),
				kgo.ProducerBatchMaxBytes(96<<20)) // how large is for the broker to say
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
	f, ok := what.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
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

// replay writes dead letters to their delay topics again.
type replay struct {
	*letters
	rate   int
	now    func() time.Time
	stdout io.Writer
	stderr io.Writer
	ask    func(context.Context) (bool, error) // nil: yes was said
	bar    io.Writer                           // nil: a line of stdout for each

	partitions map[string]int  // of delay topics that were looked up; 0: it does not exist
	stamps     map[string]bool // those whose timestamps brokers write
	next       *position       // the first beyond --max

	total   int // to be written
	began   time.Time
	pending []*again // to be written at once
	size    int      // of those
	written tally
	last    position  // the last that is written
	failed  *position // the first that was not acknowledged
	behind  int       // written behind that one
}

// again is a dead letter as it is to be written.
type again struct {
	of     *letter
	record *kgo.Record
}

// chosen calls a function with each dead letter that was asked for, and may be called again for the same.
type chosen func(ctx context.Context, fn func(*letter) error) error

func (o *replaying) run(ctx context.Context, r *replay, want filter) error {
	all, err := o.chosen(ctx, r, want)
	if err != nil {
		return err
	}
	p, err := r.plan(ctx, all, o.dryRun)
	if err != nil {
		return err
	}
	if r.total = p.codes.total; r.total == 0 && p.refused.total == 0 {
		fmt.Fprintln(r.stdout, "no dead letters")
		return nil
	}
	if err := r.tell(ctx, p); err != nil || r.total == 0 {
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
	if err := r.run(ctx, all); err != nil {
		return r.interrupted(err, len(o.places) == 0)
	}
	fmt.Fprintf(r.stdout, "%s replayed: %s\n", topics.Plural(r.written.total, "dead letter"), &r.written)
	fmt.Fprintf(r.stderr, "note: --since %s chooses those that come back\n", formatTime(r.began))
	return p.err()
}

// chosen finds what was asked for. Where logs end is found out once.
func (o *replaying) chosen(ctx context.Context, r *replay, want filter) (chosen, error) {
	if len(o.places) > 0 {
		found, err := r.all(ctx, o.places, len(o.topics) > 0)
		return func(_ context.Context, fn func(*letter) error) error {
			for _, l := range found {
				if err := fn(l); err != nil {
					return err
				}
			}
			return nil
		}, err
	}
	spans, err := o.open(ctx, r.letters, want, r.stderr)
	return func(ctx context.Context, fn func(*letter) error) error {
		n := 0
		_, err := r.each(ctx, spans, func(l *letter) error {
			if !want.takes(l) {
				return nil
			}
			if n++; o.most > 0 && n > o.most {
				at := l.place()
				r.next = &at
				return errEnough
			}
			return fn(l)
		})
		return err
	}, err
}

// plan is what a replay would do.
type plan struct {
	codes   tally // of what is written
	delays  tally // the topics that it is written to
	refused tally // what is not, by the reason
	doomed  tally // what is dead-lettered once more as things are, by code
	targets map[string]bool
}

// mostTargets is how many targets are looked up before a replay.
const mostTargets = 20

// mostNotes is how many dead letters are named that are not replayed. A dry run names all.
const mostNotes = 10

func (p *plan) err() error {
	if p.refused.total == 0 {
		return nil
	}
	return fmt.Errorf("%s not replayed: %s", topics.Plural(p.refused.total, "dead letter"), &p.refused)
}

// plan reads everything that is chosen once. A dry run says of each what would become of it.
func (r *replay) plan(ctx context.Context, all chosen, dryRun bool) (*plan, error) {
	p := plan{targets: map[string]bool{}}
	return &p, all(ctx, func(l *letter) error {
		why, err := r.refuse(ctx, l)
		if err != nil {
			return err
		}
		if why != "" {
			p.refused.add(why)
			if dryRun {
				fmt.Fprintf(r.stdout, "%s is not replayed: it is one %s\n", l.place(), why)
			} else if p.refused.total <= mostNotes {
				fmt.Fprintf(r.stderr, "note: %s is not replayed: it is one %s\n", l.place(), why)
			}
			return nil
		}
		p.codes.add(string(l.Refusal.Code))
		p.delays.add(l.Topic)
		if l.target != "" && len(p.targets) < mostTargets {
			p.targets[l.target] = true
		}
		a := r.again(l)
		refusal := r.judge(a)
		if refusal != nil {
			p.doomed.add(string(refusal.Code))
		}
		if dryRun {
			line := fmt.Sprintf("%s to %s/%d", l.place(), l.Topic, l.Partition)
			if refusal != nil {
				line += ", where it is dead-lettered again: " + visible(refusal.Error())
			}
			_, err = fmt.Fprintln(r.stdout, line)
		}
		return err
	})
}

// tell says what a person should know before it is done.
func (r *replay) tell(ctx context.Context, p *plan) error {
	note := func(format string, args ...any) { fmt.Fprintf(r.stderr, "note: "+format+"\n", args...) }
	if r.next != nil {
		note("there are more; --from %s goes on", r.next)
	}
	if r.total == 0 {
		return nil
	}
	note("%s", twice)
	note("they go to %s", strings.Join(sorted(p.delays.by), ", "))
	if p.doomed.total > 0 {
		note("as things are, %s of them will be dead-lettered again: %s", fmt.Sprint(p.doomed.total), &p.doomed)
	}
	for _, target := range sorted(p.targets) {
		problem, _, err := lookAtTarget(ctx, r.cl, target, -1)
		if err != nil {
			return err
		}
		if problem != "" {
			note("%s", visible(problem))
		}
	}
	return nil
}

// refuse says what kind of dead letter it is that cannot be replayed; "" when it can be.
func (r *replay) refuse(ctx context.Context, l *letter) (string, error) {
	switch {
	case l.Cut != "":
		return "that was cut and is not whole", nil
	case !topics.IsRequest(l.record.Headers):
		return "that never was a request", nil
	case r.boxes.routes != nil && r.boxes.routes[l.Topic] == nil:
		return "of " + l.Topic + ", which is not the delay topic of any route of the configuration", nil
	}
	n, err := r.partitionsOf(ctx, l.Topic)
	switch {
	case err != nil:
		return "", err
	case n == 0:
		return "of " + l.Topic + ", which does not exist any more", nil
	case int(l.Partition) >= n:
		return fmt.Sprintf("of partition %d of %s, which has only 0 to %d", l.Partition, l.Topic, n-1), nil
	}
	return "", nil
}

// partitionsOf returns how many partitions a delay topic has; 0 when it does not exist.
func (r *replay) partitionsOf(ctx context.Context, topic string) (int, error) {
	if n, known := r.partitions[topic]; known {
		return n, nil
	}
	details, err := r.adm.ListTopics(ctx, topic)
	if err == nil && !errors.Is(details[topic].Err, kerr.UnknownTopicOrPartition) {
		err = details[topic].Err
	}
	if err != nil {
		return 0, fmt.Errorf("look up the delay topic %s: %w", topic, err)
	}
	if r.partitions == nil || len(r.partitions) >= mostWords {
		r.partitions, r.stamps = map[string]int{}, map[string]bool{}
	}
	r.partitions[topic], r.stamps[topic] = len(details[topic].Partitions), stampsByBroker(ctx, r.cl, topic)
	return r.partitions[topic], nil
}

// again is the request of a dead letter.
func (r *replay) again(l *letter) *again {
	return &again{l, &kgo.Record{
		Topic: l.Topic, Partition: l.Partition, Key: l.record.Key, Value: l.record.Value,
		Headers: topics.AppendReplayed(nil, l.record.Headers, l.Refusal.Code),
	}}
}

// judge says why a request would be refused again by what its route says today; nil where nothing is known of it.
func (r *replay) judge(a *again) *topics.Refusal {
	route, now := r.boxes.routes[a.record.Topic], r.now().UnixMilli()
	if route == nil {
		return nil
	}
	q, err := route.Parser().Parse(a.record.Headers, topics.Stamp{Millis: now, ByBroker: true, Key: a.record.Key, NoValue: a.record.Value == nil}, 0, topics.NewMark([4]byte{}, "", a.record.Partition))
	var refusal *topics.Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	if refusal = route.Refuse(&q, now); refusal == nil && q.Kind == topics.KindRequest {
		refusal = route.Expired(&q, q.Due, now)
	}
	return refusal
}

const (
	mostAtOnce      = 1000
	mostBytesAtOnce = 4 << 20
)

// run writes what was chosen, some at a time: when it ends early, all before a place are written and all behind it are not.
func (r *replay) run(ctx context.Context, all chosen) error {
	r.began = r.now()
	atOnce := min(max(r.rate/10, 1), mostAtOnce)
	err := all(ctx, func(l *letter) error {
		if why, err := r.refuse(ctx, l); err != nil || why != "" {
			return err
		}
		a := r.again(l)
		r.pending = append(r.pending, a)
		r.size += topics.RecordSize(a.record.Key, a.record.Value, a.record.Headers)
		if len(r.pending) < atOnce && r.size < mostBytesAtOnce {
			return nil
		}
		if err := r.write(ctx); err != nil {
			return err
		}
		return r.pause(ctx)
	})
	if err == nil {
		err = r.write(ctx)
	}
	if r.bar != nil {
		fmt.Fprintln(r.bar)
	}
	return err
}

// write writes what is pending and waits until all of it is answered.
func (r *replay) write(ctx context.Context) error {
	if len(r.pending) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var records []*kgo.Record
	for _, a := range r.pending {
		records = append(records, a.record)
	}
	answers := map[*kgo.Record]error{}
	for _, answer := range r.cl.ProduceSync(context.WithoutCancel(ctx), records...) {
		answers[answer.Record] = answer.Err
	}
	var err error
	for _, a := range r.pending {
		at := a.of.place()
		if failed := answers[a.record]; failed != nil {
			if err == nil {
				r.failed, err = &at, fmt.Errorf("produce to %s/%d: %w", a.record.Topic, a.record.Partition, failed)
			}
			continue
		}
		if r.last = at; r.failed != nil {
			r.behind++
		}
		r.written.add(string(a.of.Refusal.Code))
		if r.bar == nil {
			if _, failed := fmt.Fprintf(r.stdout, "%s: %s\n", at, r.confirm(a)); failed != nil && err == nil {
				err = failed
			}
		}
	}
	r.pending, r.size = nil, 0
	if r.bar != nil {
		fmt.Fprint(r.bar, progress(r.written.total, r.total, r.now().Sub(r.began)))
	}
	return err
}

// confirm says where a request lies now and, where its route is known, what becomes of it.
func (r *replay) confirm(a *again) string {
	route := r.boxes.routes[a.record.Topic]
	if route == nil {
		return position{a.record.Topic, a.record.Partition, a.record.Offset}.String()
	}
	return (&order{}).confirm(a.record, route.Parser(), route, r.stamps[a.record.Topic])
}

// pause waits until as much time has passed as what is written may take.
func (r *replay) pause(ctx context.Context) error {
	wait := due(r.written.total, r.rate) - r.now().Sub(r.began)
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// due is when the next may be written after n.
func due(n, rate int) time.Duration {
	return time.Duration(float64(n) / float64(rate) * float64(time.Second))
}

const barWidth = 30

// progress is the line that is drawn again and again.
func progress(n, total int, passed time.Duration) string {
	part := min(float64(n)/float64(max(total, 1)), 1)
	full := int(part * barWidth)
	left := ""
	if n > 0 && n < total {
		left = ", " + (time.Duration(float64(passed) * (1 - part) / part)).Round(time.Second).String() + " left"
	}
	return fmt.Sprintf("\r[%s%s] %d of %d (%.0f %%)%s\x1b[K", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), n, total, 100*part, left)
}

// interrupted says how far a replay has come that has ended early.
func (r *replay) interrupted(err error, canGoOn bool) error {
	said := fmt.Sprintf("%s replayed before that", topics.Plural(r.written.total, "dead letter"))
	var next *position
	switch {
	case r.failed != nil:
		next = r.failed
		said += fmt.Sprintf("; %s was not acknowledged, and may have been written all the same", r.failed)
	case len(r.pending) > 0:
		at := r.pending[0].of.place()
		next = &at
	case r.written.total > 0:
		next = &position{r.last.topic, r.last.partition, r.last.offset + 1}
	}
	if next != nil && canGoOn {
		said += fmt.Sprintf("; --from %s goes on", next)
		if r.behind > 0 {
			said += fmt.Sprintf(", and writes %d once more", r.behind)
		}
	}
	return fmt.Errorf("%w; %s", err, said)
}
