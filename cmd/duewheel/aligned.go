package main

import (
	"io"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// aligned writes a table: cells end with tabs, lines with newlines, and a column is as wide as its widest cell in lines that follow each other, and two
// blanks; one that is wider than that gets sticks out. Unlike text/tabwriter it knows that some characters take two columns of a terminal, and some none.
type aligned struct {
	w     io.Writer
	most  int             // columns that a cell is padded to
	lines strings.Builder // since the last Flush
}

// mostPadded is how wide a column gets by itself: what stands behind one long id is not pushed out of sight in every row.
const mostPadded = 64

func newAligned(w io.Writer) *aligned { return &aligned{w: w, most: mostPadded} }

// newDescription writes what one record is, which a terminal does not cut: a column takes a third of that at most, so that one long name does not push
// the values of all others into the next line.
func newDescription(w io.Writer) *aligned {
	return &aligned{w: w, most: min(max(columnsOf(w, 3*mostPadded)/3, 12), mostPadded)}
}

func (t *aligned) Write(b []byte) (int, error) { return t.lines.Write(b) }

// Flush writes what there is. All of it must be whole lines.
func (t *aligned) Flush() error {
	lines := strings.Split(strings.TrimSuffix(t.lines.String(), "\n"), "\n")
	if t.lines.Len() == 0 {
		return nil
	}
	t.lines.Reset()
	rows := make([][]string, len(lines))
	columns := 0
	for i, line := range lines {
		rows[i] = strings.Split(line, "\t")
		columns = max(columns, len(rows[i]))
	}
	for c := range columns {
		for from := 0; from < len(rows); {
			to, widest := from, 0
			for ; to < len(rows) && c < len(rows[to])-1; to++ { // what follows the last tab of a line is of no column
				widest = max(widest, min(displaywidth.String(rows[to][c]), t.most))
			}
			for _, row := range rows[from:to] {
				row[c] += strings.Repeat(" ", max(widest-displaywidth.String(row[c]), 0)+2)
			}
			from = max(to, from+1)
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for _, cell := range row {
			b.WriteString(cell)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

// clipped is text that takes at most so many columns. Its end says that there was more.
func clipped(s string, columns int, more string) string {
	if len(s) <= columns || displaywidth.String(s) <= columns { // no character takes more columns than bytes
		return s
	}
	return displaywidth.TruncateString(s, columns, more)
}
