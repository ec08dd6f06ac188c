package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/topics"
)

// rescheduling is what `duewheel reschedule` and `deliver-now` were asked for.
type rescheduling struct {
	topic       string
	only        int
	wait, until string
	asJSON      bool
}

func (o *rescheduling) addFlags(cmd *cobra.Command) {
	p := cmd.Flags()
	p.SortFlags = false
	p.StringVarP(&o.topic, "topic", "t", "", "delay topic; without it those of the configuration")
	p.IntVarP(&o.only, "partition", "p", -1, "look for an id in this partition only")
	jsonFlag(p, &o.asJSON)
}

func newRescheduleCommand(f *flags) *cobra.Command {
	var o rescheduling
	cmd := &cobra.Command{
		Use:   "reschedule <handle or id> --until <time> | --for <delay>",
		Short: "Have a record that waits delivered at another time",
		Long: `Read the record that a handle or an id names, and write it again with another due time,
to take the place of the first one (delay-replace). Key, value and all headers that ask for
nothing stay as they are; whatever it asks for, the new one does. It is honoured if it is
read before the first one's turn has begun; else it is dead-lettered as too_late, unless its
route delivers it all the same.`,
		Example: "  duewheel reschedule -c duewheel.yaml 3-8812-1767225605123 --for 2h\n  duewheel reschedule -c duewheel.yaml reminder-17 --until 2027-01-01T09:00:00+01:00",
		Args:    oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := joinLines(topicNames(cmd, "topic"), partitionOfName(cmd, o.only, args[0]), atMostOne(cmd, "for", "until"), notEmpty(cmd, "for", "until"), checkName(args[0]), (&order{wait: o.wait, until: o.until}).checkRequest())
			if o.wait == "" && o.until == "" {
				err = joinLines(err, errors.New("when? Give --until or --for"))
			}
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), f, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.until, "until", "", "the new due `time`, in any form that delay-until takes")
	cmd.Flags().StringVar(&o.wait, "for", "", "the new `delay`, from now on, in any form that delay-for takes")
	return cmd
}

func newDeliverNowCommand(f *flags) *cobra.Command {
	var o rescheduling
	cmd := &cobra.Command{
		Use:   "deliver-now <handle or id>",
		Short: "Have a record that waits delivered at once",
		Long: `Read the record that a handle or an id names, and write it again, due now, to take the
place of the first one (delay-replace). The same as reschedule with the time that it is; where
the route has a jitter, with one before that by so much.`,
		Example: "  duewheel deliver-now -c duewheel.yaml 3-8812-1767225605123",
		Args:    oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := joinLines(topicNames(cmd, "topic"), partitionOfName(cmd, o.only, args[0]), checkName(args[0])); err != nil {
				return err
			}
			return o.run(cmd.Context(), f, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd)
	return cmd
}

// replacePatience is how long is looked whether a record that a handle names waits still.
const replacePatience = 5 * time.Second

func (o *rescheduling) run(ctx context.Context, f *flags, name string, stdout, stderr io.Writer) error {
	return f.withViewOf(ctx, o.topic, o.only, stderr, func(v *view) error {
		found, err := v.named(ctx, name, replacePatience)
		if err != nil {
			return err
		}
		one, err := v.onlyOne(name, found)
		if err != nil {
			return err
		}
		r, err := o.replacement(v, one)
		if err != nil {
			return err
		}
		return o.send(ctx, v, one, r, stdout)
	}, append(answeredWithin(produceTimeout), kgo.ProducerBatchMaxBytes(96<<20), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
}

// onlyOne is what waits under a name, if one record does and can be replaced.
func (v *view) onlyOne(name string, found []*foundRecord) (*foundRecord, error) {
	one := found[0]
	if len(found) > 1 {
		return nil, fmt.Errorf("%s records with the id %s wait, in several partitions: choose one with -p, or by its handle (`duewheel get %s`)", strconv.Itoa(len(found)), name, name)
	}
	if one.record == nil {
		return nil, fmt.Errorf("%s has left the log meanwhile", name)
	}
	if one.other || one.fate.State != ahead.IsPending {
		_, text := v.says(one)
		return nil, findings{fmt.Errorf("%s does not wait: %s", name, text)}
	}
	if route := v.routes[one.got.Topic]; one.blind && (route == nil || route.ReplacesLate) {
		return nil, fmt.Errorf("whether %s waits is not known: what lies before it was not read within %v, and may have its id, or be what it replaces. Its route delivers a replacement whatever it finds (on_late_replace), or is not known (-c)",
			name, replacePatience/2)
	}
	if route := v.routes[one.got.Topic]; !one.whole() && (route == nil || route.ReplacesLate) {
		return nil, fmt.Errorf("whether %s still waits is not known: the last %s of the log were not read within %v, and one may have cancelled it. Its route delivers a replacement whatever it finds (on_late_replace), or is not known (-c)",
			name, count(one.end-one.to, "record"), replacePatience)
	}
	spec := ""
	if all := one.got.Checkpoint().Parsers; len(all) > 0 {
		spec = all[len(all)-1].Spec
	}
	switch route := v.routes[one.got.Topic]; {
	case route != nil && route.Delay > 0, topics.FixedDelay(spec):
		return nil, fmt.Errorf("the route of %s has a fixed delay: its records wait in the order of the log, and none takes the place of another", one.got.Topic)
	case route != nil && route.Retry != nil, strings.HasPrefix(spec, "r"):
		return nil, fmt.Errorf("the route of %s is one for retries, whose backoff says when a record is due; it can be cancelled (`duewheel cancel`)", one.got.Topic)
	}
	return one, nil
}

// replacement is the record that takes the place of another one. It asks for the same by our own headers, whichever the other one asks by.
func (o *rescheduling) replacement(v *view, one *foundRecord) (*kgo.Record, error) {
	r, mark, reader := one.record, one.got.Mark(), one.got.Parser(one.got.Bounds.High)
	parser := topics.ParserOf(one.got.Parser(r.Offset), r.Headers, r.Offset, &mark)
	var q topics.Request
	err := parser.Again(&q, r.Headers, topics.StampOf(r), one.fate.Due, r.Offset, &mark)
	if err != nil {
		return nil, err
	}
	as := &kgo.Record{Topic: one.got.Topic, Partition: one.got.TopicPartition.Partition, Key: r.Key, Value: r.Value, Timestamp: time.Now()}
	name := v.handleOf(one).String()
	if q.ID != nil {
		name = string(q.ID)
	}
	due := kgo.RecordHeader{Key: topics.HeaderUntil, Value: []byte(o.until)}
	switch {
	case o.wait != "":
		due = kgo.RecordHeader{Key: topics.HeaderFor, Value: []byte(o.wait)}
	case o.until == "":
		if route := v.routes[as.Topic]; route != nil && route.ExpireAfter > 0 && route.Jitter > route.ExpireAfter {
			return nil, fmt.Errorf("%s cannot be delivered at once: it would have to be due before now by the jitter of its route, and expire_after is less; `duewheel reschedule --for 0s` has it delivered within %v",
				v.handleOf(one), route.Jitter)
		}
		due = topics.DueNow(reader, as.Timestamp.UnixMilli())
	}
	written, _, _ := mark.Written(r.Headers, r.Offset)
	as.Headers = reader.Renew(parser, &q, written, name, due)
	return as, v.asksForTheSame(one, &q, as)
}

// asksForTheSame judges a replacement as a replica will: it takes the place of one record, and differs in nothing but when it is due.
func (v *view) asksForTheSame(one *foundRecord, q *topics.Request, as *kgo.Record) error {
	high := one.got.Bounds.High
	again, err := one.got.Parser(high).Parse(as.Headers, topics.StampOf(as), high, one.got.Mark())
	if err != nil {
		return fmt.Errorf("with that time it would be dead-lettered: %w", err)
	}
	if route := v.routes[as.Topic]; route != nil {
		if refusal := refusedBy(route, &again, as.Timestamp.UnixMilli()); refusal != nil {
			return fmt.Errorf("with that time it would be dead-lettered: %w", refusal)
		}
	}
	names := again.NamedID == nil && again.Here && again.Handle == v.handleOf(one) || q.ID != nil && string(again.NamedID) == string(q.ID)
	if !again.Replaces || !names || string(again.ID) != string(q.ID) || string(again.Target) != string(q.Target) ||
		again.HasKey != q.HasKey || string(again.Key) != string(q.Key) || again.Partition != q.Partition || again.Expires != q.Expires {
		return fmt.Errorf("%s cannot be written again: by its route of today a record cannot ask for the same as this one; it can be cancelled (`duewheel cancel`)", v.handleOf(one))
	}
	return nil
}

// send writes a replacement.
func (o *rescheduling) send(ctx context.Context, v *view, one *foundRecord, r *kgo.Record, stdout io.Writer) error {
	if err := v.cl.ProduceSync(ctx, r).FirstErr(); err != nil {
		return (&order{topic: r.Topic}).explain(err)
	}
	said := (&order{topic: r.Topic}).confirm(r, one.got.Parser(one.got.Bounds.High), v.routes[r.Topic], entranceOf(ctx, v.cl, r.Topic).stamps)
	said.Replaces = v.handleOf(one).String()
	said.says += "; takes the place of " + said.Replaces
	return said.print(stdout, o.asJSON)
}
