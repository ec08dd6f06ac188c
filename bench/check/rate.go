package check

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Rate counts events by their names, and remembers the worst second of each. Its zero value is ready. It belongs to one
// goroutine.
type Rate struct {
	names map[string]*second
}

type second struct {
	at    int64 // seconds since 1970
	n     int   // in it
	worst int
	when  time.Time
}

// Count counts one event.
func (r *Rate) Count(name string, now time.Time) {
	if r.names == nil {
		r.names = make(map[string]*second)
	}
	s := r.names[name]
	if s == nil {
		s = new(second)
		r.names[name] = s
	}
	if at := now.Unix(); s.at != at {
		s.at, s.n = at, 0
	}
	if s.n++; s.n > s.worst {
		s.worst, s.when = s.n, now
	}
}

// Worst is the most that there were within a second.
func (r *Rate) Worst(name string) int {
	if s := r.names[name]; s != nil {
		return s.worst
	}
	return 0
}

// Over names what came more than most times in a second; most may be different for each name.
func (r *Rate) Over(most func(name string) int) (over []string) {
	for _, name := range slices.Sorted(maps.Keys(r.names)) {
		if s := r.names[name]; s.worst > most(name) {
			over = append(over, fmt.Sprintf("%s %d times in the second of %s, and at most %d is allowed", name, s.worst, s.when.UTC().Format("15:04:05.000"), most(name)))
		}
	}
	return over
}
