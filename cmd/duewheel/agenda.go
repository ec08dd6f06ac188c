package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/duewheel/duewheel/processor/ahead"
)

// agenda is what `duewheel agenda` was asked for.
type agenda struct {
	outlook
	by    string
	ascii bool
}

func newAgendaCommand(f *flags) *cobra.Command {
	var o agenda
	cmd := &cobra.Command{
		Use:   "agenda",
		Short: "Show how much is due when, and for which targets",
		Long: `Draw a bar for each minute, hour or day of what is pending, by target. It reads the
group's checkpoints and the logs behind them, as ls does, and writes nothing.`,
		Example: "  duewheel agenda -c duewheel.yaml\n  duewheel agenda -c duewheel.yaml --by minute --before 1h --target orders",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := joinLines(o.check(cmd, wallClock()), notEmpty(cmd, "by"))
			if _, known := stepNames[o.by]; !known && o.by != "" {
				err = joinLines(err, fmt.Errorf("--by %s: minute, hour or day", o.by))
			}
			if err != nil {
				return err
			}
			o.ascii = o.ascii || !speaksUTF8(os.Getenv)
			return f.withView(cmd.Context(), o.topics, o.partitions, cmd.ErrOrStderr(), func(v *view) error {
				return o.run(cmd.Context(), v, cmd.OutOrStdout())
			})
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.by, "by", "", "minute, hour or day; without it what fits")
	cmd.Flags().BoolVar(&o.ascii, "ascii", false, "draw bars with letters that every terminal has")
	return cmd
}

// speaksUTF8 tells whether the environment says that a terminal shows more than ASCII.
func speaksUTF8(env func(string) string) bool {
	said := strings.ToUpper(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	return strings.Contains(said, "UTF-8") || strings.Contains(said, "UTF8")
}

// step is how long one bar is.
type step int

const (
	byMinute step = iota
	byHour
	byDay
)

var stepNames = map[string]step{"minute": byMinute, "hour": byHour, "day": byDay}

// begin is the beginning of the minute, hour or day around a time, where that is.
func (s step) begin(t time.Time) time.Time {
	y, m, d := t.Date()
	switch s {
	case byMinute:
		return t.Truncate(time.Minute)
	case byHour: // a zone may be off by half an hour
		return t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	}
	return time.Date(y, m, d, 0, 0, 0, 0, t.Location())
}

// next is the beginning of the one behind it.
func (s step) next(t time.Time) time.Time {
	switch s {
	case byMinute:
		return t.Add(time.Minute)
	case byHour:
		return t.Add(time.Hour)
	}
	y, m, d := t.Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, t.Location())
}

// dueMinute is what is due in one minute, by target.
type dueMinute struct {
	records, bytes int64
	targets        map[string]int64
}

func (d *dueMinute) add(target string, records, bytes int64) {
	if d.targets == nil {
		d.targets = map[string]int64{}
	}
	d.records, d.bytes = d.records+records, d.bytes+bytes
	d.targets[target] += records
}

// schedule is how much is due when: by minute, so that what it holds does not depend on how much there is.
type schedule struct {
	zone    *time.Location       // whose days are meant
	minutes map[int64]*dueMinute // since 1970
	overdue dueMinute
	total   dueMinute
	last    int64 // ms: when the last one is due
}

func (s *schedule) add(p ahead.Pending, now int64) {
	target := cmp.Or(p.Target, "(of the route)")
	s.total.add(target, 1, int64(p.Size))
	s.last = max(s.last, p.Due)
	if p.Due < now {
		s.overdue.add(target, 1, int64(p.Size))
		return
	}
	if s.minutes == nil {
		s.minutes = map[int64]*dueMinute{}
	}
	m := s.minutes[p.Due/60_000]
	if m == nil {
		m = &dueMinute{}
		s.minutes[p.Due/60_000] = m
	}
	m.add(target, 1, int64(p.Size))
	s.thin()
}

// mostMinutes bounds how many are told apart; beyond them days are.
const mostMinutes = 200_000

func (o *agenda) run(ctx context.Context, v *view, stdout io.Writer) error {
	v.Chosen = o.wants()
	v.Enough = o.beyond
	s := schedule{zone: v.Now.Location()}
	failed := v.each(ctx, func(got *ahead.Looked) {
		for p := range got.All() {
			if o.between(p.Due) {
				s.add(p, v.Now.UnixMilli())
			}
		}
	})
	if ctx.Err() != nil {
		return failed
	}
	by, chosen := stepNames[o.by]
	if !chosen {
		by = s.fitting(v.Now)
	}
	rows := s.rows(by, v.Now)
	if o.output == "json" {
		enc := newJSON(stdout)
		for _, r := range rows {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return failed
	}
	if s.total.records == 0 {
		if failed == nil {
			fmt.Fprintln(stdout, nothing(o.filters()))
		}
		return failed
	}
	ink := blocks
	if o.ascii {
		ink = letterInk
	}
	fmt.Fprint(stdout, s.draw(rows, by, v.Now, ink, columnsOf(stdout, 80)))
	return failed
}

// thin puts minutes together, those of a day that is farthest first, when there are too many of them.
func (s *schedule) thin() {
	if len(s.minutes) <= mostMinutes {
		return
	}
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(s.minutes))) {
		if len(s.minutes) <= mostMinutes/2 {
			return
		}
		day := byDay.begin(time.UnixMilli(at*60_000).In(s.zone)).UnixMilli() / 60_000
		if m := s.minutes[at]; at != day {
			into := s.minutes[day]
			if into == nil {
				into = &dueMinute{}
				s.minutes[day] = into
			}
			for target, n := range m.targets {
				into.add(target, n, 0)
			}
			into.bytes += m.bytes
			delete(s.minutes, at)
		}
	}
}

// fitting is the shortest step that needs no more bars than a person looks at for nine of ten records: a few that are due in a year leave
// those of today apart.
func (s *schedule) fitting(now time.Time) step {
	n, last := s.overdue.records, now.UnixMilli()
	for _, minute := range slices.Sorted(maps.Keys(s.minutes)) {
		if 10*n >= 9*s.total.records {
			break
		}
		n, last = n+s.minutes[minute].records, minute*60_000
	}
	switch ahead := time.UnixMilli(last).Sub(now); {
	case ahead <= 45*time.Minute:
		return byMinute
	case ahead <= 48*time.Hour:
		return byHour
	}
	return byDay
}

// agendaRow is what is due in one step, as -o json prints it. Times are ms since the epoch.
type agendaRow struct {
	From    *int64           `json:"from"` // null: what is overdue
	To      int64            `json:"to"`   // not included
	Records int64            `json:"records"`
	Bytes   int64            `json:"bytes"`
	Targets map[string]int64 `json:"targets"`

	at time.Time
}

// rows are the steps in which anything is due, what is overdue first.
func (s *schedule) rows(by step, now time.Time) []agendaRow {
	var rows []agendaRow
	if s.overdue.records > 0 {
		rows = append(rows, agendaRow{To: now.UnixMilli(), Records: s.overdue.records, Bytes: s.overdue.bytes, Targets: s.overdue.targets})
	}
	for _, minute := range slices.Sorted(maps.Keys(s.minutes)) {
		m := s.minutes[minute]
		at := by.begin(time.UnixMilli(minute * 60_000).In(now.Location()))
		if n := len(rows) - 1; n >= 0 && rows[n].From != nil && rows[n].at.Equal(at) {
			rows[n].Records, rows[n].Bytes = rows[n].Records+m.records, rows[n].Bytes+m.bytes
			for target, n2 := range m.targets {
				rows[n].Targets[target] += n2
			}
			continue
		}
		from := at.UnixMilli()
		rows = append(rows, agendaRow{From: &from, To: by.next(at).UnixMilli(), Records: m.records, Bytes: m.bytes, Targets: maps.Clone(m.targets), at: at})
	}
	return rows
}

// What bars are drawn with: one for each of the targets that have most, the last for all others.
var (
	blocks    = []string{"█", "▓", "▒", "░"}
	letterInk = []string{"#", "=", "+", "."}
)

const (
	mostBars     = 60 // are drawn; what is due later is one line
	shortestRoom = 4  // columns for a bar, however narrow a terminal is
)

// draw makes text of it that fits so many columns.
func (s *schedule) draw(rows []agendaRow, by step, now time.Time, ink []string, columns int) string {
	names, legend := s.legend(ink, columns)
	rows, later := fold(rows)
	widest, most := int64(0), int64(0)
	for _, r := range rows {
		widest = max(widest, r.Records)
	}
	most = widest
	if later != nil {
		widest = max(widest, later.Records)
	}
	var b strings.Builder
	figures := len(thousands(widest))
	labels := len("2006-01-02 15:04")
	room := max(columns-labels-1-figures-2, shortestRoom)
	line := func(label string, r *agendaRow, scaled bool) {
		bar := ""
		if scaled {
			bar = barOf(r, names, ink, room, most)
		}
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%-*s %*s  %s", labels, label, figures, thousands(r.Records), bar), " "))
	}
	for i := range rows {
		r := &rows[i]
		if r.From == nil {
			line("overdue", r, true)
			continue
		}
		if i > 0 && rows[i-1].From != nil && rows[i-1].To < *r.From {
			fmt.Fprintf(&b, "%-*s\n", labels, "  nothing for "+span2(time.Duration(*r.From-rows[i-1].To)*time.Millisecond))
		}
		line(by.label(r.at), r, true)
	}
	if later != nil {
		line("later", later, false)
	}
	zone := zoneOf(now)
	fmt.Fprintf(&b, "\n%s\n%s pending, %s, by %s (%s)\nthe last is due %s, %s\n", legend, count(s.total.records, "record"), sizeText(s.total.bytes),
		[]string{"minute", "hour", "day"}[by], zone, local(time.UnixMilli(s.last).In(now.Location())), relative(time.UnixMilli(s.last), now))
	return b.String()
}

// fold leaves as many bars as are looked at, and puts the others together.
func fold(rows []agendaRow) ([]agendaRow, *agendaRow) {
	if len(rows) <= mostBars {
		return rows, nil
	}
	later := agendaRow{From: rows[mostBars].From}
	for _, r := range rows[mostBars:] {
		later.Records += r.Records
	}
	return rows[:mostBars], &later
}

// label says which minute, hour or day it is.
func (s step) label(t time.Time) string {
	if s == byDay {
		return t.Format("2006-01-02 Mon")
	}
	return t.Format("2006-01-02 15:04")
}

// legend says which target each ink is for.
func (s *schedule) legend(ink []string, columns int) (names []string, text string) {
	all := slices.SortedFunc(maps.Keys(s.total.targets), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.total.targets[b], s.total.targets[a]), cmp.Compare(a, b))
	})
	named := len(ink)
	if len(all) > named {
		named--
	}
	var parts []string
	rest := int64(0)
	for i, name := range all {
		if i < named {
			parts = append(parts, fmt.Sprintf("%s %s %s", ink[i], brief([]byte(name), 30), thousands(s.total.targets[name])))
			continue
		}
		rest += s.total.targets[name]
	}
	if more := len(all) - named; more > 0 {
		parts = append(parts, fmt.Sprintf("%s %d others %s", ink[named], more, thousands(rest)))
	}
	return all[:min(named, len(all))], wrapped(parts, "   ", columns)
}

// barOf draws what is due in one step.
func barOf(r *agendaRow, names, ink []string, room int, most int64) string {
	var b strings.Builder
	for i, cells := range r.shares(names, room, most) {
		if i == len(names) {
			i = len(ink) - 1
		}
		b.WriteString(strings.Repeat(ink[i], cells))
	}
	return b.String()
}

// shares are the cells of a bar: as many as the step has of the most, at least one, and of them each target its share. The last are those of all other targets.
func (r *agendaRow) shares(names []string, room int, most int64) []int {
	cells := max(int(math.Round(float64(r.Records)*float64(room)/float64(most))), 1)
	shares := make([]int, len(names)+1)
	drawn, passed := 0, int64(0)
	for i, name := range names {
		passed += r.Targets[name]
		until := int(math.Round(float64(passed) * float64(cells) / float64(r.Records)))
		shares[i], drawn = until-drawn, until
	}
	shares[len(names)] = cells - drawn
	return shares
}
