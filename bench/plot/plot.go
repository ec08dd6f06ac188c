// Package plot draws what was measured over time, as an SVG: small panels one below the other, with one axis of time.
//
//	Plot{Title: "…", Panels: []Panel{{Title: "memory", Unit: "MiB", Lines: []Line{{Name: "resident", At: seconds, Values: mib}}}}}.Write(w)
//
// A line has one point for each pixel of its panel at most: the largest of the values that fall there, so that no peak is lost. It is
// pure: the same plot gives the same bytes.
package plot

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Plot is a drawing. All of its panels have the same axis of time, from 0 on.
type Plot struct {
	Title  string
	Note   string // below the title
	Panels []Panel
	Marks  []float64 // moments that are marked in all panels, in seconds
}

// Panel has one axis of values.
type Panel struct {
	Title string
	Unit  string // follows the title; empty: none
	Log   bool   // values are drawn by their logarithm; those that are not above 0 are left out
	Lines []Line
}

// Line is one value over time.
type Line struct {
	Name   string
	At     []float64 // seconds, rising
	Values []float64 // one for each; NaN is left out
	Dashed bool      // a bound, not a measurement
}

// In pixels.
const (
	width     = 900
	left      = 70 // of the axes
	right     = 130
	top       = 56 // of the first panel
	height    = 110
	gap       = 44 // between panels
	wide      = width - left - right
	lineSpace = 14
)

var colours = []string{"#1f6fb2", "#d1622b", "#2f8f4e", "#8a4fa3"}

// Write writes the drawing.
func (p Plot) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	total := top + len(p.Panels)*(height+gap)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11" fill="#333">`+"\n", width, total, width, total)
	fmt.Fprintf(b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, total)
	text(b, left, 20, `font-size="15" font-weight="bold"`, p.Title)
	text(b, left, 36, ``, p.Note)
	end := p.end()
	for i, panel := range p.Panels {
		panel.draw(b, top+i*(height+gap)+gap/2, end, p.Marks)
	}
	fmt.Fprintln(b, "</svg>")
	return b.Flush()
}

// end is the last moment of all.
func (p Plot) end() (end float64) {
	for _, panel := range p.Panels {
		for _, l := range panel.Lines {
			if n := len(l.At); n > 0 {
				end = max(end, l.At[n-1])
			}
		}
	}
	return max(end, 1)
}

func (p Panel) draw(b io.Writer, y int, end float64, marks []float64) {
	title := p.Title
	if p.Unit != "" {
		title += ", " + p.Unit
	}
	text(b, left, y-6, `font-weight="bold"`, title)
	s := p.scale()
	for _, v := range s.ticks() {
		at := float64(y) + s.place(v)
		fmt.Fprintf(b, `<path d="M%d %.1fh%d" stroke="#ddd"/>`+"\n", left, at, wide)
		text(b, left-6, int(at)+4, `text-anchor="end"`, label(v))
	}
	for t, step := 0.0, timeStep(end); t <= end; t += step {
		x := left + t/end*wide
		fmt.Fprintf(b, `<path d="M%.1f %dv4" stroke="#999"/>`+"\n", x, y+height)
		text(b, int(x), y+height+15, `text-anchor="middle"`, clock(t))
	}
	for _, mark := range marks {
		fmt.Fprintf(b, `<path d="M%.1f %dv%d" stroke="#999" stroke-dasharray="2 3"/>`+"\n", left+mark/end*wide, y, height)
	}
	fmt.Fprintf(b, `<path d="M%d %dv%dh%d" stroke="#999" fill="none"/>`+"\n", left, y, height, wide)
	for i, l := range p.Lines {
		colour, dash := colours[i%len(colours)], ""
		if l.Dashed {
			colour, dash = "#c22", ` stroke-dasharray="6 4"`
		}
		fmt.Fprintf(b, `<path d="%s" stroke="%s" fill="none" stroke-linejoin="round"%s/>`+"\n", l.path(y, end, s), colour, dash)
		text(b, left+wide+8, y+10+i*lineSpace, fmt.Sprintf(`fill=%q`, colour), l.Name)
	}
}

// path joins the points of a line; where values are missing it is broken.
func (l Line) path(y int, end float64, s scale) string {
	var b strings.Builder
	broken := true
	for i := 0; i < len(l.At); {
		column, most := int(l.At[i]/end*wide), math.NaN()
		for ; i < len(l.At) && int(l.At[i]/end*wide) == column; i++ {
			if v := l.Values[i]; s.shows(v) && !(v <= most) {
				most = v
			}
		}
		if math.IsNaN(most) {
			broken = true
			continue
		}
		letter := "L"
		if broken {
			letter, broken = "M", false
		}
		fmt.Fprintf(&b, "%s%d %.1f", letter, left+column, float64(y)+s.place(most))
	}
	return b.String()
}

// scale is an axis of values.
type scale struct {
	log      bool
	from, to float64
}

func (p Panel) scale() scale {
	s := scale{log: p.Log, from: math.Inf(1), to: math.Inf(-1)}
	for _, l := range p.Lines {
		for _, v := range l.Values {
			if s.shows(v) {
				s.from, s.to = min(s.from, v), max(s.to, v)
			}
		}
	}
	switch {
	case math.IsInf(s.to, -1) && p.Log:
		s.from, s.to = 1, 10
	case p.Log:
		s.from, s.to = math.Pow(10, math.Floor(math.Log10(s.from))), math.Pow(10, math.Ceil(math.Log10(s.to)))
		if s.from == s.to {
			s.to *= 10
		}
	default:
		s.from, s.to = 0, ceil(max(s.to, 1))
	}
	return s
}

func (s scale) shows(v float64) bool { return !math.IsNaN(v) && (!s.log || v > 0) }

// place is how far below the top of its panel a value lies.
func (s scale) place(v float64) float64 {
	share := (v - s.from) / (s.to - s.from)
	if s.log {
		share = (math.Log10(v) - math.Log10(s.from)) / (math.Log10(s.to) - math.Log10(s.from))
	}
	return height * (1 - share)
}

func (s scale) ticks() (ticks []float64) {
	if s.log {
		for v := s.from; v <= s.to*1.001; v *= 10 {
			ticks = append(ticks, v)
		}
		return ticks
	}
	for i := range 5 {
		ticks = append(ticks, s.to*float64(i)/4)
	}
	return ticks
}

// ceil is the next number that is easily divided by four.
func ceil(v float64) float64 {
	if v <= 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8} {
		if v <= m*unit {
			return m * unit
		}
	}
	return 10 * unit
}

// timeStep is how far apart the times below a panel are.
func timeStep(end float64) float64 {
	for _, step := range []float64{1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200} {
		if end/step <= 10 {
			return step
		}
	}
	return math.Ceil(end/10/3600) * 3600
}

func clock(seconds float64) string {
	if s := int(seconds); s%60 != 0 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d min", int(seconds)/60)
}

// label writes a number in few letters.
func label(v float64) string {
	for _, u := range []struct {
		of   float64
		name string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if v >= u.of {
			return strconv.FormatFloat(v/u.of, 'g', 3, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func text(b io.Writer, x, y int, how, s string) {
	if s == "" {
		return
	}
	if how != "" {
		how = " " + how
	}
	fmt.Fprintf(b, `<text x="%d" y="%d"%s>%s</text>`+"\n", x, y, how, escapes.Replace(s))
}
