package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// listing is what `duewheel dlq ls` was asked for.
type listing struct {
	choice
	output string
	limit  int
}

func newDLQListCommand(f *flags) *cobra.Command {
	var o listing
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List dead letters, and count them by code",
		Long: `Print a line for each dead letter: one topic and partition after the other, each in the
order of its log, up to the end as it is now. Only what is committed is read. The last
line counts them by code; with -o json, where each line is an object, it goes to stderr.`,
		Example: "  duewheel dlq ls -c duewheel.yaml --since 1h --code unknown_target\n" +
			"  duewheel dlq ls -b localhost:9092 -t delay-requests.dead -H trace=abc -o json",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			want, err := o.filter(cmd, time.Now())
			if o.limit < 0 {
				err = joinLines(err, fmt.Errorf("--limit %d: at least 1, and 0 for all", o.limit))
			}
			if err := joinLines(err, checkOutput(o.output), checkPlaces(o.from)); err != nil {
				return err
			}
			return o.withLetters(f, func(l *letters) error {
				return o.run(cmd.Context(), l, want, cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		},
	}
	o.addTopics(cmd)
	o.addFilters(cmd)
	cmd.Flags().IntVar(&o.limit, "limit", 0, "end after so many; 0: all")
	addOutput(cmd, &o.output)
	return cmd
}

func addOutput(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "text, or json: an object a line")
}

func checkOutput(output string) error {
	if output != "text" && output != "json" {
		return fmt.Errorf("-o %s: text or json", output)
	}
	return nil
}

// checkPlaces says what is wrong with the form of places; empty ones were not given.
func checkPlaces(all ...string) error {
	var errs []error
	for _, text := range all {
		if _, err := parsePlace(text); err != nil && text != "" {
			errs = append(errs, err)
		}
	}
	return joinLines(errs...)
}

// open returns the spans that a choice is in, and says which topics are not there.
func (c *choice) open(ctx context.Context, l *letters, want filter, stderr io.Writer) ([]span, error) {
	all, missing, err := l.spans(ctx, len(c.topics) > 0)
	if err != nil {
		return nil, err
	}
	for _, topic := range missing {
		fmt.Fprintf(stderr, "note: %s does not exist; `duewheel topics create` makes it\n", topic)
	}
	if c.from != "" {
		from, err := l.resolve(c.from)
		if err != nil {
			return nil, err
		}
		if note := noteBeyond(all, from); note != "" {
			fmt.Fprintln(stderr, note)
		}
		if all, err = onwards(all, from); err != nil {
			return nil, err
		}
	}
	return all, l.since(ctx, all, want.since)
}

func (o *listing) run(ctx context.Context, l *letters, want filter, stdout, stderr io.Writer) error {
	all, err := o.open(ctx, l, want, stderr)
	if err != nil {
		return err
	}
	var t table = &textTable{w: cutting(stdout)}
	summary := stdout
	if o.output == "json" {
		t, summary = &jsonTable{newJSON(stdout)}, stderr
	}
	var codes tally
	var next *position
	others, err := l.each(ctx, all, func(found *letter) error {
		if !want.takes(found) {
			return nil
		}
		if o.limit > 0 && codes.total == o.limit {
			at := found.place()
			next = &at
			return errEnough
		}
		codes.add(string(found.Refusal.Code))
		return t.row(found)
	})
	if err := cmp.Or(t.end(), err); err != nil {
		return err
	}
	if others > 0 {
		fmt.Fprintln(stderr, noteOthers(others))
	}
	if codes.total == 0 {
		fmt.Fprintln(summary, o.none())
	} else {
		fmt.Fprintln(summary, countLetters(&codes))
	}
	if next != nil {
		fmt.Fprintf(stderr, "note: there are more than --limit %d; --from %s goes on\n", o.limit, next)
	}
	return nil
}

// countLetters says how many there are: 12 dead letters: 10 unknown_target, 2 no_due.
func countLetters(t *tally) string {
	return topics.Plural(t.total, "dead letter") + ": " + t.String()
}

// table takes dead letters one after the other.
type table interface {
	row(*letter) error
	end() error
}

// textTable sets its columns for some hundred rows at a time, so that it need not hold all of them.
type textTable struct {
	w    io.Writer
	t    *aligned
	rows int
}

const rowsAtOnce = 200

func (t *textTable) row(l *letter) error {
	if t.rows%rowsAtOnce == 0 {
		if err := t.end(); err != nil {
			return err
		}
		t.t = newAligned(t.w)
		fmt.Fprintln(t.t, "PLACE\tWRITTEN\tCODE\tTARGET\tREQUEST\tKEY\tMESSAGE")
	}
	t.rows++
	target := "-"
	if l.target != "" {
		target = brief([]byte(l.target), 60)
	}
	_, err := fmt.Fprintf(t.t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.place(), formatTime(l.record.Timestamp), visible(string(l.Refusal.Code)), target,
		l.request(), brief(l.record.Key, 24), l.why())
	return err
}

// why is the message, and before it the header to blame, as a Refusal says it.
func (l *letter) why() string {
	if name, _, _ := strings.Cut(l.Blamed, "="); name != "" {
		return "header " + visible(name) + ": " + visible(l.Refusal.Message)
	}
	return visible(l.Refusal.Message)
}

func (t *textTable) end() error {
	if t.t == nil {
		return nil
	}
	return t.t.Flush()
}

// jsonTable writes an object a line.
type jsonTable struct{ enc *json.Encoder }

func (t *jsonTable) row(l *letter) error { return t.enc.Encode(rowOf(l)) }
func (t *jsonTable) end() error          { return nil }

// letterRow is a dead letter as -o json prints it. Times are ms since the epoch.
type letterRow struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Offset    int64      `json:"offset"`
	Timestamp int64      `json:"timestamp"`
	Code      string     `json:"code"`
	Stage     string     `json:"stage,omitempty"`
	Message   string     `json:"message"`
	Header    string     `json:"header,omitempty"` // to blame, name=value
	Attempts  int        `json:"attempts"`
	Instance  string     `json:"instance,omitempty"`
	Cut       string     `json:"cut,omitempty"`
	Target    string     `json:"target,omitempty"`
	Request   requestRow `json:"request"`
	Key       *string    `json:"key"` // null, also where it is not text
	KeyBytes  []byte     `json:"key_base64,omitempty"`
	ValueSize int        `json:"value_size"`
}

type requestRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`    // -1: not known
	Timestamp int64  `json:"timestamp"` // -1: not known
}

func rowOf(l *letter) letterRow {
	row := letterRow{
		Topic: l.record.Topic, Partition: l.record.Partition, Offset: l.record.Offset, Timestamp: l.record.Timestamp.UnixMilli(),
		Code: string(l.Refusal.Code), Stage: string(l.Refusal.Stage), Message: l.Refusal.Message, Header: l.Blamed,
		Attempts: l.Attempts, Instance: l.Instance, Cut: l.Cut, Target: l.target,
		Request:   requestRow{l.Topic, l.Partition, l.Letter.Offset, l.Letter.Timestamp},
		ValueSize: len(l.record.Value),
	}
	row.Key, row.KeyBytes = textOrBytes(l.record.Key)
	return row
}

// textOrBytes splits what may be anything into what JSON has a form for; both are nil for null.
func textOrBytes(b []byte) (text *string, raw []byte) {
	if b == nil {
		return nil, nil
	}
	if utf8.Valid(b) {
		s := string(b)
		return &s, nil
	}
	return nil, b
}

// headerRow is one header.
type headerRow struct {
	Name  string  `json:"name"`
	Value *string `json:"value"` // null, also where it is not text
	Bytes []byte  `json:"value_base64,omitempty"`
}

func headerRows(headers []kgo.RecordHeader) []headerRow {
	rows := make([]headerRow, len(headers))
	for i, h := range headers {
		rows[i].Name = h.Key
		rows[i].Value, rows[i].Bytes = textOrBytes(h.Value)
	}
	return rows
}
