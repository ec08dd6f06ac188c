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
			err := joinLines(o.check(cmd, wallClock()), notEmpty(cmd, "by"), textOnly(cmd, o.output, "ascii"))
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
	s.part = partOf(failed)
	by, chosen := stepNames[o.by]
	if !chosen {
		by = s.fitting(v.Now)
	}
	rows := s.rows(by, v.Now)
	if o.output == "json" {
		enc := newJSON(stdout)
		for r := range rows {
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
	fmt.Fprint(stdout, s.draw(slices.Collect(rows), by, v.Now, ink, columnsOf(stdout, 80)))
	return failed
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
		line(r.label(), r, true)
	}
	if later != nil {
		line("later", later, false)
	}
	zone := zoneOf(now)
	fmt.Fprintf(&b, "\n%s\n%s pending%s, %s, by %s (%s)\nthe last is due %s, %s\n", legend, count(s.total.records, "record"), s.part, sizeText(s.total.bytes),
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

// legend says which target each ink is for.
func (s *schedule) legend(ink []string, columns int) (names []string, text string) {
	all := slices.SortedFunc(maps.Keys(s.total.targets), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.total.targets[b], s.total.targets[a]), cmp.Compare(a, b))
	})
	named := len(ink)
	if len(all) > named {
		named--
	}
	end := "…"
	if ink[0] == letterInk[0] {
		end = "~"
	}
	var parts []string
	rest := int64(0)
	for i, name := range all {
		if i < named {
			parts = append(parts, fmt.Sprintf("%s %s %s", ink[i], briefTo([]byte(name), 30, end), thousands(s.total.targets[name])))
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
