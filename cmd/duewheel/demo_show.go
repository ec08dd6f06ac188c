package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// show draws until ctx ends: a live table on a terminal, a line a second otherwise.
func (d *demo) show(ctx context.Context, out io.Writer) error {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return d.showTable(ctx, f)
	}
	return d.showLines(ctx, out)
}

func (d *demo) showLines(ctx context.Context, out io.Writer) error {
	for _, line := range append(append(d.title(), d.advice()...), "") {
		fmt.Fprintln(out, line)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-d.begun:
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			c := d.watch.counts()
			_, err := fmt.Fprintf(out, "%4.0fs  asked %d, pending %d, delivered %d (%d/s), dead-lettered %d, lateness p50 %s p99 %s; %s\n",
				now.Sub(d.started).Seconds(), c.asked, d.pending(), c.delivered, c.delivered-last, c.deadLettered, millis(c.p50), millis(c.p99), d.samples(c, now))
			if err != nil {
				return err
			}
			last = c.delivered
			_, fresh := d.watch.stories.lines()
			for _, line := range fresh {
				fmt.Fprintln(out, "       "+line)
			}
		}
	}
}

// samples names one record that was delivered, one that comes next and the one that waits longest.
func (d *demo) samples(c counts, now time.Time) string {
	var s []string
	if len(c.latest) > 0 {
		s = append(s, fmt.Sprintf("#%d came %s late", c.latest[0].id, millis(c.latest[0].late)))
	}
	next, far := d.watch.soonest(1, d.every)
	for _, q := range append(next, far...) {
		s = append(s, fmt.Sprintf("#%d is due %s", q.id, until(q.due, now)))
	}
	return strings.Join(s, ", ")
}

// pending is what the processor says; records sent from other terminals are among them.
func (d *demo) pending() int64 {
	var n int64
	for _, p := range d.stats().Partitions {
		n += p.Pending
	}
	return n
}

// title is what stands above everything. No line is longer than 80 characters, so that what is
// there to be copied is never cut.
func (d *demo) title() []string {
	return []string{fmt.Sprintf("demo: broker %s, metrics http://%s/metrics, Ctrl-C ends", d.broker, d.admin), ""}
}

// advice is what to try from another terminal.
func (d *demo) advice() []string {
	duewheel := "duewheel"
	if exe, err := os.Executable(); err == nil && strings.Contains(exe, "go-build") {
		duewheel = "go run ./cmd/duewheel" // where `go run` has put it says nothing to a reader
	}
	return []string{
		"Try from another terminal:",
		fmt.Sprintf(`  %s produce -b %s -t %s \`, duewheel, d.broker, demoRequests),
		"    --to orders --for 10s -k me -v hello",
		fmt.Sprintf(`  echo hello | kcat -P -b %s -t %s \`, d.broker, demoRequests),
		"    -H delay-for=10s -H delay-target-topic=orders",
		fmt.Sprintf(`  kcat -C -u -b %s -t orders -o end -f '%%T %%k %%s %%h\n'`, d.broker),
		fmt.Sprintf("  %s checkpoints -b %s -g %s", duewheel, d.broker, demoGroup),
	}
}

// tableEvery is often enough for a countdown to look alive, and costs nothing.
const tableEvery = 200 * time.Millisecond

func (d *demo) showTable(ctx context.Context, f *os.File) error {
	const hideCursor, showCursor, clearScreen = "\x1b[?25l", "\x1b[?25h", "\x1b[2J"
	fmt.Fprint(f, hideCursor, clearScreen)
	defer fmt.Fprint(f, showCursor)
	select {
	case <-ctx.Done():
		return nil
	case <-d.begun:
	}
	tick := time.NewTicker(tableEvery)
	defer tick.Stop()
	rate := meter{}
	for {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width < 20 || height < 5 {
			width, height = 80, 24
		}
		now := time.Now()
		lines := d.table(now, &rate)
		if _, err := io.WriteString(f, frame(lines, width, height-1)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// frame draws lines from the upper left corner, cut to the screen, and clears what was there.
func frame(lines []string, width, height int) string {
	const home, clearRight, clearBelow = "\x1b[H", "\x1b[K", "\x1b[J"
	var b strings.Builder
	b.WriteString(home)
	for _, line := range lines[:min(len(lines), height)] {
		if r := []rune(line); len(r) > width {
			line = string(r[:width])
		}
		b.WriteString(line + clearRight + "\r\n")
	}
	b.WriteString(clearBelow)
	return b.String()
}

// The table lists tableNear records that are due soon, tableFar that are due far ahead, and as many
// that were delivered; so all of it fits on 24 lines.
const (
	tableNear = 3
	tableFar  = 2
)

func (d *demo) table(now time.Time, rate *meter) []string {
	c := d.watch.counts()
	next, far := d.watch.soonest(tableNear, d.every)
	waits := append(next, far[max(0, len(far)-tableFar):]...)
	lines := append(d.title(),
		fmt.Sprintf("  asked %d  pending %d  delivered %d (%.0f/s)  dead-lettered %d  yours %d",
			c.asked, d.pending(), c.delivered, rate.perSecond(now, c.delivered), c.deadLettered, c.yours),
		fmt.Sprintf("  lateness p50 %s, p99 %s, max %s  early %d  doubled %d", millis(c.p50), millis(c.p99), millis(c.max), c.early, c.doubled),
		"",
		fmt.Sprintf("  %-38s  %s", "WAITS, some of it", "DELIVERED"),
	)
	for i := range tableNear + tableFar {
		left, right := "", ""
		if i < len(waits) {
			left = fmt.Sprintf("#%-7d %-18s %s", waits[i].id, waits[i].target, until(waits[i].due, now))
		}
		if i < len(c.latest) {
			a := c.latest[i]
			name := fmt.Sprintf("#%d", a.id)
			if a.yours {
				name = "yours"
			}
			right = fmt.Sprintf("%-8s %-18s %s", name, a.target, millis(a.late))
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("  %-38s  %s", left, right), " "))
	}
	newest, _ := d.watch.stories.lines()
	for _, line := range append([]string{""}, newest...) {
		if r := []rune("  " + line); len(r) > 80 {
			line = string(r[2:79]) + "…"
		}
		lines = append(lines, strings.TrimRight("  "+line, " "))
	}
	return append(append(lines, ""), d.advice()...)
}

// until is a countdown: in 0.4s, in 12s, in 5m0s, in 30d.
func until(due int64, now time.Time) string {
	left := time.UnixMilli(due).Sub(now)
	switch {
	case left <= 0:
		return "now"
	case left < 10*time.Second:
		return fmt.Sprintf("in %.1fs", left.Seconds())
	case left < 48*time.Hour:
		return "in " + left.Truncate(time.Second).String()
	default:
		return fmt.Sprintf("in %dd%dh", int(left.Hours())/24, int(left.Hours())%24)
	}
}

// meter turns a growing count into a rate over the last two seconds or so.
type meter struct {
	times  []time.Time
	values []int
}

func (m *meter) perSecond(now time.Time, value int) float64 {
	m.times, m.values = append(m.times, now), append(m.values, value)
	for len(m.times) > 2 && now.Sub(m.times[0]) > 2*time.Second {
		m.times, m.values = m.times[1:], m.values[1:]
	}
	past := now.Sub(m.times[0]).Seconds()
	if past <= 0 {
		return 0
	}
	return float64(value-m.values[0]) / past
}
