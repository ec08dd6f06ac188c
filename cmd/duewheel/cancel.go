package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/topics"
)

func newCancelCommand(f *flags) *cobra.Command {
	var topic, key string
	var noCheck, asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel <handle or id>...",
		Short: "Cancel records that wait to be delivered",
		Long: `Write a record for each handle or id that cancels the one that it names, to the partition
that the handle says. It is honoured if it is read before that record's turn has begun,
some ms after it was written; one that comes too late changes nothing. The metric
duewheel_cancels_total tells what became of it, and on routes with on_unknown_cancel:
dead_letter a dead letter tells of a handle in vain; so does ` + "`duewheel get`" + `. With a
configuration (-c) the topic has to be the delay topic of a route, and -t can be left out
where there is one only.

An id may wait in any partition: a cancel that does not find it is passed on to all
others. With the key of the record that has the id (-k) it is found at once.`,
		Example: `  duewheel cancel -b localhost:9092 -t delay-requests 3-8812-1767225605123
  duewheel cancel -b localhost:9092 -t delay-requests reminder-17 -k 17`,
		Args: someNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := topicNames(cmd, "topic"); err != nil {
				return err
			}
			o := order{topic: topic, noCheck: noCheck, key: key, hasKey: cmd.Flags().Changed("key"), partition: -1, asJSON: asJSON}
			return cancelAll(cmd.Context(), f, o, args, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&topic, "topic", "t", "", "delay topic; without it the one of the configuration")
	cmd.Flags().StringVarP(&key, "key", "k", "", "key of the records that have the ids, whose partition is asked first")
	cmd.Flags().BoolVar(&noCheck, "no-check", false, "write to the topic even if it is not that of a route (-c)")
	objectsFlag(cmd.Flags(), &asJSON)
	return cmd
}

func cancelAll(ctx context.Context, f *flags, o order, names []string, stdout io.Writer) error {
	var records []*kgo.Record
	var errs []error
	if err := o.chooseTopic(f); err != nil {
		return err
	}
	for _, name := range names {
		if len(topics.Bare([]byte(name))) == 0 {
			errs = append(errs, fmt.Errorf("%q is neither a handle nor an id", name))
			continue
		}
		r := o.cancel(name)
		if q, err := new(topics.Parser).Parse(r.Headers, topics.StampOf(r), 0, topics.Mark{}); err != nil {
			errs = append(errs, err)
		} else if q.NamedID == nil {
			r.Partition, r.Key = q.Handle.Partition, nil
		}
		records = append(records, r)
	}
	if len(errs) == 0 && o.hasKey && !slices.ContainsFunc(records, isUnplaced) {
		errs = append(errs, errors.New("--key is that of records that have an id, and a handle says by itself where its record lies"))
	}
	if err := joinLines(errs...); err != nil {
		return err
	}
	cl, s, err := f.connect(append(answeredWithin(produceTimeout), kgo.RecordPartitioner(producer.Partitioner()))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	route, err := o.route(s, f.file)
	switch {
	case err != nil:
		return err
	case route != nil && route.Delay > 0:
		return fmt.Errorf("the route of %s has a fixed delay: its records wait in the order of the log, and cannot be cancelled", o.topic)
	case route != nil && route.Retry != nil && slices.ContainsFunc(records, isUnplaced):
		return fmt.Errorf("the route of %s is one for retries, whose records have no ids: cancel them by their handles", o.topic)
	case route != nil && route.Keyed && !o.hasKey:
		for _, r := range records {
			if isUnplaced(r) {
				r.Key = r.Headers[0].Value // it is the id
			}
		}
	}
	if err := reach(ctx, cl, s.Brokers); err != nil {
		return err
	}
	checked := map[int32]bool{}
	for _, r := range records {
		if route != nil {
			r.Headers[0].Key = route.Header(topics.HeaderCancel)
		}
		if o.partition = r.Partition; !checked[r.Partition] {
			checked[r.Partition] = true
			errs = append(errs, o.checkPartition(ctx, cl))
		}
	}
	if err := joinLines(errs...); err != nil {
		return err
	}
	takes := entranceOf(ctx, cl, o.topic).takes
	for len(records) > 0 {
		n := fitting(records, takes)
		errs = o.writeCancels(ctx, cl, records[:n], stdout)
		if records = records[n:]; len(errs) > 0 {
			break
		}
	}
	if len(errs) > 0 && len(records) > 0 {
		errs = append(errs, fmt.Errorf("%s behind these not written", topics.Plural(len(records), "cancel")))
	}
	return errors.Join(errs...)
}

// fitting is how many of the first records can be in one batch, and at least one: the client bounds no batch by what the topic takes.
func fitting(records []*kgo.Record, takes int) int {
	size := 0
	for i, r := range records {
		size += topics.RecordSize(r.Key, r.Value, r.Headers)
		if size > takes && i > 0 {
			return i
		}
	}
	return len(records)
}

// writeCancels waits until each is answered, and confirms those that are written.
func (o *order) writeCancels(ctx context.Context, cl *kgo.Client, records []*kgo.Record, stdout io.Writer) (errs []error) {
	failed := map[*kgo.Record]error{}
	for _, r := range cl.ProduceSync(ctx, records...) { // in the order in which they were answered
		failed[r.Record] = r.Err
	}
	for _, r := range records {
		if err := failed[r]; err != nil {
			errs = append(errs, fmt.Errorf("cancel %s: %w", r.Headers[0].Value, o.explain(err)))
			continue
		}
		what := string(r.Headers[0].Value)
		c := confirmation{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Cancels: string(topics.Bare(r.Headers[0].Value))}
		h, handle := topics.ParseHandle(bytes.Trim(topics.Bare(r.Headers[0].Value), " \t\r\n"))
		if handle {
			what = h.String()
			c.Cancels = what
		} else {
			where := ""
			if r.Key == nil {
				where = ", in whatever partition a replica finds it"
			}
			what = "the id " + visible(what) + where + hintAtHandle(what)
		}
		c.says = "asks to cancel " + what
		if err := c.print(stdout, o.asJSON); err != nil {
			return append(errs, err)
		}
	}
	return errs
}

// isUnplaced reports whether a cancel names an id, and so no partition.
func isUnplaced(r *kgo.Record) bool { return r.Partition == producer.AnyPartition }

// cancel is a record that cancels what has a name, in no partition yet. Only a key has a say in which one; of an id alone any will do.
func (o *order) cancel(name string) *kgo.Record {
	r := &kgo.Record{Topic: o.topic, Partition: producer.AnyPartition, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(name)}}}
	if o.hasKey {
		r.Key = []byte(o.key)
	}
	return r
}
