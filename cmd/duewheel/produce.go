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

	"github.com/duewheel/duewheel/topics"
)

// produceTimeout bounds how long one record may wait for its acknowledgement.
const produceTimeout = 30 * time.Second

// order is what `duewheel produce` was asked to send.
type order struct {
	topic       string
	partition   int32
	to          string
	toKey       string
	toPartition int32
	wait, until string
	key, value  string
	nullValue   bool
	headers     []string
	noCheck     bool

	hasKey, hasValue bool
}

func newProduceCommand(f *flags) *cobra.Command {
	var o order
	cmd := &cobra.Command{
		Use:   "produce -t <delay topic> (--for <duration> | --until <time>)",
		Short: "Ask for a record to be delivered later",
		Long: `Write a request to a delay topic. Without -v every line of the standard input becomes
the value of a record.

What the request says is checked first, and against the route too where the settings
have one for the topic; --no-check sends it as it is.`,
		Example: `  duewheel produce -b localhost:9092 -t delay-requests --to orders --for 5m -k 17 -v hello -H trace=abc
  duewheel produce -b localhost:9092 -t delay-requests --to orders --until 2027-01-01T09:00:00+01:00 < values.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.hasKey, o.hasValue = cmd.Flags().Changed("key"), cmd.Flags().Changed("value")
			return produce(cmd.Context(), f, o, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.StringVarP(&o.topic, "topic", "t", "", "delay topic")
	p.StringVar(&o.to, "to", "", "target topic; without it the route's own")
	p.StringVar(&o.wait, "for", "", "deliver after this time, such as 5m, 1d or PT30S")
	p.StringVar(&o.until, "until", "", "deliver at this time, RFC 3339 or the seconds or milliseconds since 1970")
	p.StringVarP(&o.key, "key", "k", "", "key; without it null")
	p.StringVarP(&o.value, "value", "v", "", "value; without it every line of the standard input")
	p.BoolVar(&o.nullValue, "null-value", false, "a null value (a tombstone for a compacted target)")
	p.StringArrayVarP(&o.headers, "header", "H", nil, "header, `name=value`; may be repeated")
	p.Int32VarP(&o.partition, "partition", "p", -1, "partition of the delay topic; -1: by key")
	p.StringVar(&o.toKey, "to-key", "", "key of the delivered record; without it the same")
	p.Int32Var(&o.toPartition, "to-partition", -1, "partition of the target topic; -1: by key")
	p.BoolVar(&o.noCheck, "no-check", false, "send even what would be refused")
	_ = cmd.MarkFlagRequired("topic")
	cmd.MarkFlagsMutuallyExclusive("for", "until")
	cmd.MarkFlagsMutuallyExclusive("value", "null-value")
	return cmd
}

func produce(ctx context.Context, f *flags, o order, stdin io.Reader, stdout io.Writer) error {
	more := []kgo.Opt{kgo.RecordDeliveryTimeout(produceTimeout)}
	if o.partition >= 0 {
		more = append(more, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	cl, s, err := f.connect(more...)
	if err != nil {
		return err
	}
	defer cl.Close()
	check, err := o.checker(s)
	if err != nil {
		return err
	}
	if err := cl.Ping(ctx); err != nil {
		return fmt.Errorf("reach %s: %w", strings.Join(s.Brokers, ","), err)
	}
	if o.hasValue || o.nullValue {
		return o.sendOne(ctx, cl, []byte(o.value), check, stdout)
	}
	return o.sendLines(ctx, cl, stdin, check, stdout)
}

// checkFunc tells when a record would be due and where it would go, or why it would be refused.
type checkFunc func(*kgo.Record) (topics.Request, error)

// checker goes by the topic's route, or by what holds for every route where the settings have none.
func (o *order) checker(s settings) (checkFunc, error) {
	if o.noCheck {
		return nil, nil
	}
	for _, r := range s.Routes {
		if r.Topic != o.topic {
			continue
		}
		route, err := topics.NewRoute(r.route())
		if err != nil {
			return nil, err
		}
		return func(r *kgo.Record) (topics.Request, error) {
			q, err := route.Parser().Parse(r.Headers, r.Timestamp.UnixMilli(), 0, topics.Mark{})
			if err != nil {
				return q, err
			}
			if refusal := route.Refuse(&q, r.Timestamp.UnixMilli()); refusal != nil {
				return q, refusal
			}
			return q, nil
		}, nil
	}
	parser, err := topics.ParserFor(topics.Spec(0))
	if err != nil {
		return nil, err
	}
	return func(r *kgo.Record) (topics.Request, error) {
		return parser.Parse(r.Headers, r.Timestamp.UnixMilli(), 0, topics.Mark{})
	}, nil
}

// record is the request for one value.
func (o *order) record(value []byte, now time.Time) *kgo.Record {
	r := &kgo.Record{Topic: o.topic, Partition: o.partition, Timestamp: now, Value: value}
	if o.nullValue {
		r.Value = nil
	}
	if o.hasKey {
		r.Key = []byte(o.key)
	}
	header := func(name, v string) {
		if v != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(v)})
		}
	}
	header(topics.HeaderFor, o.wait)
	header(topics.HeaderUntil, o.until)
	header(topics.HeaderTargetTopic, o.to)
	header(topics.HeaderTargetKey, o.toKey)
	if o.toPartition >= 0 {
		header(topics.HeaderTargetPartition, strconv.Itoa(int(o.toPartition)))
	}
	for _, h := range o.headers {
		// As kcat does: at the first equals sign, and a name alone has a null value.
		name, v, ok := strings.Cut(h, "=")
		rh := kgo.RecordHeader{Key: name}
		if ok {
			rh.Value = []byte(v)
		}
		r.Headers = append(r.Headers, rh)
	}
	return r
}

func (o *order) sendOne(ctx context.Context, cl *kgo.Client, value []byte, check checkFunc, stdout io.Writer) error {
	r := o.record(value, time.Now())
	when := ""
	if check != nil {
		q, err := check(r)
		if err != nil {
			return err
		}
		due := time.UnixMilli(q.Due)
		when = fmt.Sprintf(", due %s (in %v)", due.UTC().Format("2006-01-02T15:04:05.000Z"), max(0, due.Sub(r.Timestamp)).Round(time.Millisecond))
		if len(q.Target) > 0 {
			when += " to " + string(q.Target)
		}
	}
	if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
		return o.explain(err)
	}
	_, err := fmt.Fprintf(stdout, "%s/%d@%d%s\n", r.Topic, r.Partition, r.Offset, when)
	return err
}

// sendLines sends a record a line. The first that is refused or not acknowledged ends it.
func (o *order) sendLines(ctx context.Context, cl *kgo.Client, stdin io.Reader, check checkFunc, stdout io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := bufio.NewScanner(stdin)
	lines.Buffer(nil, 64<<20)
	sent := 0
	for lines.Scan() && ctx.Err() == nil {
		r := o.record([]byte(lines.Text()), time.Now())
		if check != nil {
			if _, err := check(r); err != nil {
				cancel(fmt.Errorf("line %d: %w", sent+1, err))
				break
			}
		}
		sent++
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				cancel(o.explain(err))
			}
		})
	}
	if err := cl.Flush(ctx); err != nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read values: %w", err)
	}
	_, err := fmt.Fprintf(stdout, "%d records to %s\n", sent, o.topic)
	return err
}

func (o *order) explain(err error) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("produce to %s: %w; `duewheel topics create` makes the topics of a configuration", o.topic, err)
	}
	return fmt.Errorf("produce to %s: %w", o.topic, err)
}
