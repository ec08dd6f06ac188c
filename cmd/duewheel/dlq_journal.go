package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/duewheel/duewheel/topics"
)

// journal is how far a replay has come: it shows that while it goes on, and knows where to go on when it has ended early.
type journal struct {
	stdout io.Writer
	bar    io.Writer // nil: a line of stdout for each
	now    func() time.Time
	began  time.Time
	total  int // to be written

	written tally
	last    position  // the last that is written
	failed  *position // the first that was not acknowledged
	behind  int       // written behind that one
}

// acknowledged notes that a request is written. The error is that of stdout.
func (j *journal) acknowledged(a *again, confirm func(*again) string) error {
	j.last = a.of.place()
	if j.failed != nil {
		j.behind++
	}
	j.written.add(string(a.of.Refusal.Code))
	if j.bar != nil {
		return nil
	}
	_, err := fmt.Fprintf(j.stdout, "%s: %s\n", j.last, confirm(a))
	return err
}

// notAcknowledged notes that a request may not be written.
func (j *journal) notAcknowledged(a *again) {
	if j.failed == nil {
		at := a.of.place()
		j.failed = &at
	}
}

// draw draws the bar, if there is one.
func (j *journal) draw() {
	if j.bar != nil {
		fmt.Fprint(j.bar, progress(j.written.total, j.total, j.now().Sub(j.began), columnsOf(j.bar, 80)))
	}
}

// end leaves the bar behind.
func (j *journal) end() {
	if j.bar != nil {
		fmt.Fprintln(j.bar)
	}
}

// interrupted says how far a replay has come that has ended early, with what it was about to write.
func (j *journal) interrupted(err error, pending []*again, canGoOn bool) error {
	said := fmt.Sprintf("%s replayed before that", topics.Plural(j.written.total, "dead letter"))
	var next *position
	switch {
	case j.failed != nil:
		next = j.failed
		said += fmt.Sprintf("; %s was not acknowledged, and may have been written all the same", j.failed)
	case len(pending) > 0:
		at := pending[0].of.place()
		next = &at
	case j.written.total > 0:
		next = &position{j.last.topic, j.last.partition, j.last.offset + 1}
	}
	if next != nil && canGoOn {
		said += fmt.Sprintf("; --from %s goes on", next)
		if j.behind > 0 {
			said += fmt.Sprintf(", and writes %d once more", j.behind)
		}
	}
	return fmt.Errorf("%w; %s", err, said)
}

const barWidth = 30

// progress is the line that is drawn again and again. It leaves the last of so many columns free: what is wrapped cannot be drawn over.
func progress(n, total int, passed time.Duration, columns int) string {
	part := min(float64(n)/float64(max(total, 1)), 1)
	left := ""
	if n > 0 && n < total {
		left = ", " + (time.Duration(float64(passed) * (1 - part) / part)).Round(time.Second).String() + " left"
	}
	line := fmt.Sprintf("%d of %d (%.0f %%)%s", n, total, 100*part, left)
	if room := min(columns-len("[] ")-len(line)-1, barWidth); room >= shortestRoom {
		full := int(part * float64(room))
		line = "[" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "] " + line
	}
	return "\r" + clipped(line, columns-1, "") + "\x1b[K"
}
