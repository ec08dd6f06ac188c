package main

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// explanation is what `duewheel explain` was asked.
type explanation struct {
	topic     string
	key       string
	hasKey    bool
	nullValue bool
	timestamp string
	headers   []string
	hexed     []string
	partition int32
	offset    int64
}

func newExplainCommand(f *flags) *cobra.Command { return explainCommand(f, time.Now) }

// explainCommand takes what time it is, and where, from now.
func explainCommand(f *flags, now func() time.Time) *cobra.Command {
	var e explanation
	cmd := &cobra.Command{
		Use:   "explain -H <name>=<value> ...",
		Short: "Say what a request means, without writing it",
		Long: `Say how each header of a request is understood, when that would be due, where it would
go, and whether the route allows that. Nothing is written, and no broker is asked.

With a configuration (-c) it is judged by the route of the topic; with several routes -t
names it. Without one, the headers are read as a route reads them that says nothing of
them. What would be dead-lettered ends with an error, and with the code that its dead
letter would have.`,
		Example: `  duewheel explain -H delay-until=2027-01-01T09:00+01:00 -H delay-target-topic=orders -c duewheel.yaml
  duewheel explain -H delay-for='2 days, 0:00:05'
  duewheel explain --hex retry_topic-backoff-timestamp=019b76dabc03 -c duewheel.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := joinLines(topicNames(cmd, "topic"), notEmpty(cmd, "timestamp"), chosenPartition(cmd, int(e.partition)), e.checkOffset()); err != nil {
				return err
			}
			e.hasKey = cmd.Flags().Changed("key")
			return e.run(f, cmd.OutOrStdout(), now().Truncate(time.Millisecond)) // as the timestamp of a record is
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.StringArrayVarP(&e.headers, "header", "H", nil, "header, `name=value`, or a name alone for a null value; may be repeated")
	p.StringArrayVar(&e.hexed, "hex", nil, "header with its bytes in hex, `name=0000019b76dabc03`; may be repeated")
	p.StringVarP(&e.topic, "topic", "t", "", "delay topic; without it the one of the configuration")
	p.StringVarP(&e.key, "key", "k", "", "key; without it null")
	p.BoolVar(&e.nullValue, "null-value", false, "a null value")
	p.StringVar(&e.timestamp, "timestamp", "", "timestamp of the record, as delay-until has it; without it now")
	p.Int32VarP(&e.partition, "partition", "p", 0, "partition of the delay topic, which handles follow from")
	p.Int64Var(&e.offset, "offset", 0, "offset there")
	return cmd
}

func (e *explanation) checkOffset() error {
	if e.offset < 0 {
		return fmt.Errorf("--offset %d: an offset is a number from 0", e.offset)
	}
	return nil
}

// route is the one that the request is for; nil where there is no configuration.
func (e *explanation) route(f *flags) (*topics.Route, error) {
	s, err := f.load()
	if err != nil || len(s.Routes) == 0 {
		return nil, err
	}
	want, err := s.expectation()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range want.Routes {
		if r.Topic == e.topic || e.topic == "" && len(want.Routes) == 1 {
			return r, nil
		}
		names = append(names, r.Topic)
	}
	if e.topic == "" {
		return nil, fmt.Errorf("the configuration has several routes: name one with -t, %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("%s is not the delay topic of any route of the configuration; those are %s", e.topic, orNone(names))
}

// record is the request, as it would be written at now.
func (e *explanation) record(now time.Time) (*kgo.Record, error) {
	r := &kgo.Record{Topic: e.topic, Partition: e.partition, Offset: e.offset, Timestamp: now, Value: []byte{}}
	if e.nullValue {
		r.Value = nil
	}
	if e.hasKey {
		r.Key = []byte(e.key)
	}
	if e.timestamp != "" {
		at, err := readInstant("timestamp", e.timestamp, "milliseconds since 1970")
		if err != nil {
			return nil, err
		}
		r.Timestamp = at
	}
	for _, h := range e.headers {
		name, v, has := strings.Cut(h, "=") // as kcat does
		if name == "" {
			return nil, fmt.Errorf("-H %s: a header has a name", h)
		}
		header := kgo.RecordHeader{Key: name}
		if has {
			header.Value = []byte(v)
		}
		r.Headers = append(r.Headers, header)
	}
	for _, h := range e.hexed {
		name, digits, _ := strings.Cut(h, "=")
		v, err := hex.DecodeString(strings.TrimPrefix(digits, "0x"))
		if err != nil || name == "" {
			return nil, fmt.Errorf("--hex %s: it is name=, and two hexadecimal digits for each byte", h)
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: v})
	}
	return r, nil
}

// run writes what the request means to out. now says what time it is, and in its location what here is.
func (e *explanation) run(f *flags, out io.Writer, now time.Time) error {
	route, err := e.route(f)
	if err != nil {
		return err
	}
	r, err := e.record(now)
	if err != nil {
		return err
	}
	parser, err := topics.ParserFor(topics.Spec(0))
	if err != nil {
		return err
	}
	if route != nil {
		parser = route.Parser()
	}
	w := explainer{Writer: out, now: now, route: route, parser: parser, record: r}
	w.readings()
	return w.verdict()
}

// explainer writes what a request means, a line for each thing.
type explainer struct {
	io.Writer
	now    time.Time
	route  *topics.Route // nil: not known
	parser *topics.Parser
	record *kgo.Record
}

func (w *explainer) line(what, format string, args ...any) {
	fmt.Fprintf(w, "%-10s %s\n", what, fmt.Sprintf(format, args...))
}

func (w *explainer) readings() {
	all := w.parser.Readings(w.record.Headers, topics.StampOf(w.record))
	for _, h := range w.record.Headers {
		if len(all) == 0 || all[0].Name != h.Key { // they are in the order of the headers
			w.line("header", "%s=%s   means nothing to duewheel%s", visible(h.Key), brief(h.Value, 60), hintAtColon(h))
			continue
		}
		r := all[0]
		all = all[1:]
		said := []string{}
		if r.By != topics.NoPreset {
			stands := "of the preset " + r.By.String()
			if r.For != "" {
				stands += ", stands for " + w.parser.Name(r.For)
			}
			said = append(said, stands)
		}
		if r.Wrap != topics.Unwrapped {
			said = append(said, r.Wrap.String())
		}
		if r.Form != 0 {
			said = append(said, r.Form.String())
		}
		if r.Note != "" {
			said = append(said, r.Note)
		}
		w.line("header", "%s=%s%s%s", visible(r.Name), brief(r.Value, 60), behind(strings.Join(said, "; ")), hintAtColon(h))
	}
}

// hintAtColon says more of a header that is written as HTTP has them: all of it is a name then.
func hintAtColon(h kgo.RecordHeader) string {
	name, value, has := strings.Cut(h.Key, ":")
	if !has || h.Value != nil {
		return ""
	}
	return "; did you mean " + visible(name) + "=" + visible(strings.TrimSpace(value)) + "?"
}

// behind puts what there is to say behind something else.
func behind(said string) string {
	if said == "" {
		return ""
	}
	return "   " + said
}

// verdict says what becomes of the request: an error when it would be dead-lettered.
func (w *explainer) verdict() error {
	mark := topics.NewMark([4]byte{}, "", w.record.Partition)
	q, err := w.parser.Parse(w.record.Headers, topics.StampOf(w.record), w.record.Offset, mark)
	var refusal *topics.Refusal
	if errors.As(err, &refusal) {
		return findings{fmt.Errorf("it would be dead-lettered: %w", refusal)}
	}
	if err != nil {
		return err
	}
	switch {
	case q.Kind == topics.KindCancel:
		w.line("asks", "to cancel %s%s", nameOf(&q), hintAtHandle(string(q.NamedID)))
		return nil
	case q.Kind != topics.KindRequest:
		w.line("asks", "for nothing: it is a record that duewheel writes for itself")
		return nil
	}
	q.Due, q.Jitter = q.AskedFor(), 0 // its jitter follows from the id of the topic, too
	w.when(&q)
	w.where(&q)
	if w.route == nil {
		if refusal := new(topics.Route).Expired(&q, q.Due, w.now.UnixMilli()); refusal != nil {
			return findings{fmt.Errorf("it would be dead-lettered: %w", refusal)}
		}
		w.line("allowed", "not known: no configuration (-c) has the route")
		return nil
	}
	if refusal := refusedBy(w.route, &q, w.now.UnixMilli()); refusal != nil {
		w.line("allowed", "no")
		return findings{fmt.Errorf("it would be dead-lettered: %w", refusal)}
	}
	w.line("allowed", "yes: %s", w.why(&q))
	return nil
}

// pauses says how long a retry route waits with a request: what its jitter makes of that depends on where the record lies.
func pauses(p *topics.Parser, q *topics.Request) string {
	least, most := topics.Pauses(p, q)
	said := func(ms int64) string { return topics.FormatDelay(time.Duration(ms) * time.Millisecond) }
	if least == most {
		return said(least)
	}
	return said(least) + " to " + said(most)
}

// when says at what time the record is due, and up to when it is of use.
func (w *explainer) when(q *topics.Request) {
	if q.AtOnce {
		w.line("due", "%s after it has come, as the backoff of the route is", pauses(w.parser, q))
	} else {
		w.line("due", "%s", w.instant(q.Due))
		if w.route != nil && w.route.Jitter > 0 {
			w.line("jitter", "up to %s later", topics.FormatDelay(w.route.Jitter))
		}
	}
	if q.Expires > 0 {
		w.line("expires", "%s", w.instant(q.Expires))
	}
	if w.route != nil && w.route.ExpireAfter > 0 {
		w.line("expires", "%s after it was due", topics.FormatDelay(w.route.ExpireAfter))
	}
}

// instant is one in UTC, in local time, and from now on.
func (w *explainer) instant(millis int64) string {
	at := time.UnixMilli(millis).In(w.now.Location())
	text := at.UTC().Format("2006-01-02T15:04:05.000Z")
	if _, offset := at.Zone(); offset != 0 {
		text += ", here " + at.Format("2006-01-02 15:04:05.000 -07:00 MST")
	} else {
		text += ", here the same"
	}
	return text + ", " + rounded(at, w.now)
}

// where says which route it is, where the record goes, and which other one it names.
func (w *explainer) where(q *topics.Request) {
	if w.route != nil {
		w.line("route", "%s", w.route.Topic)
	}
	switch {
	case len(q.Target) > 0:
		w.line("target", "%s%s", q.Target, w.partition(q))
	case w.route == nil:
		w.line("target", "that of the route")
	}
	if q.HasKey {
		w.line("key", "%s", brief(q.Key, 60))
	} else {
		w.line("key", "%s", brief(w.record.Key, 60))
	}
	switch {
	case q.Replaces:
		w.line("replaces", "%s%s", nameOf(q), hintAtHandle(string(q.NamedID)))
	case len(q.ID) > 0:
		w.line("id", "%s; if another record with it is pending, this one %s", brief(q.ID, 60), map[topics.OnDuplicate]string{
			topics.DuplicateRejected: "is dead-lettered", topics.DuplicateReplaces: "takes its place", topics.DuplicateIgnored: "is left out",
		}[q.OnDuplicate])
	}
}

// partition says how the partition of the target is chosen.
func (w *explainer) partition(q *topics.Request) string {
	switch {
	case q.Partition >= 0:
		return fmt.Sprintf(", partition %d", q.Partition)
	case w.route == nil:
		return ""
	case w.route.Partitioner == topics.PartitionerSource:
		return ", the same partition as in " + w.route.Topic
	}
	return ", by " + w.route.Partitioner.String() + " of the key"
}

// why says what allows the target.
func (w *explainer) why(q *topics.Request) string {
	target := string(q.Target)
	if target == w.route.Target {
		return "it is the target of the route"
	}
	return "targets.allow has " + cmp.Or(w.route.AllowedBy(target), target)
}
