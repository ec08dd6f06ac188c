package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/clipperhouse/displaywidth"
	"golang.org/x/term"
)

// bar shows on a terminal how far something is. Elsewhere it says nothing.
type bar struct {
	w    io.Writer
	live bool

	mu     sync.Mutex
	n, of  int64
	began  time.Time
	drawn  time.Time
	ended  bool
	screen bool
}

func newBar(w io.Writer) *bar {
	return &bar{w: w, live: hasScreen(w), began: time.Now()}
}

const (
	barAfter = 300 * time.Millisecond // what is quicker needs no bar
	barEvery = 100 * time.Millisecond
)

func (b *bar) add(passed, more int64) {
	if !b.live {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n, b.of = b.n+passed, b.of+more
	if now := time.Now(); !b.ended && now.Sub(b.began) > barAfter && now.Sub(b.drawn) > barEvery {
		b.drawn, b.screen = now, true
		fmt.Fprint(b.w, progress(int(b.n), int(b.of), now.Sub(b.began), columnsOf(b.w, 80)))
	}
}

// end takes the bar away.
func (b *bar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.screen && !b.ended {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
	b.ended = true
}

// relative says how far a time is from now: in 2 h 5 m, 3 s ago.
func relative(t, now time.Time) string {
	d := t.Sub(now)
	switch {
	case d == math.MaxInt64: // a duration ends after 292 years
		return fmt.Sprintf("in %d d", (t.Unix()-now.Unix())/(24*60*60))
	case d >= 0:
		return "in " + span2(d)
	default:
		return span2(-d) + " ago"
	}
}

// writtenAt says when a record was written, by its timestamp.
func writtenAt(t, now time.Time) string {
	ahead := t.Sub(now)
	switch {
	case t.UnixMilli() < 0:
		return "without a timestamp"
	case ahead >= time.Second:
		return "written " + zoned(t.In(now.Location())) + ", by a clock that is " + span2(ahead) + " ahead of this one"
	case ahead > 0: // while it was looked for
		return "written " + zoned(t.In(now.Location())) + ", now"
	}
	return "written " + zoned(t.In(now.Location())) + ", " + relative(t, now)
}

// rounded is relative for a time that was asked for as so far from now: in 5 m, and not in 4 m 59 s.
func rounded(t, now time.Time) string {
	d := t.Sub(now).Round(time.Millisecond)
	if d == math.MaxInt64 {
		return relative(t, now)
	}
	if d.Abs() >= time.Second {
		d = d.Round(time.Second)
	}
	if d == 0 {
		return "now"
	}
	return relative(now.Add(d), now)
}

// span2 writes a duration with its two largest units.
func span2(d time.Duration) string {
	units := []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.of, u.name)
		if i+1 < len(units) {
			if rest := d % u.of / units[i+1].of; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	panic("BUG: a second is no unit")
}

// local is a time as people read it here, to the second.
func local(t time.Time) string { return t.Format("2006-01-02 15:04:05") }

// zoned is such a time where no heading has the zone.
func zoned(t time.Time) string { return local(t) + t.Format(" MST") }

// zoneOf names the zone of times that are printed without one. Where clocks are set forward and back it has both names: each time is that of its own day.
func zoneOf(now time.Time) string {
	name, _ := now.Zone()
	_, end := now.ZoneBounds()
	if end.IsZero() || end.After(now.AddDate(1, 0, 0)) {
		return name
	}
	if other, _ := end.Zone(); other != name {
		return name + "/" + other
	}
	return name
}

// thousands writes a count so that it can be read: 1,000,000.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// sizeText writes a number of bytes in three digits or so: 134 B, 1.2 kB.
func sizeText(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), 0
	for ; v >= 999.5 && unit < 4; unit++ {
		v /= 1000
	}
	digits := 0
	if v < 9.95 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, v, []string{"B", "kB", "MB", "GB", "TB"}[unit])
}

// count is a number of things: 1 record, 1,000 records.
func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return thousands(n) + " " + what
}

// wrapped joins parts to lines that are no longer than so many columns, if each part is not.
func wrapped(parts []string, sep string, columns int) string {
	var b strings.Builder
	at := 0
	for i, part := range parts {
		n := displaywidth.String(part)
		switch {
		case i > 0 && at+len(sep)+n > columns:
			b.WriteByte('\n')
			at = 0
		case i > 0:
			b.WriteString(sep)
			at += len(sep)
		}
		b.WriteString(part)
		at += n
	}
	return b.String()
}

// columnsOf is how wide a terminal is, or else.
func columnsOf(w io.Writer, other int) int {
	if f := fileOf(w); f != nil {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return other
}

// cutting cuts lines at the right edge of a terminal, so that the rows of a table stay rows. Elsewhere nothing is cut.
func cutting(w io.Writer) io.Writer {
	if columns := columnsOf(w, 0); columns > 0 {
		return &cutter{w: w, columns: columns, end: lookOf(os.Getenv).glyphs().to}
	}
	return w
}

// cutter cuts lines after so many columns.
type cutter struct {
	w       io.Writer
	columns int
	end     string
	line    []byte // that has no end yet
}

func (c *cutter) Write(b []byte) (int, error) {
	c.line = append(c.line, b...)
	for {
		line, rest, found := bytes.Cut(c.line, []byte("\n"))
		if !found {
			return len(b), nil
		}
		if _, err := io.WriteString(c.w, clipped(string(line), c.columns, c.end)+"\n"); err != nil {
			return 0, err
		}
		c.line = bytes.Clone(rest)
	}
}
