package main

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"time"

	"github.com/duewheel/duewheel/topics"
)

// pendingTable takes rows one after the other, as it has rendered them.
type pendingTable interface {
	render(*pendingRow) []byte
	row([]byte) error
	end() error
}

// columns are those of a terminal; 0: it is none.
func (o *pendingList) table(v *view, w io.Writer, columns int) pendingTable {
	if o.output == "json" {
		return pendingJSON{w}
	}
	several := false
	for _, p := range v.partitions {
		several = several || p.Topic != v.partitions[0].Topic
	}
	if columns > 0 {
		t := &pendingText{w: w, now: v.Now, topics: several, most: mostOfName, mostTarget: targetOn(columns), cut: lookOf(os.Getenv).glyphs().to}
		t.noWhen, t.noTarget = columns < besideTarget+leastTarget, columns < besideTarget-besideWhen+leastTarget
		return t
	}
	return &pendingText{w: w, now: v.Now, topics: several, most: topics.MostID, mostTarget: topics.MostID, cut: "…"}
}

const (
	mostOfName   = 40 // columns of a name, an id or a key: an UUID has 36
	besideTarget = 62 // columns that a row has up to the end of its handle, which other commands ask for, beside the target
	besideWhen   = 14 // of these, columns of how far from now it is due: where the handle would not fit this is left out first, and then the target
	leastTarget  = 12
)

// targetOn is how many columns of a target are shown on a terminal: as many as leave room for the handle.
func targetOn(columns int) int { return max(min(columns-besideTarget, mostOfName), leastTarget) }

type pendingJSON struct{ w io.Writer }

func (t pendingJSON) render(r *pendingRow) []byte {
	line, err := json.Marshal(r)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return append(escaped(line), '\n')
}

func (t pendingJSON) row(line []byte) error {
	_, err := t.w.Write(line)
	return err
}

func (t pendingJSON) end() error { return nil }

// pendingText sets its columns for some hundred rows at a time.
type pendingText struct {
	w      io.Writer
	t      *aligned
	now    time.Time
	topics bool // a column for them
	rows   int
	most   int // columns of an id or a key that are shown

	mostTarget int    // of a target
	noWhen     bool   // no column of how far from now it is due
	noTarget   bool   // nor of the target
	cut        string // what stands for what is left out
}

func (t *pendingText) render(r *pendingRow) []byte {
	target, id := "-", "-"
	if r.Target != "" {
		target = briefTo([]byte(r.Target), t.mostTarget, t.cut)
	}
	if r.id != nil {
		id = briefTo(r.id, t.most, t.cut)
	}
	due := time.UnixMilli(r.Due).In(t.now.Location())
	when := relative(due, t.now)
	if r.State == "late" || r.State == "arriving" {
		when += ", " + r.State
	}
	topic := ""
	if t.topics {
		topic = "\t" + r.Topic
	}
	return t.line(local(due), when, target, r.Handle, id, briefTo(r.key, t.most, t.cut), sizeText(int64(r.Size))+topic)
}

// line is a row of what is shown.
func (t *pendingText) line(due, when, target string, others ...string) []byte {
	shown := []string{due, when, target}
	switch {
	case t.noTarget:
		shown = shown[:1]
	case t.noWhen:
		shown = []string{due, target}
	}
	return []byte(strings.Join(append(shown, others...), "\t") + "\n")
}

func (t *pendingText) row(line []byte) error {
	if t.rows%rowsAtOnce == 0 {
		if err := t.end(); err != nil {
			return err
		}
		t.t = newAligned(t.w)
		last := "SIZE"
		if t.topics {
			last += "\tTOPIC"
		}
		if _, err := t.t.Write(t.line("DUE ("+zoneOf(t.now)+")", "", "TARGET", "HANDLE", "ID", "KEY", last)); err != nil {
			return err
		}
	}
	t.rows++
	_, err := t.t.Write(line)
	return err
}

func (t *pendingText) end() error {
	if t.t == nil {
		return nil
	}
	return t.t.Flush()
}
