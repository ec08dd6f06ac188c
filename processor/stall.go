package processor

import (
	"fmt"
	"log/slog"
	"time"
)

// stall notices that a live partition is not read although its log goes on: the replica that it is read from (kafka.rack) answers and
// has stopped replicating, say. Where nothing comes that is not yet sure, since readers do not see what was aborted; so its leader is
// asked what it has there. The zero value is well.
type stall struct {
	at     int64         // the position
	waited time.Duration // for how long nothing came, although it was asked for
	looked time.Time
	shown  bool // the leader has a record there that readers see
	told   bool // the log tells of it
}

// look takes in the position, and whether the log is known to go on behind it and the reader asks for that.
func (s *stall) look(position int64, asks bool) {
	now := time.Now()
	step := min(now.Sub(s.looked), stallStep)
	s.looked = now
	if position != s.at || !asks {
		s.at, s.waited, s.shown = position, 0, false
		return
	}
	s.waited += step
}

// suspected reports that the leader is to be asked.
func (s *stall) suspected(lasting time.Duration) bool { return s.waited > lasting }

// answered takes in up to where the leader has nothing that readers see, and where its log ends.
func (s *stall) answered(nothing, end int64) {
	if s.shown = nothing < end; !s.shown {
		s.waited = 0
	}
}

// why says what is wrong, when it has lasted for so long; "": nothing.
func (s *stall) why(lasting time.Duration) string {
	if !s.suspected(lasting) || !s.shown {
		return ""
	}
	return fmt.Sprintf("cannot be read: nothing has come for %v from offset %d on, where its leader has records; look at the replica that it is read from, which may have stopped replicating (`kafka.rack`), and at quotas (`consumer_byte_rate`)",
		s.waited.Round(time.Second), s.at)
}

// tell has the log tell of it once, and when it is over.
func (s *stall) tell(log *slog.Logger, lasting time.Duration) {
	why := s.why(lasting)
	switch {
	case why != "" && !s.told:
		log.Warn("partition is not read although its log goes on", "why", why)
	case why == "" && s.told && s.waited == 0:
		log.Info("partition is read again")
	default:
		return
	}
	s.told = !s.told
}

// stallStep is what one look adds at most: a lane that was kept by something else, or a process that was frozen, has not asked for anything.
const stallStep = time.Second
