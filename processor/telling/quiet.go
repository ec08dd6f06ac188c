package telling

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// quiet is a log handler that passes on so many lines of one message a minute, however many partitions
// are in the same trouble, and says with the next one how many it has left out. Programs look at
// metrics; a person has seen it by then.
type quiet struct {
	slog.Handler
	said *said
}

// linesAMinute of one message are more than go by while a hundred partitions change hands.
const linesAMinute = 300

// said is shared by all handlers that are made from one.
type said struct {
	mu    sync.Mutex
	since time.Time
	of    map[string]*repeats
}

// repeats is what was said of one message since.
type repeats struct{ lines, leftOut int }

// NewQuiet is one before another handler.
func NewQuiet(h slog.Handler) slog.Handler { return quiet{h, &said{of: map[string]*repeats{}}} }

// Handle implements slog.Handler.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	leftOut, pass := q.said.line(r.Message, r.Time)
	if !pass {
		return nil
	}
	if leftOut > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("left_out", leftOut))
	}
	return q.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{q.Handler.WithAttrs(attrs), q.said}
}

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name), q.said} }

// line reports whether a line may pass, and how many have not since the last one.
func (s *said) line(message string, at time.Time) (leftOut int, pass bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Sub(s.since) >= time.Minute {
		s.since = at
		maps.DeleteFunc(s.of, func(_ string, m *repeats) bool { m.lines = 0; return m.leftOut == 0 })
	}
	m := s.of[message]
	if m == nil {
		m = &repeats{}
		s.of[message] = m
	}
	if m.lines >= linesAMinute {
		m.leftOut++
		return 0, false
	}
	m.lines++
	leftOut, m.leftOut = m.leftOut, 0
	return leftOut, true
}
