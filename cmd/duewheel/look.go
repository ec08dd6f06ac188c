package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/setting"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// wallClock is the time that due times are told from, in the zone in which they are shown.
var wallClock = time.Now

// outlook is which pending records a command was asked for, as its flags say it.
type outlook struct {
	topics        []string
	partitions    []int
	targets       []string
	after, before string
	key, id       string
	hasKey        bool // key is one, even if it is empty
	output        string

	from, to time.Time // zero: no bound
}

func (o *outlook) addFlags(cmd *cobra.Command) {
	p := cmd.Flags()
	p.SortFlags = false
	p.StringSliceVarP(&o.topics, "topic", "t", nil, "only these delay `topics`; without it those of the configuration")
	p.IntSliceVarP(&o.partitions, "partition", "p", nil, "only these `partitions`")
	p.StringSliceVar(&o.targets, "target", nil, "only what is for one of these target `topics`")
	p.StringVar(&o.after, "after", "", "only what is due at or after this `time`, in any form that delay-until takes, or so far from now, such as 2h or -10m")
	p.StringVar(&o.before, "before", "", "only what is due before this `time`")
	p.StringVarP(&o.key, "key", "k", "", "only records with this key")
	p.StringVar(&o.id, "id", "", "only records whose id begins so")
	addOutput(cmd, &o.output)
}

// check reads the flags. The error names everything that is wrong with them.
func (o *outlook) check(cmd *cobra.Command, now time.Time) (err error) {
	var errs []error
	o.hasKey = cmd.Flags().Changed("key")
	for _, bound := range []struct {
		flag, text string
		t          *time.Time
	}{{"after", o.after, &o.from}, {"before", o.before, &o.to}} {
		*bound.t, err = moment(bound.flag, bound.text, now)
		errs = append(errs, err)
	}
	if !o.from.IsZero() && !o.to.IsZero() && !o.from.Before(o.to) {
		errs = append(errs, fmt.Errorf("--after %s is not before --before %s: nothing is due between them", o.after, o.before))
	}
	for _, p := range o.partitions {
		if p < 0 {
			errs = append(errs, fmt.Errorf("--partition %d: a partition is a number from 0", p))
		}
	}
	return joinLines(append(errs, checkOutput(o.output), topicNames(cmd, "topic", "target"), notEmpty(cmd, "partition", "after", "before", "id"))...)
}

// moment reads a time, or how far from now it is.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	digits, negative := strings.CutPrefix(text, "-")
	if !negative {
		digits = strings.TrimPrefix(text, "+")
	}
	d, err := setting.Duration(digits)
	if err != nil { // also of what has a sign left
		return readInstant(flag, text, "how far from now, such as 90s, 2h or -10m")
	}
	if negative {
		d = -d
	}
	return now.Add(d), nil
}

// readInstant reads a time in any form that delay-until takes. What else it may be is said where it is none.
func readInstant(flag, text, or string) (time.Time, error) {
	millis, err := topics.ReadInstant([]byte(text))
	if err != nil {
		var why *topics.Refusal
		errors.As(err, &why)
		because := why.Message
		if why.Code == topics.CodeDueOutOfRange { // which speaks to those who write requests
			because = "as a time since 1970 it lies before 1973, or after 5138"
		}
		return time.Time{}, fmt.Errorf("--%s %q: a time such as 2027-01-01T09:00+01:00, or %s (%s)", flag, text, or, because)
	}
	return time.UnixMilli(millis), nil
}

// wants tells whether a request is one of those that were asked for, but for when it is due.
func (o *outlook) wants() func(*kgo.Record, *topics.Request) bool {
	return func(r *kgo.Record, q *topics.Request) bool {
		return (len(o.targets) == 0 || slices.Contains(o.targets, string(q.Target))) &&
			(!o.hasKey || string(r.Key) == o.key) &&
			(o.id == "" || strings.HasPrefix(string(q.ID), o.id))
	}
}

// filters tells whether only some of what is pending was asked for.
func (o *outlook) filters() bool {
	return o.hasKey || len(o.partitions)+len(o.targets)+len(o.after)+len(o.before)+len(o.id) > 0
}

// between tells whether a due time is one of those that were asked for.
func (o *outlook) between(due int64) bool {
	return (o.from.IsZero() || due >= o.from.UnixMilli()) && (o.to.IsZero() || due < o.to.UnixMilli())
}

// beyond ends the reading of a queue at what is due too late.
func (o *outlook) beyond() func(ahead.Pending, bool) bool {
	return func(last ahead.Pending, _ bool) bool { return !o.to.IsZero() && last.Due >= o.to.UnixMilli() }
}

// view is what looks at delay topics.
type view struct {
	*ahead.Looker
	cl         *kgo.Client
	settings   settings
	routes     map[string]*topics.Route // by topic
	partitions []partitionOf
	unseen     []error // of topics that were asked for, beside these partitions
	stderr     io.Writer
	one        bool                // it is about one record: what others will become need not be said
	others     map[string]auditRow // by the name of another group: what it has told last of the record that is looked up
}

// partitionOf is one partition of a delay topic.
type partitionOf struct {
	kafka.TopicPartition
	id kafka.TopicID
}

// withViewOf calls fn with what looks at one delay topic and one partition of it, or at all: no name, and a number below 0, are no choice.
func (f *flags) withViewOf(ctx context.Context, topic string, partition int, stderr io.Writer, fn func(*view) error, more ...kgo.Opt) error {
	var asked []string
	if topic != "" {
		asked = []string{topic}
	}
	var only []int
	if partition >= 0 {
		only = []int{partition}
	}
	return f.withView(ctx, asked, only, stderr, fn, more...)
}

// withView calls fn with what looks at the partitions that were asked for.
func (f *flags) withView(ctx context.Context, asked []string, only []int, stderr io.Writer, fn func(*view) error, more ...kgo.Opt) error {
	cl, s, err := f.connect(more...)
	if err != nil {
		return err
	}
	defer cl.Close()
	if s.Group == "" {
		return errNoGroup
	}
	debug.SetGCPercent(leastGarbage) // most of what is held stays
	filled := s
	setting.Fill(&filled)
	v := &view{cl: cl, settings: s, routes: map[string]*topics.Route{}, stderr: stderr}
	v.Looker = &ahead.Looker{Client: cl, Group: s.Group, Identity: s.Identity, Skew: filled.MaxClockSkew, Now: wallClock(), Route: func(topic string) *topics.Route { return v.routes[topic] }}
	if err := v.open(ctx, asked, only); err != nil {
		return err
	}
	return fn(v)
}

// leastGarbage is how much garbage may be there beside what is held, in percent: half of Go's default, which takes a fifth more.
const leastGarbage = 50

// open finds the partitions, and the routes that the configuration has for them. A topic that cannot be looked at keeps no other one from being so.
func (v *view) open(ctx context.Context, asked []string, only []int) error {
	var configured []string
	if len(v.settings.Routes) > 0 {
		want, err := v.settings.expectation()
		if err != nil {
			return err
		}
		for _, r := range want.Routes {
			v.routes[r.Topic] = r
			configured = append(configured, r.Topic)
		}
	}
	names := asked
	if len(names) == 0 {
		names = configured
	}
	if len(names) == 0 {
		return errors.New("which delay topic? Name a configuration that has routes with -c, or the topic with -t")
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if err := reach(ctx, v.cl, v.settings.Brokers); err != nil {
		return err
	}
	details, err := listTopics(ctx, newPatient(v.cl), names...)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var errs []error
	for _, name := range names {
		d := details[name]
		switch {
		case errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			v.unseen = append(v.unseen, fmt.Errorf("the topic %s does not exist%s", name, v.another(name, configured)))
			continue
		case d.Err != nil:
			v.unseen = append(v.unseen, v.advise(fmt.Errorf("topic %s: %w", name, d.Err), name))
			continue
		case v.routes[name] == nil && len(configured) > 0:
			fmt.Fprintf(v.stderr, "note: %s is not the delay topic of any route of the configuration; those are %s\n", name, strings.Join(configured, ", "))
		case v.routes[name] == nil:
			fmt.Fprintf(v.stderr, "note: no configuration (-c) has the route of %s: what of it would be refused is not known\n", name)
		}
		for _, p := range d.Partitions.Numbers() {
			if len(only) == 0 || slices.Contains(only, int(p)) {
				v.partitions = append(v.partitions, partitionOf{kafka.TopicPartition{Topic: name, Partition: p}, kafka.TopicID(d.ID)})
			}
		}
		for _, p := range only {
			if p >= len(d.Partitions) {
				errs = append(errs, fmt.Errorf("%s has no partition %d, only 0 to %d", name, p, len(d.Partitions)-1))
			}
		}
	}
	if len(errs) == 0 && len(v.partitions) > 0 {
		return nil
	}
	return joinLines(append(v.unseen, errs...)...)
}

// topics are the delay topics that are looked at, with commas between them.
func (v *view) topics() string {
	var names []string
	for _, p := range v.partitions {
		names = append(names, p.Topic)
	}
	return strings.Join(slices.Compact(names), ", ")
}

// another says what may have been meant by a topic that is not there.
func (v *view) another(name string, configured []string) string {
	if slices.Contains(configured, name) {
		return "; `duewheel topics create` makes it"
	}
	if near := nearest(name, configured); near != "" && advice(name, near, near) != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// advise adds to an error about a topic what can be done about it.
func (v *view) advise(err error, topic string) error {
	var given *state.GivenError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &given): // of all partitions, so that it is said once
		return fmt.Errorf("checkpoints of %s: %w", topic, given)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return askForGroup(err, v.Group)
	case errors.Is(err, kerr.TopicAuthorizationFailed): // and so is this
		return askFor("Read", fmt.Errorf("topic %s: %w", topic, kerr.TopicAuthorizationFailed), topic)
	case errors.Is(err, state.ErrNotOurs):
		return fmt.Errorf("%w: is %s the group that runs there (-g)? If so, `duewheel checkpoints` tells what is committed, and `duewheel checkpoints reset` chooses the way on", err, v.Group)
	case errors.Is(err, ahead.ErrBeyondLog):
		return fmt.Errorf("%w: records that were accepted are gone; `duewheel run --accept-loss` goes on from where the log was cut", err)
	}
	return err // of an unknown version or parser it says itself what to do
}

// atOnceRead is how many partitions are read at the same time: what is read takes memory.
const atOnceRead = 2

// longLook is after what time it is said that what was found is of that long ago.
const longLook = 5 * time.Second

// each looks at all partitions, and calls fn with what was found of each, one at a time. The error tells of all that could not be looked
// at; fn was called for the others.
func (v *view) each(ctx context.Context, fn func(*ahead.Looked)) error {
	bar := newBar(v.stderr)
	defer bar.end()
	v.Progress = bar.add
	work := make(chan partitionOf)
	var mu sync.Mutex
	all := problemsOf{errs: slices.Clone(v.unseen)}
	var wg sync.WaitGroup
	for range min(atOnceRead, len(v.partitions)) {
		wg.Go(func() {
			for p := range work {
				got, err := v.Look(ctx, p.TopicPartition, p.id)
				mu.Lock()
				if err != nil {
					all.fail(v.advise(err, p.Topic))
				} else {
					all.note(got, v)
					fn(got)
				}
				mu.Unlock()
			}
		})
	}
	for _, p := range v.partitions {
		if ctx.Err() == nil {
			work <- p
		}
	}
	close(work)
	wg.Wait()
	bar.end()
	all.tell(v.stderr, v.Group)
	if took := wallClock().Sub(v.Now); took >= longLook {
		fmt.Fprintf(v.stderr, "note: that took %s; times are told from %s, when it began\n", span2(took), zoned(v.Now))
	}
	slices.SortFunc(all.errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return cmp.Or(ctx.Err(), joinLines(all.errs...))
}

// problemsOf is what is to be said of partitions besides what is pending.
type problemsOf struct {
	errs              []error
	fresh, anew, lost []string
	open              []string
	refused           int
	unrouted          bool // some of these are of a topic whose route is not known
}

// fail takes in what is wrong with a partition: once what is wrong with all of them, as a right to the group that is missing.
func (n *problemsOf) fail(err error) {
	if !slices.ContainsFunc(n.errs, func(e error) bool { return e.Error() == err.Error() }) {
		n.errs = append(n.errs, err)
	}
}

func (n *problemsOf) note(got *ahead.Looked, v *view) {
	name := got.TopicPartition.String()
	if got.Open {
		n.open = append(n.open, name)
	}
	if !v.one && got.Refused() > 0 {
		n.refused, n.unrouted = n.refused+got.Refused(), n.unrouted || v.routes[got.Topic] == nil
	}
	switch {
	case got.Anew:
		n.anew = append(n.anew, name)
	case got.Fresh && got.Bounds.High > got.Bounds.Start:
		n.fresh = append(n.fresh, name)
	case got.Lost:
		n.lost = append(n.lost, name)
	}
}

func (n *problemsOf) tell(w io.Writer, group string) {
	say := func(names []string, text string) {
		if len(names) == 0 {
			return
		}
		slices.Sort(names)
		which := strings.Join(names, ", ")
		if len(names) > 5 {
			which = strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", len(names)-5)
		}
		fmt.Fprintf(w, "note: %s: %s\n", which, text)
	}
	say(n.fresh, "the group "+group+" has committed nothing there, so all that the log holds counts as new (-g chooses another group)")
	say(n.anew, "the checkpoint is of a topic that was deleted; all that the log holds counts as new")
	say(n.lost, "the log has lost records that were pending (its beginning was deleted, or compacted); what is left is shown")
	say(n.open, "a transaction is open there for long: what lies in it or behind it is not read yet, by replicas neither")
	if n.refused > 0 {
		unless := ""
		if n.unrouted {
			unless = ", unless their route, which is not known (-c), understands them"
		}
		fmt.Fprintf(w, "note: %s that no replica has read yet will be dead-lettered%s: `duewheel get` tells why, and `duewheel dlq ls` when it is done\n", topics.Plural(n.refused, "request"), unless)
	}
}
