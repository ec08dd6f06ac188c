package main

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/topics"
)

// getting is what `duewheel get` was asked for.
type getting struct {
	topic    string
	only     int
	as       string
	output   string
	audit    string
	patience time.Duration
	shows
}

const defaultPatience = 700 * time.Millisecond

// forLog is how long the log is searched: a third of all patience is left for the audit topic, where there is one.
func (o *getting) forLog(audit string) time.Duration {
	if audit == "" {
		return o.patience
	}
	return o.patience * 2 / 3
}

// forAudit is how long the audit topic is read when finding the record has taken a time.
func (o *getting) forAudit(audit string, spent time.Duration) time.Duration {
	return o.patience - min(spent, o.forLog(audit))
}

func newGetCommand(f *flags) *cobra.Command {
	var o getting
	cmd := &cobra.Command{
		Use:   "get <handle or id>",
		Short: "Show a record, and what has become of it",
		Long: `Print the record that a handle or an id names: its headers and how each was understood,
its key and value, and what has become of it, as far as the log, the checkpoint of the
group and, where there is one, the audit topic tell. It writes nothing.

A handle is answered at once, whatever is pending. What may have cancelled or replaced
the record lies behind it in the log, and is looked for as long as --patience lets it.
An id is looked for in everything that may be pending.`,
		Example: "  duewheel get -c duewheel.yaml 3-8812-1767225605123\n  duewheel get -b localhost:9092 -g duewheel -t delay-requests reminder-17 -o json",
		Args:    oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := joinLines(topicNames(cmd, "topic", "audit"), partitionOfName(cmd, o.only, args[0]), textOnly(cmd, o.output, "as"), o.check(args[0])); err != nil {
				return err
			}
			return f.withViewOf(cmd.Context(), o.topic, o.only, cmd.ErrOrStderr(), func(v *view) error {
				audit := cmp.Or(o.audit, v.settings.AuditTopic)
				if o.patience == 0 {
					audit = ""
				}
				began := time.Now()
				found, failed := v.named(cmd.Context(), args[0], o.forLog(audit))
				until := time.Now().Add(o.forAudit(audit, time.Since(began)))
				if told := v.auditOfRemoved(cmd.Context(), audit, failed, until); told != nil {
					return o.showRemoved(cmd.OutOrStdout(), v, told)
				}
				if audit != "" && errors.Is(failed, errUnknownID) {
					failed = fmt.Errorf("%w; the audit topic tells ids beside handles%s", failed, searchFor(args[0], v.settings.Brokers, audit))
				}
				for i, one := range found {
					auditing{v}.lookUp(cmd.Context(), audit, one, until)
					if i > 0 && o.output == "text" {
						fmt.Fprintln(cmd.OutOrStdout())
					}
					if err := o.show(cmd.OutOrStdout(), v, one); err != nil {
						return err
					}
				}
				return failed
			})
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.StringVarP(&o.topic, "topic", "t", "", "delay topic; without it those of the configuration")
	p.IntVarP(&o.only, "partition", "p", -1, "look for an id in this partition only")
	p.StringVar(&o.as, "as", "auto", "show the value as text, json or hex; auto: what it is")
	p.StringVar(&o.audit, "audit", "", "audit `topic`; without it that of the configuration")
	lengthFlag(p, &o.patience, "patience", defaultPatience, "how long to look for what has cancelled or replaced it; 0: not at all")
	addOutput(cmd, &o.output)
	o.addTo(cmd)
	return cmd
}

func (o *getting) check(name string) error {
	var errs []error
	if !slices.Contains([]string{"auto", "text", "json", "hex"}, o.as) {
		errs = append(errs, fmt.Errorf("--as %s: auto, text, json or hex", o.as))
	}
	if o.audit != "" && o.patience == 0 {
		errs = append(errs, errors.New("--audit and --patience 0: what is read takes time"))
	}
	return joinLines(append(errs, checkOutput(o.output), checkName(name))...)
}

// checkName says what is wrong with a handle or an id.
func checkName(name string) error {
	switch {
	case len(topics.Bare([]byte(name))) == 0: // null is what tools print for what is not there
		return fmt.Errorf("%q is neither a handle nor an id", name)
	case len(name) > topics.MostID:
		return fmt.Errorf("%q… is no id: one has %d bytes at most, and this has %d", name[:40], topics.MostID, len(name))
	}
	return nil
}

// recordRow is a record as -o json prints it. Times are ms since the epoch.
type recordRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Handle    string `json:"handle,omitempty"`
	State     string `json:"state"` // pending, overdue, late, arriving, delivered, resolved, cancelled, replaced, retried, dead_lettered or no_request
	Says      string `json:"says"`  // the same in words
	Due       int64  `json:"due,omitempty"`
	Timestamp int64  `json:"timestamp,omitempty"`
	Target    string `json:"target,omitempty"`

	By         *int64 `json:"by,omitempty"` // the offset of what has cancelled, replaced or carried it on, or of what is resolved may have
	NextDue    int64  `json:"next_due,omitempty"`
	Guess      bool   `json:"guess,omitempty"` // it was in time, as it seems
	SearchedTo int64  `json:"searched_to"`     // up to this offset
	LogEnd     int64  `json:"log_end"`

	Headers    []readHeaderRow `json:"headers"`
	Key        *string         `json:"key"` // null, also where it is not text
	KeyBytes   []byte          `json:"key_base64,omitempty"`
	Value      *string         `json:"value"`
	ValueBytes []byte          `json:"value_base64,omitempty"`
	Audit      []auditRow      `json:"audit,omitempty"`
}

// readHeaderRow is a header, and how it was understood.
type readHeaderRow struct {
	headerRow
	Means string `json:"means,omitempty"`
}

// states are the words for what has become of a record.
var states = map[ahead.State]string{
	ahead.IsPending: "pending", ahead.IsResolved: "resolved", ahead.IsCancelled: "cancelled", ahead.IsReplaced: "replaced",
	ahead.IsCarriedOn: "retried", ahead.IsDeadLettered: "dead_lettered",
}

// says tells what has become of a record, in a word and in words.
func (v *view) says(one *foundRecord) (state, text string) {
	fate := one.fate
	if one.other {
		return "no_request", "no request: it cancels another one, or duewheel has written it for itself"
	}
	due := time.UnixMilli(fate.Due).In(v.Now.Location())
	by := fmt.Sprintf("offset %d", fate.By)
	if one.by != nil && fate.Due > topics.AtOnce {
		by += ", written " + before(one.by.Timestamp, due)
	}
	state = states[fate.State]
	switch fate.State {
	case ahead.IsPending:
		w := fate.Waits
		state = stateOf(spot{due: w.Due, late: w.Late, atOnce: w.AtOnce}, v.Now)
		text = "pending, due " + zoned(due) + ", " + relative(due, v.Now)
		switch {
		case w.AtOnce:
			text = "pending; no replica has read it yet, which gives it its due time"
		case w.Late:
			text += "; delivered as soon as a replica reads it"
		case !w.Read && !one.got.Queue(): // with a fixed delay nothing says how far one has read
			text += "; no replica has read it yet"
		}
		if expired := v.expired(one); expired != nil {
			text += "; will be dead-lettered: " + expired.Error()
		}
		if one.blind {
			text += "; unless it is a duplicate, or replaces nothing: what lies before it was not searched (--patience)"
		}
		if !one.whole() {
			text += unsearched(one.searched, "has taken it away")
		}
	case ahead.IsDeadLettered:
		switch {
		case fate.Refusal == nil:
			if text = "dead-lettered: `duewheel dlq ls` tells why"; v.mayBeIgnored(one) {
				text = "dead-lettered, or left out as a duplicate: `duewheel dlq ls` tells"
			}
		case fate.Read:
			text = "dead-lettered: " + fate.Refusal.Error()
		default:
			text = "will be dead-lettered: " + fate.Refusal.Error()
		}
	case ahead.IsCarriedOn:
		text = one.whyRetried(v) + ": offset " + fmt.Sprint(fate.By) + " stands for it, due " + zoned(time.UnixMilli(fate.NextDue).In(v.Now.Location()))
	case ahead.IsCancelled, ahead.IsReplaced:
		text = state + " by " + by
		if fate.Guess {
			text += ", and so in time, as it seems"
		}
		if !one.whole() {
			text += unsearched(one.searched, "says that it was resolved before")
		}
	default:
		if fate.Forgotten {
			text = "delivered, dead-lettered or taken away: it lies before all that is pending, and by which settings it was understood is not known any more"
			break
		}
		if fate.Taken {
			text = "taken away, or dead-lettered: it lies before all that is pending"
			if !one.whole() {
				text += "; or it was carried, or delivered before what is due earlier, and " + tellsUnsearched(one.searched)
			}
			break
		}
		text = "delivered, or dead-lettered"
		if v.mayBeIgnored(one) {
			text = "delivered, dead-lettered, or left out as a duplicate"
		}
		if fate.Due > topics.AtOnce {
			text += ": it was due " + zoned(due) + ", " + relative(due, v.Now)
		} else {
			text = "its backoff has begun, or is over: the record that tells it was not searched for (--patience)"
		}
		if fate.By > 0 {
			text += "; or else taken away by " + by + ", if no replica was there before"
		}
	}
	waits := fate.State == ahead.IsPending || fate.State == ahead.IsCarriedOn
	if last := outcomeOf(one.audit); last != nil && !(waits && last.Event == topics.AuditRetried.String()) { // what became of what was accepted is known here
		state, text = last.Event, "the audit topic says "+last.Event+last.more()
	}
	return state, text
}

// whyRetried says why another record stands for it.
func (one *foundRecord) whyRetried(v *view) string {
	if one.record != nil {
		if q, err := v.asked(one); err == nil && q.AtOnce {
			return "it came to a retry route"
		}
	}
	return "retried, since its target was in trouble"
}

// before says how long before a due time something was.
func before(t, due time.Time) string {
	if t.Before(due) {
		return span2(due.Sub(t)) + " before it was due"
	}
	return span2(t.Sub(due)) + " after it was due"
}

// show prints a record.
func (o *getting) show(w io.Writer, v *view, one *foundRecord) error {
	if one.record == nil {
		return fmt.Errorf("the record at offset %d has left the log meanwhile", one.fate.Offset)
	}
	r := one.record
	var readings []topics.Meaning
	mark := one.got.Mark()
	parser := topics.ParserOf(one.got.Parser(r.Offset), r.Headers, r.Offset, &mark)
	state, text := v.says(one)
	row := recordRow{Topic: one.got.Topic, Partition: one.got.TopicPartition.Partition, Offset: r.Offset, State: state, Says: text, Due: one.fate.Due, Timestamp: r.Timestamp.UnixMilli(),
		NextDue: one.fate.NextDue, Guess: one.fate.Guess, SearchedTo: one.to, LogEnd: one.end, Audit: one.audit, Headers: []readHeaderRow{}}
	if name, known := (auditing{v}).nameOf(one); known && (one.fate.Due > 0 || one.audit != nil) { // what is told of a handle shows that it is one
		row.Handle = name.String()
	}
	if row.Due == topics.AtOnce && one.fate.State != ahead.IsPending {
		row.Due, row.Handle = 0, "" // it is due as the record says that stands for it, which was not found
	}
	if one.fate.By > 0 {
		row.By = &one.fate.By
	}
	if !one.fate.Forgotten {
		readings = parser.Meanings(r.Headers, topics.StampOf(r), r.Offset, mark)
		if q, err := parser.Parse(r.Headers, topics.StampOf(r), r.Offset, mark); err == nil {
			row.Target = string(q.Target)
		}
	}
	for _, h := range r.Headers {
		hr := readHeaderRow{headerRow: headerRows([]kgo.RecordHeader{h})[0]}
		if len(readings) > 0 && readings[0].Header == h.Key && string(readings[0].Value) == string(h.Value) {
			hr.Means, readings = readings[0].Means, readings[1:]
		}
		row.Headers = append(row.Headers, hr)
	}
	if o.output == "json" {
		row.Key, row.KeyBytes = textOrBytes(r.Key)
		row.Value, row.ValueBytes = textOrBytes(r.Value)
		return newJSON(w).Encode(row)
	}
	return o.print(w, v, one, &row)
}

// print is for people.
func (o *getting) print(w io.Writer, v *view, one *foundRecord, row *recordRow) error {
	r, most := one.record, o.most(w)
	fmt.Fprintf(w, "%s/%d@%d, %s\n", row.Topic, row.Partition, r.Offset, writtenAt(r.Timestamp, v.Now))
	t := newDescription(w)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "  %s\t%s\n", name, textInLine(value, most))
		}
	}
	line("state", row.Says)
	line("handle", row.Handle)
	if one.fate.Due > topics.AtOnce {
		line("due", formatMillis(one.fate.Due))
	}
	line("target", row.Target)
	line("size", sizeText(int64(ahead.SizeOf(r))))
	printAudit(t, one.audit, v.Now.Location())
	if len(row.Headers) > 0 {
		fmt.Fprintln(t, "headers")
		for i, h := range r.Headers {
			text := inLine(h.Value, most)
			if m := row.Headers[i].Means; m != "" {
				text += "\t" + textInLine(m, most)
			}
			fmt.Fprintf(t, "  %s\t%s\n", textInLine(h.Key, most), text)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := showBytes(w, "key", r.Key, most); err != nil {
		return err
	}
	return o.showValue(w, r.Value)
}

// showValue prints the value in the form that was asked for.
func (o *getting) showValue(w io.Writer, b []byte) error {
	var text string
	var pretty bytes.Buffer
	switch {
	case o.as == "auto" || len(b) == 0:
		return showBytes(w, "value", b, o.most(w))
	case o.as == "hex":
		text = hex.Dump(b)
	case o.as == "json":
		if err := json.Indent(&pretty, b, "", "  "); err != nil {
			return fmt.Errorf("the value is no JSON: %w (--as text or hex)", err)
		}
		text = pretty.String()
	default: // text; what would do more to a terminal than be shown is replaced
		text = strings.Map(func(r rune) rune {
			if r == '\n' || r == '\t' || isShown(string(r), "") {
				return r
			}
			return '\ufffd'
		}, string(b))
	}
	text = strings.ReplaceAll(shortened(strings.TrimSuffix(text, "\n"), o.most(w)), "\n", "\n  ")
	_, err := fmt.Fprintf(w, "value (%s, %s)\n  %s\n", o.as, topics.Plural(len(b), "byte"), text)
	return err
}

// unsearched says that the last records of a log were not searched for one that does something.
func unsearched(s searched, does string) string {
	if s.left() == 1 {
		return "; unless the last record of the log " + does + ", which was not searched " + s.why()
	}
	return fmt.Sprintf("; unless one of the last %s of the log %s, which were not searched %s", count(s.left(), "record"), does, s.why())
}

// tellsUnsearched says that the last records of a log would tell more.
func tellsUnsearched(s searched) string {
	if s.left() == 1 {
		return "the last record of the log tells, which was not searched " + s.why()
	}
	return fmt.Sprintf("the last %s of the log tell, which were not searched %s", count(s.left(), "record"), s.why())
}
