package processor

import (
	"time"

	"github.com/duewheel/duewheel/processor/histogram"
)

// work is what keeps a lane's goroutine. Nothing else of the lane happens meanwhile, so each piece of it has to be short.
type work int

const (
	workAccept work = iota // takes in what was read
	workSpill              // near records go to the store
	workLoad               // records that are due soon come from it
	workLive               // catch-ups end
	workTurn               // turns and commits begin, what became of them is taken in, and what is to be carried
	workTidy               // what need not be done at every step
	workMove               // partitions come and go
	works
)

func (w work) String() string {
	return [...]string{"accept", "spill", "load", "live", "turn", "tidy", "move"}[w]
}

// stint measures for how long a lane is kept by one piece of work after the other.
type stint struct {
	took  *[works]histogram.Histogram // of all lanes
	began time.Time
}

func (s *stint) begin() { s.began = time.Now() }

// spend measures one piece by itself.
func (s *stint) spend(w work, do func()) {
	s.begin()
	do()
	s.end(w)
}

// end says what was done since begin, or since the last end.
func (s *stint) end(w work) {
	now := time.Now()
	s.took[w].Observe(now.Sub(s.began), 1)
	s.began = now
}

// snapshots are what was measured of each kind of work.
func snapshots(took *[works]histogram.Histogram) map[string]histogram.Snapshot {
	m := map[string]histogram.Snapshot{}
	for w := range works {
		m[w.String()] = took[w].Snapshot()
	}
	return m
}
