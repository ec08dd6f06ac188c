package main

import (
	"bufio"
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/topics"
)

// pendingList is what `duewheel ls` was asked for.
type pendingList struct {
	outlook
	limit int
}

func newListCommand(f *flags) *cobra.Command {
	var o pendingList
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List what is pending, in the order in which it is due",
		Long: `Print a line for each record that is pending, in the order in which they are due. It
reads the group's checkpoints and the logs behind them, whether a replica runs or not;
it joins no group and writes nothing. It needs the rights to Read the delay topics and
to Describe the group. What is delivered meanwhile may still be in the list.`,
		Example: "  duewheel ls -c duewheel.yaml --before 1h\n" +
			"  duewheel ls -b localhost:9092 -g duewheel -t delay-requests --target orders --limit 0 -o json",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := wallClock()
			err := o.check(cmd, now)
			if o.limit < 0 {
				err = joinLines(err, fmt.Errorf("--limit %d: at least 1, and 0 for all", o.limit))
			}
			if err != nil {
				return err
			}
			return f.withView(cmd.Context(), o.topics, o.partitions, cmd.ErrOrStderr(), func(v *view) error {
				return o.run(cmd.Context(), v, cmd.OutOrStdout())
			})
		},
	}
	o.addFlags(cmd)
	cmd.Flags().IntVar(&o.limit, "limit", 100, "show so many of them; 0: all")
	return cmd
}

// spot is where a record lies that is shown, and when it is due.
type spot struct {
	due    int64
	key    int64 // its own due time
	offset int64 // where the log had it first
	place  int64 // where it lies
	of     int32 // which partition
	late   bool
	atOnce bool
}

// soonest are the spots that are due first, at most so many of them. In what order partitions were read has no say in which these are.
type soonest struct {
	most  int
	of    []*ahead.Looked // the partitions, as they were read
	spots []spot
}

func (s *soonest) compare(a, b spot) int {
	if a.due != b.due {
		return cmp.Compare(a.due, b.due)
	}
	return cmp.Or(compareNames(s.of[a.of], s.of[b.of]), cmp.Compare(a.offset, b.offset))
}

func (s *soonest) Len() int           { return len(s.spots) }
func (s *soonest) Less(i, j int) bool { return s.compare(s.spots[i], s.spots[j]) > 0 }
func (s *soonest) Swap(i, j int)      { s.spots[i], s.spots[j] = s.spots[j], s.spots[i] }
func (s *soonest) Push(x any)         { s.spots = append(s.spots, x.(spot)) }
func (s *soonest) Pop() any {
	last := s.spots[len(s.spots)-1]
	s.spots = s.spots[:len(s.spots)-1]
	return last
}

func (s *soonest) add(p spot) {
	switch {
	case len(s.spots) < s.most:
		heap.Push(s, p)
	case s.compare(p, s.spots[0]) < 0:
		s.spots[0] = p
		heap.Fix(s, 0)
	}
}

// inOrder returns them one after the other.
func (s *soonest) inOrder() func() (spot, bool) {
	slices.SortFunc(s.spots, s.compare)
	i := -1
	return func() (spot, bool) {
		if i++; i >= len(s.spots) {
			return spot{}, false
		}
		return s.spots[i], true
	}
}

func compareNames(a, b *ahead.Looked) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.TopicPartition.Partition, b.TopicPartition.Partition))
}

// counted is what was found, shown or not.
type counted struct {
	pending, overdue int64
	more             bool   // and there are more, which were not counted
	part             string // partOf
}

func (o *pendingList) run(ctx context.Context, v *view, stdout io.Writer) error {
	v.Chosen = o.wants()
	v.Enough = o.enough
	found := soonest{most: o.limit}
	var n counted
	var every []*spotsOf
	failed := v.each(ctx, func(got *ahead.Looked) {
		of, before := int32(len(found.of)), n.pending
		found.of = append(found.of, got)
		add := found.add
		if o.wide() {
			every = append(every, newSpotsOf(of, got))
			add = every[of].add
		}
		for p := range got.All() {
			if !o.between(p.Due) {
				continue
			}
			n.pending++
			if p.Due < v.Now.UnixMilli() {
				n.overdue++
			}
			add(spot{p.Due, p.Key, p.Offset, p.Place, of, p.Late, p.AtOnce})
		}
		n.more = n.more || got.Stopped && o.limit > 0 && n.pending-before > int64(o.limit)
		got.Forget()
	})
	if ctx.Err() != nil {
		return failed
	}
	next := merged(every)
	most := math.MaxInt
	if o.limit > 0 {
		most = o.limit
	}
	if !o.wide() {
		next = found.inOrder()
	}
	rowsTo, summary := cutting(stdout), stdout
	if o.output == "json" {
		rowsTo, summary = stdout, v.stderr
	}
	out := bufio.NewWriterSize(rowsTo, 64<<10)
	t := o.table(v, out, columnsOf(stdout, 0))
	shown, gone := 0, 0
	var window []spot
	for {
		for len(window) < min(mostRows, most-shown-gone) {
			p, more := next()
			if !more {
				break
			}
			window = append(window, p)
		}
		if len(window) == 0 {
			break
		}
		rows, err := v.rows(ctx, found.of, window, t.render)
		if err != nil {
			return joinLines(v.advise(err, v.topics()), t.end(), out.Flush(), failed)
		}
		for _, row := range rows {
			if row == nil {
				gone++
				continue
			}
			if err := t.row(row); err != nil {
				return err
			}
			shown++
		}
		window = slices.Delete(window, 0, len(rows))
	}
	if err := cmp.Or(t.end(), out.Flush()); err != nil {
		return err
	}
	if gone > 0 {
		fmt.Fprintf(v.stderr, "note: %s left the log meanwhile\n", topics.Plural(gone, "record"))
	}
	if n.part = partOf(failed); failed == nil || n.pending > 0 {
		fmt.Fprintln(summary, n.say(int64(shown), o.filters()))
	}
	return failed
}

// mostSoonest are so many rows that the soonest are sought while the log is read; of more all that is pending is kept, in less memory for each.
const mostSoonest = 10_000

// wide reports whether so many rows are asked for.
func (o *pendingList) wide() bool { return o.limit == 0 || o.limit > mostSoonest }

// What is due in no order of the log is read again for each window of rows, so one is as large as memory allows.
const (
	mostRows     = 200_000
	mostRowBytes = 36 << 20
)

// rowWindow holds the rows of what is due first, as many of them as there is room for: they come in the order of the log.
type rowWindow struct {
	rows  [][]byte
	bytes int
}

// rowBytes is what a row takes, roughly.
func rowBytes(row []byte) int { return cap(row) + 24 }

// put takes a row in. Where there is no room, those that are due last are given up: they are of the next window.
func (w *rowWindow) put(i int, row []byte) {
	w.rows[i] = row
	for w.bytes += rowBytes(row); w.bytes > mostRowBytes && len(w.rows) > 1; {
		least := len(w.rows) * 7 / 8
		for _, row := range w.rows[least:] {
			if row != nil {
				w.bytes -= rowBytes(row)
			}
		}
		clear(w.rows[least:])
		w.rows = w.rows[:least]
	}
}

// wants tells whether a row is one of those that are still asked for.
func (w *rowWindow) wants(i int) bool { return i < len(w.rows) }

// enough says when a partition with a fixed delay need not be read further: its records come in the order in which they are delivered.
func (o *pendingList) enough() func(ahead.Pending, bool) bool {
	n, beyond := 0, o.beyond()
	return func(last ahead.Pending, chosen bool) bool {
		if chosen && o.between(last.Due) {
			n++
		}
		return o.limit > 0 && n > o.limit || beyond(last, chosen)
	}
}

// say is the last line: 12 records are pending, 1 of them overdue.
func (n *counted) say(shown int64, filtered bool) string {
	switch {
	case n.pending == 0:
		return nothing(filtered)
	case n.more:
		return "shown: the first " + thousands(shown) + "; more are pending (--limit 0 shows all)"
	}
	verb := " are"
	if n.pending == 1 {
		verb = " is"
	}
	text := count(n.pending, "record") + verb + " pending" + n.part
	if n.overdue > 0 {
		text += fmt.Sprintf(", %s of them overdue", thousands(n.overdue))
	}
	if shown < n.pending {
		text += "; shown: the first " + thousands(shown) + " (--limit 0 shows all)"
	}
	return text
}

// partOf says of how much a count is, where some could not be read.
func partOf(failed error) string {
	if failed == nil {
		return ""
	}
	return " in what could be read"
}

// nothing says that there is none.
func nothing(filtered bool) string {
	if filtered {
		return "nothing is pending that was asked for"
	}
	return "nothing is pending"
}

// pendingRow is a pending record as -o json prints it. Times are ms since the epoch.
type pendingRow struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Offset    int64   `json:"offset"`
	Handle    string  `json:"handle"`
	Due       int64   `json:"due"`
	State     string  `json:"state"` // pending, overdue, late or arriving
	Timestamp int64   `json:"timestamp"`
	Target    string  `json:"target,omitempty"`
	ID        *string `json:"id,omitempty"`
	IDBytes   []byte  `json:"id_base64,omitempty"`
	Key       *string `json:"key"` // null, also where it is not text
	KeyBytes  []byte  `json:"key_base64,omitempty"`
	Size      int     `json:"size"` // bytes of key, value and headers

	key, id []byte
}

// rows reads what is to be shown of records where they lie, of the first ones at least. A row is nil if its record is not there any more.
func (v *view) rows(ctx context.Context, all []*ahead.Looked, window []spot, render func(*pendingRow) []byte) ([][]byte, error) {
	kept := rowWindow{rows: make([][]byte, len(window))}
	order := make([]int, len(window)) // by partition and place
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(window[a].of, window[b].of), cmp.Compare(window[a].place, window[b].place))
	})
	bar := newBar(v.stderr)
	defer bar.end()
	bar.add(0, int64(len(order)))
	for len(order) > 0 {
		of := window[order[0]].of
		n := 1
		for n < len(order) && window[order[n]].of == of {
			n++
		}
		got := all[of]
		offsets := make([]int64, n)
		for i := range offsets {
			offsets[i] = window[order[i]].place
		}
		err := v.Find(ctx, got, offsets, func(i int, r *kgo.Record) {
			if bar.add(1, 0); kept.wants(order[i]) {
				kept.put(order[i], render(v.row(got, v.asWritten(got, r), window[order[i]])))
			}
		})
		if err != nil {
			return nil, err
		}
		order = order[n:]
	}
	return kept.rows, nil
}

// row is what is shown of a record.
func (v *view) row(got *ahead.Looked, r *kgo.Record, at spot) *pendingRow {
	row := &pendingRow{Topic: got.Topic, Partition: got.TopicPartition.Partition, Offset: at.offset, Due: at.due, Timestamp: r.Timestamp.UnixMilli(), Size: ahead.SizeOf(r), State: stateOf(at, v.Now)}
	parser, mark := got.Parser(at.offset), got.Mark()
	row.Handle = topics.Handle{Partition: row.Partition, Offset: at.offset, Due: at.key - parser.Jitter(mark, at.offset)}.String()
	var q topics.Request
	if parser.Again(&q, r.Headers, topics.StampOf(r), at.key, at.offset, &mark) == nil {
		row.Target = string(q.Target)
		row.id = slices.Clone(q.ID)
		row.ID, row.IDBytes = textOrBytes(row.id)
	}
	row.key = slices.Clone(r.Key)
	row.Key, row.KeyBytes = textOrBytes(row.key)
	return row
}

// stateOf is the word for how a pending record stands.
func stateOf(at spot, now time.Time) string {
	switch {
	case at.atOnce:
		return "arriving"
	case at.late:
		return "late"
	case at.due < now.UnixMilli():
		return "overdue"
	}
	return "pending"
}
