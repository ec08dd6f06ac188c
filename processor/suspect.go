package processor

import (
	"time"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
)

// A target's leader may refuse a record for what the record is. It refuses the whole batch that
// the record came in, and nothing of it says which record is to blame. So all of them are
// *suspects*. The next turns take half of the suspects and nothing else: either they are delivered,
// or the one to blame is among them. A record that is refused when nothing goes along with it is
// dead-lettered. That takes a turn for each time that the number of suspects can be halved.
//
// A target that refuses many, one after the other, would have its lane do little else. When too much
// time has been lost to it lately, what is for it is carried on for a while once its next culprit is
// found, so that others get their turns, and then the search goes on.
//
// What is refused for its size, and nothing goes along with it, may have nowhere else to go. A dead
// letter is cut then, and cut again, and a record to be carried on waits where it is.

// mostBlamed is how many records in a row a target may refuse, each by itself, before it is the
// target that is taken to be in trouble: it may refuse everything.
const mostBlamed = 5

const (
	// mostLost is how much of a lane's time searches may take at once, and lostShare the part of the
	// time that they may take in the long run.
	mostLost  = 2 * time.Second
	lostShare = 4
)

// search is the search for the records that make turns fail. It belongs to the lane.
type search struct {
	targets   *targets.Table
	narrowing bool         // there may be suspects
	lost      lost         // time, to the search
	ready     []*partition // scratch: those that have suspects which can be tried now
}

// trial is what a turn takes of a partition to find out who is to blame: the first records of what is to be tried again.
type trial struct {
	of      *partition
	records int
}

// lost is how much time a lane has lately spent on turns that were refused for what a record is, or that
// were part of a search.
type lost struct {
	time time.Duration
	at   time.Time
}

func (s *lost) add(d time.Duration) {
	s.time = max(s.time-time.Since(s.at)/lostShare, 0) + d
	s.at = time.Now()
}

// suspect makes suspects of the records that were refused. Those of before are none any more:
// one of these explains them.
func (s *search) suspect(ps []*partition, t *turn.Turn) {
	r := t.Rejected
	for _, p := range ps {
		for _, pt := range p.repeated() {
			acquit(pt)
		}
	}
	for _, pt := range t.Tried {
		acquit(pt.Part)
	}
	if r.Alone == nil {
		for _, it := range r.Items {
			it.Suspect = true
		}
		s.narrowing = true
		return
	}
	switch it := r.Items[0]; r.Alone.Kind {
	case turn.OutRetry, turn.OutPostponed, turn.OutForward:
		it.Stays = true
	case turn.OutDeadLetter:
		it.Extra().Cuts++
	default:
		target := r.Alone.Target
		if n := target.Blamed.Add(1); n > mostBlamed {
			s.targets.Failed(target.Name, r.Err, t.LeftBusy)
			return
		}
		it.Extra().Blame = r.Err
		if s.lost.time > mostLost {
			s.targets.Rest(target.Name, r.Err, t.LeftBusy, 2*s.lost.time)
		}
	}
}

// narrow takes half of the suspects for the next turn, or what has to go before them. When there
// are none that can be tried now, it takes nothing.
func (s *search) narrow(ps []*partition, now int64) (trials []trial) {
	if !s.narrowing {
		return nil
	}
	left := 0
	s.ready, s.narrowing = s.ready[:0], false
	for _, p := range ps {
		n := suspects(p.repeated())
		s.narrowing = s.narrowing || n > 0
		if n > 0 && p.wants(now) > 0 {
			left, s.ready = left+n, append(s.ready, p)
		}
	}
	for _, p := range s.ready {
		if n := innocent(p.Repeated()[0]); n > 0 {
			trials = append(trials, trial{p, n})
		}
	}
	if len(trials) > 0 {
		return trials
	}
	left = max(left/2, 1)
	for _, p := range s.ready {
		pt := p.Repeated()[0]
		n := 0
		for ; n < len(pt.Items) && left > 0; n++ {
			if pt.Items[n].Suspect {
				left--
			}
		}
		if n > 0 {
			trials = append(trials, trial{p, n})
		}
	}
	return trials
}

// repeated are the parts that are to be tried again.
func (p *partition) repeated() []*pending.Part {
	if !p.opened() {
		return nil
	}
	return p.Repeated()
}

// suspects is how many of the records of parts are suspects.
func suspects(parts []*pending.Part) (n int) {
	for _, pt := range parts {
		for i := range pt.Items {
			if pt.Items[i].Suspect {
				n++
			}
		}
	}
	return n
}

// innocent is how many records of a part come before the first suspect.
func innocent(pt *pending.Part) (n int) {
	for n < len(pt.Items) && !pt.Items[n].Suspect {
		n++
	}
	return n
}

// acquit says that none of its records is a suspect.
func acquit(pt *pending.Part) {
	for i := range pt.Items {
		pt.Items[i].Suspect = false
	}
}
