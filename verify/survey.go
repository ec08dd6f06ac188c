package verify

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/duewheel/duewheel/bench/check"
)

// survey is what is known of topics that records do not say: how far they have been read, what is left of them, and what the group is done with.
type survey struct {
	routes  []check.Route
	fixed   map[string]bool     // delay topics with a fixed delay
	letters map[string]bool     // dead letter topics
	boxes   map[string][]string // by delay topic: where its dead letters may be

	away      map[string]error // delay topics that are not there, or may not be looked at, and why
	delays    map[place]*part
	compacted map[string]bool   // delay topics that are
	topics    map[string]*topic // all others that are read

	until   int64 // ms: what was due by then must be there
	partial bool  // targets have not been read to their ends
}

func newSurvey(routes []check.Route) *survey {
	s := &survey{
		routes: routes, fixed: make(map[string]bool), letters: make(map[string]bool), boxes: make(map[string][]string),
		delays: make(map[place]*part), compacted: make(map[string]bool), topics: make(map[string]*topic),
	}
	for _, r := range routes {
		s.fixed[r.Topic], s.boxes[r.Topic] = r.Delay > 0, boxes(r)
		for _, box := range boxes(r) {
			s.letters[box] = true
		}
	}
	return s
}

// boxes are the topics where dead letters of a route may be.
func boxes(r check.Route) []string {
	all := []string{r.DeadLetter}
	if r.Retry != nil && r.Retry.Parking != "" {
		all = append(all, r.Retry.Parking)
	}
	return all
}

// Resolved implements check.Survey.
func (s *survey) Resolved(of check.Source, due, seq int64) bool {
	p := s.delays[place{of.Topic, of.Partition}]
	return p != nil && p.checkpoint.resolves(of.Offset, due, seq, s.fixed[of.Topic])
}

// Reasons for which it cannot be told what became of a request.
const (
	whyUnread     = "their due time has a form that verify does not read"
	whySilent     = "headers.emit is none, so what was delivered does not say of what request"
	whyOpen       = "an open transaction keeps records back"
	whyTargetOld  = "the older part of their target is gone"
	whyTargetGone = "their target does not exist, or may not be looked at"
	whyCompacted  = "their target is compacted"
	whyLettersOld = "the older part of a dead letter topic is gone"
	whyNoLetters  = "a dead letter topic does not exist, or may not be looked at"
)

// slack is how much later than due a request is before it is believed that what was delivered before is gone.
const slack = 2 * time.Minute

// Unseen implements check.Survey.
func (s *survey) Unseen(u check.Unseen) check.Verdict {
	p := s.delays[place{u.Topic, u.Source.Partition}]
	resolved := s.Resolved(u.Source, u.Due, u.Seq)
	leftBehind := p != nil && !resolved && s.leavesBehind(u, p)
	switch {
	case p == nil, u.Cancel && !resolved:
		return check.Verdict{Fate: check.Waits}
	case u.DueUnread:
		return check.Verdict{Fate: check.Untellable, Why: whyUnread}
	case leftBehind:
	case !resolved && (u.Undated || u.Since > s.until):
		return check.Verdict{Fate: check.Waits}
	case !resolved && p.checkpoint.known:
		return check.Verdict{Fate: check.Lags}
	}
	if why, sure := s.hidden(u, p); why != "" {
		if s.partial && !sure {
			return check.Verdict{Fate: check.Waits}
		}
		return check.Verdict{Fate: check.Untellable, Why: why, Final: why != whyOpen}
	}
	switch {
	case s.partial:
		return check.Verdict{Fate: check.Waits}
	case leftBehind:
		return check.Verdict{Fate: check.Lost, Why: fmt.Sprintf("and the checkpoint says that nothing below offset %d is pending", p.checkpoint.low), Final: true}
	case !resolved: // there is no checkpoint
		return check.Verdict{Fate: check.Lags}
	}
	return check.Verdict{Fate: check.Lost, Final: true}
}

// leavesBehind tells whether the checkpoint leaves a request behind: whoever goes on from it finds nothing that stands for that. The log is read up to where it ended after
// the checkpoint was asked for; so where all of that was read, it is known what had become of the request by then, and where a copy of it lay.
func (s *survey) leavesBehind(u check.Unseen, p *part) bool {
	c := p.checkpoint
	if !c.known || !p.isReadOut() || c.offset > p.goal || u.Silent {
		return false
	}
	return u.Place >= max(c.givenUp, p.seenFrom) && u.Place < c.low
}

// hidden tells where a request may have arrived without being seen: nowhere is "". Sure: reading on does not change it.
func (s *survey) hidden(u check.Unseen, from *part) (why string, sure bool) {
	if u.Silent {
		return whySilent, true
	}
	if from.waits {
		return whyOpen, false
	}
	if u.MayArrive && !u.Cancel {
		t := s.topics[u.Target]
		switch {
		case t == nil || t.gone:
			return whyTargetGone, false
		case t.compacted:
			return whyCompacted, true
		case slices.ContainsFunc(t.parts, func(p *part) bool { return p.waits }):
			return whyOpen, false
		}
		if since := t.wholeFor(u.Partition, u.Delivered); since > 0 && u.Delivered-slack.Milliseconds() <= since {
			return whyTargetOld, since != never
		}
	}
	for _, box := range s.boxes[u.Topic] {
		t := s.topics[box]
		switch {
		case t == nil || t.gone:
			return whyNoLetters, false
		case slices.ContainsFunc(t.parts, func(p *part) bool { return p.waits }):
			return whyOpen, false
		}
		if since := t.whole(-1); since > 0 && u.Refused-slack.Milliseconds() <= since {
			return whyLettersOld, since != never
		}
	}
	return "", true
}

// front is up to when all delay topics have been read, in ms.
func (s *survey) front() int64 {
	front := int64(math.MaxInt64 / 2)
	for _, p := range s.delays {
		if !p.done() {
			front = min(front, p.last)
		}
	}
	return front
}

// margin is how far ahead the clocks of all may be that write requests.
const margin = time.Hour

// begin is before when nothing was delivered of what is judged, in ms; now is when there are no requests.
func (s *survey) begin(now time.Time) int64 {
	first := int64(never)
	for _, p := range s.delays {
		if p.first != unread {
			first = min(first, p.first)
		}
	}
	if first == never {
		first = now.UnixMilli()
	}
	return first - margin.Milliseconds()
}
