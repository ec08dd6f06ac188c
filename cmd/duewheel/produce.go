package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/topics"
)

// produceTimeout bounds how long one record may wait for its acknowledgement.
const produceTimeout = 30 * time.Second

// answeredWithin has a client answer for each record within some time, or soon after it, also for one that a broker has been sent and said nothing
// of, which is then not tried again: without that a client waits for such a broker for ever.
func answeredWithin(limit time.Duration) []kgo.Opt {
	return []kgo.Opt{kgo.RecordDeliveryTimeout(limit), kgo.AllowIdempotentProduceCancellation()}
}

func newProduceCommand(f *flags) *cobra.Command {
	var o order
	cmd := &cobra.Command{
		Use:   "produce (--for <duration> | --until <time>)",
		Short: "Ask for a record to be delivered later",
		Long: `Write a request to a delay topic, which -t names where a configuration (-c) does not have
one alone. Without -v every line of the standard input becomes the value of a record.

What the request says is checked first. With a configuration (-c) it is checked against the
route of the topic too, and whether the target is there; without one, the route's own
target and what it allows are not known. --no-check sends the request as it is. Each
record is confirmed with its partition, its offset, when it is due, and its handle, by which
it can be cancelled or replaced until then; with -o json as an object a line, with dead_lettered
where it will be, and why.`,
		Example: `  duewheel produce -b localhost:9092 -t delay-requests --to orders --for 5m -k 17 -v hello -H trace=abc
  duewheel produce -c duewheel.yaml -t delay-requests --to orders --until 2027-01-01T09:00+01:00 < values.txt`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := joinLines(topicNames(cmd, "topic"), notEmpty(cmd, "to", "to-key", "for", "until", "id", "replace"), atMostOne(cmd, "for", "until"), atMostOne(cmd, "value", "null-value"), o.checkFlags()); err != nil {
				return err
			}
			if err := o.chooseTopic(f); err != nil {
				return err
			}
			o.hasKey, o.hasValue = cmd.Flags().Changed("key"), cmd.Flags().Changed("value")
			return produce(cmd.Context(), f, o, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.StringVarP(&o.topic, "topic", "t", "", "delay topic; without it the one of the configuration")
	p.StringVar(&o.to, "to", "", "target topic; without it the route's own")
	p.StringVar(&o.wait, "for", "", "deliver after this `delay`, in any form that delay-for takes, such as 5m, 1d or PT30S")
	p.StringVar(&o.until, "until", "", "deliver at this `time`, in any form that delay-until takes, such as 2027-01-01T09:00+01:00")
	p.StringVarP(&o.key, "key", "k", "", "key; without it null")
	p.StringVarP(&o.value, "value", "v", "", "value; without it every line of the standard input")
	p.BoolVar(&o.nullValue, "null-value", false, "a null value (a tombstone for a compacted target)")
	p.StringArrayVarP(&o.headers, "header", "H", nil, "header, `name=value`, or a name alone for a null value; may be repeated")
	p.Int32VarP(&o.partition, "partition", "p", -1, "partition of the delay topic; without it by key")
	p.StringVar(&o.toKey, "to-key", "", "key of the delivered record; without it the same")
	p.StringVar(&o.id, "id", "", "id, of which at most one record waits in a partition; without it none")
	p.StringVar(&o.replace, "replace", "", "take the place of the pending record with this `handle` or id, or be dead-lettered when there is none")
	p.Int32Var(&o.toPartition, "to-partition", -1, "partition of the target topic; without it by key")
	p.BoolVar(&o.noCheck, "no-check", false, "send even what would be refused")
	objectsFlag(p, &o.asJSON)
	return cmd
}

func produce(ctx context.Context, f *flags, o order, stdin io.Reader, stdout, stderr io.Writer) error {
	if in := o.handled(); in >= 0 && o.partition < 0 {
		o.partition = in
	}
	more := append(answeredWithin(produceTimeout), kgo.ProducerBatchMaxBytes(96<<20)) // how large is for the broker to say
	if o.partition >= 0 {
		more = append(more, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	cl, s, err := f.connect(more...)
	if err != nil {
		return err
	}
	defer cl.Close()
	p := production{order: &o, cl: cl, stdout: stdout}
	if p.route, err = o.route(s, f.file); err != nil {
		return err
	}
	o.of = p.route
	if p.parser, err = topics.ParserFor(topics.Spec(0)); err != nil {
		return err
	}
	if p.route != nil {
		p.parser = p.route.Parser()
	}
	if err := reach(ctx, cl, s.Brokers); err != nil {
		return err
	}
	if !o.noCheck {
		notes, err := o.check(ctx, cl, p.parser, p.route)
		if err != nil {
			return err
		}
		for _, note := range notes {
			fmt.Fprintln(stderr, "note:", note)
		}
	}
	p.into = entranceOf(ctx, cl, o.topic)
	if o.hasValue || o.nullValue {
		return p.send(ctx, func(_ context.Context, yield func([]byte) bool) error { yield([]byte(o.value)); return nil })
	}
	if isScreen(stdin) {
		fmt.Fprintln(stderr, "each line is the value of a record; Ctrl-D ends")
	}
	err = p.send(ctx, func(ctx context.Context, yield func([]byte) bool) error { return readLines(ctx, stdin, yield) })
	fmt.Fprintf(stderr, "%s written to %s\n", topics.Plural(p.written, "record"), o.topic)
	return err
}

// entrance is what a topic does with what is written to it.
type entrance struct {
	stamps bool // brokers write the timestamps (LogAppendTime)
	takes  int  // the largest batch, in bytes
}

// entranceOf asks for it; what brokers do not tell is as it is by default.
func entranceOf(ctx context.Context, cl *kgo.Client, topic string) entrance {
	e := entrance{takes: kafka.DefaultMaxBytes}
	all, _ := newPatient(cl).DescribeTopicConfigs(ctx, topic)
	for _, r := range all {
		for _, c := range r.Configs {
			switch c.Key {
			case "message.timestamp.type":
				e.stamps = c.MaybeValue() == "LogAppendTime"
			case "max.message.bytes":
				if n, err := strconv.Atoi(c.MaybeValue()); err == nil {
					e.takes = n
				}
			}
		}
	}
	return e
}

// production is one order being carried out.
type production struct {
	order  *order
	cl     *kgo.Client
	route  *topics.Route // nil: not known
	parser *topics.Parser
	stdout io.Writer
	into   entrance
	size   int // of what may not have been answered yet

	// The client calls one acknowledgement after the other; read after a flush.
	written int
	err     error
}

// print prints it as it was asked for: as a line, or as an object on a line.
func (c confirmation) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return newJSON(w).Encode(c)
	}
	_, err := fmt.Fprintln(w, c)
	return err
}

// send writes a record for each value and waits until each has been answered. After the first that
// is not acknowledged no more are begun. What has been handed over is always waited for, so that every
// record that may be in the topic is accounted for; each is answered within produceTimeout, or soon after it.
func (p *production) send(ctx context.Context, values func(ctx context.Context, yield func([]byte) bool) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err := values(ctx, func(value []byte) bool {
		r := p.order.record(value, time.Now())
		p.makeRoom(ctx, topics.RecordSize(r.Key, r.Value, r.Headers))
		p.cl.Produce(context.WithoutCancel(ctx), r, func(r *kgo.Record, err error) {
			if err == nil {
				p.written++
				err = p.order.confirm(r, p.parser, p.route, p.into.stamps).print(p.stdout, p.order.asJSON)
			} else {
				err = p.order.explain(err)
			}
			if err != nil && p.err == nil {
				p.err = err
				stop()
			}
		})
		return ctx.Err() == nil
	})
	if flushed := p.cl.Flush(context.WithoutCancel(ctx)); err == nil {
		err = flushed
	}
	if p.err != nil {
		return p.err
	}
	return err
}

// makeRoom waits until a record can be in one batch with all that has not been answered: the client bounds no batch by what the topic takes,
// since a larger record may fit as it is compressed.
func (p *production) makeRoom(ctx context.Context, size int) {
	if p.size+size > p.into.takes {
		_ = p.cl.Flush(context.WithoutCancel(ctx)) // each is answered within produceTimeout
		p.size = 0
	}
	p.size += size
}

// readLines calls yield for each line until it returns false. It does not wait for a line that may
// never come when ctx ends: the reader is left to the end of the process then.
func readLines(ctx context.Context, from io.Reader, yield func([]byte) bool) error {
	lines, ended := make(chan []byte), make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		s := bufio.NewScanner(from)
		s.Buffer(nil, 64<<20)
		for s.Scan() {
			select {
			case lines <- append([]byte{}, s.Bytes()...):
			case <-ctx.Done():
				return
			}
		}
		ended <- s.Err()
	}()
	for {
		select {
		case line := <-lines:
			if !yield(line) {
				return nil
			}
		case err := <-ended:
			if err != nil {
				err = fmt.Errorf("read values: %w", err)
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (o *order) explain(err error) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("produce to %s: %w; `duewheel topics create` makes the topics of a configuration", o.topic, err)
	}
	if refused := (*kerr.Error)(nil); !errors.As(err, &refused) {
		return fmt.Errorf("produce to %s: %w; no broker says what became of the record, which may be there or not (`duewheel ls` lists what waits)", o.topic, err)
	}
	return askToWrite(fmt.Errorf("produce to %s: %w", o.topic, err), o.topic)
}

// besideCancel says which flags are of no use, as a header has the record cancel.
func (o *order) besideCancel() []string {
	var flags []string
	for _, set := range []struct{ flag, v string }{{"--for", o.wait}, {"--until", o.until}, {"--to", o.to}, {"--to-key", o.toKey}, {"--id", o.id}, {"--replace", o.replace}} {
		if set.v != "" {
			flags = append(flags, set.flag)
		}
	}
	if len(flags) == 0 {
		return nil
	}
	return []string{"a record that cancels does nothing else: " + strings.Join(flags, ", ") + " passed over"}
}
