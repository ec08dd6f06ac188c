package child

import (
	"bytes"
	"io"
)

// Lines returns a writer that passes on, line by line, what is written, as for the log of a replica. It belongs to one goroutine.
func Lines(pass func(line string) error) io.Writer { return &lines{pass: pass} }

type lines struct {
	pass func(string) error
	rest []byte // of a line that has no end yet
}

func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(b), nil
		}
		l.rest = rest
		if err := l.pass(string(line)); err != nil {
			return 0, err
		}
	}
}
