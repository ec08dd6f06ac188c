package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

func newCancelCommand(f *flags) *cobra.Command {
	var topic string
	var noCheck bool
	cmd := &cobra.Command{
		Use:   "cancel -t <delay topic> <handle>...",
		Short: "Cancel records that wait to be delivered",
		Long: `Write a record for each handle that cancels the one that it names, to the partition that
the handle says. It is honoured if it is read before that record's turn has begun, some ms
after it was written; one that comes too late changes nothing. The metric
duewheel_cancels_total tells what became of it, and on routes with on_unknown_cancel:
dead_letter a dead letter tells of one in vain. With a configuration (-c) the topic has to
be the delay topic of a route.`,
		Example: "  duewheel cancel -b localhost:9092 -t delay-requests 3-8812-1767225605123",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cancelAll(cmd.Context(), f, order{topic: topic, noCheck: noCheck}, args, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&topic, "topic", "t", "", "delay topic")
	cmd.Flags().BoolVar(&noCheck, "no-check", false, "write to the topic even if it is not that of a route (-c)")
	_ = cmd.MarkFlagRequired("topic")
	return cmd
}

func cancelAll(ctx context.Context, f *flags, o order, handles []string, stdout io.Writer) error {
	var records []*kgo.Record
	var errs []error
	for _, text := range handles {
		h, ok := topics.ParseHandle([]byte(text))
		if !ok {
			errs = append(errs, fmt.Errorf("%q is not a handle: <partition>-<offset>-<due in ms since 1970>, as `duewheel produce` prints it", text))
			continue
		}
		records = append(records, &kgo.Record{Topic: o.topic, Partition: h.Partition, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(h.String())}}})
	}
	if err := joinLines(errs...); err != nil {
		return err
	}
	cl, s, err := f.connect(kgo.RecordDeliveryTimeout(produceTimeout), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	switch route, err := o.route(s, f.file); {
	case err != nil:
		return err
	case route != nil && route.Delay > 0:
		return fmt.Errorf("the route of %s has a fixed delay: its records wait in the order of the log, and cannot be cancelled", o.topic)
	}
	if err := cl.Ping(ctx); err != nil {
		return fmt.Errorf("reach %s: %w", strings.Join(s.Brokers, ","), err)
	}
	for _, r := range records {
		o.partition = r.Partition
		errs = append(errs, o.checkPartition(ctx, cl))
	}
	if err := joinLines(errs...); err != nil {
		return err
	}
	failed := map[*kgo.Record]error{}
	for _, r := range cl.ProduceSync(ctx, records...) { // in the order in which they were answered
		failed[r.Record] = r.Err
	}
	for _, r := range records {
		if err := failed[r]; err != nil {
			errs = append(errs, fmt.Errorf("cancel %s: %w", r.Headers[0].Value, o.explain(err)))
			continue
		}
		fmt.Fprintf(stdout, "%s/%d@%d, asks to cancel %s\n", r.Topic, r.Partition, r.Offset, r.Headers[0].Value)
	}
	return errors.Join(errs...)
}
