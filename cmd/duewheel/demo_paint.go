package main

import (
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// style is how a text looks where there are colours: parameters of SGR (ECMA-48), empty for plain.
type style string

const (
	unpainted style = ""
	bold      style = "1"
	faint     style = "2"
	red       style = "1;31"
	green     style = "1;32"
	yellow    style = "1;33"
	turned    style = "7"
)

// stretch is a piece of a line.
type stretch struct {
	of   string
	look style
}

// painted is one line of the screen.
type painted []stretch

func (l painted) add(look style, text string) painted {
	if text == "" {
		return l
	}
	return append(l, stretch{text, look})
}

func (l painted) width() (n int) {
	for _, s := range l {
		n += displaywidth.String(s.of)
	}
	return n
}

// fill adds blanks up to a column.
func (l painted) fill(column int) painted {
	return l.add(unpainted, strings.Repeat(" ", max(column-l.width(), 0)))
}

// text is the line without looks.
func (l painted) text() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.of)
	}
	return strings.TrimRight(b.String(), " ")
}

// cut leaves what fits so many columns, and says by its end that there was more.
func (l painted) cut(columns int, more string) painted {
	if l.width() <= columns {
		return l
	}
	left := columns - 1
	var out painted
	for _, s := range l {
		if n := displaywidth.String(s.of); n <= left {
			out, left = append(out, s), left-n
			continue
		}
		return out.add(s.look, displaywidth.TruncateString(s.of, left, "")+more)
	}
	return out
}

// render writes the line, with looks if there are colours.
func (l painted) render(colours bool) string {
	if !colours {
		return l.text()
	}
	var b strings.Builder
	for _, s := range l {
		if s.look == unpainted {
			b.WriteString(s.of)
			continue
		}
		b.WriteString("\x1b[" + string(s.look) + "m" + s.of + "\x1b[0m")
	}
	return b.String()
}

// look is what a terminal can show.
type look struct {
	width, height int
	colours       bool
	ascii         bool
}

// lookOf is what the environment says of it (no-color.org).
func lookOf(env func(string) string) look {
	return look{width: 80, height: 24, colours: env("NO_COLOR") == "", ascii: !speaksUTF8(env)}
}

// glyphs are the signs that not every terminal has.
type glyphs struct {
	ink            []string // of bars without colours
	solid          string   // of bars with colours
	runs, dead, to string   // a replica that runs, or does not; a cut line
}

func (k look) glyphs() glyphs {
	if k.ascii {
		return glyphs{letterInk, "#", "*", "x", "~"}
	}
	return glyphs{blocks, "█", "●", "✗", "…"}
}

// inks are the looks of targets in bars.
var inks = []style{"36", "33", "35"}

// frame draws lines from the upper left corner, and clears what was there.
func frame(lines []painted, k look) string {
	const home, clearRight, clearBelow = "\x1b[H", "\x1b[K", "\x1b[J"
	var b strings.Builder
	b.WriteString(home)
	for i, line := range lines[:min(len(lines), k.height)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line.cut(k.width, k.glyphs().to).render(k.colours) + clearRight)
	}
	b.WriteString(clearBelow)
	return b.String()
}

// fitted makes lines as many as the screen has: it leaves out blank ones if there are too many, and puts the last one at the bottom.
func fitted(lines []painted, height int) []painted {
	for i := 0; len(lines) > height && i < len(lines); i++ {
		if len(lines[i]) == 0 {
			lines = slices.Delete(lines, i, i+1)
			i--
		}
	}
	last := len(lines) - 1
	for len(lines) < height {
		lines = slices.Insert(lines, last, painted{})
	}
	return lines
}
