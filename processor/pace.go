package processor

import "time"

// pace is how soon one turn of a lane may follow another. What a transaction costs brokers is mostly
// fixed, so that turns begun at once, each with what has become due meanwhile, keep a broker busy
// with decisions.
type pace struct {
	fixed  time.Duration // turn_interval; 0: by what turns take
	freely bool          // at_least_once: there is no decision to be paid for
	taken  time.Duration // what a turn took of late, smoothed
	next   time.Time     // when the next may begin
}

const (
	leastInterval = 2 * time.Millisecond
	mostInterval  = 10 * time.Millisecond

	// leastPause keeps a lane from spinning while something is due that cannot be tried yet.
	leastPause = 200 * time.Microsecond
)

// interval is the time from one turn's beginning to the next one's, at least.
func (p *pace) interval() time.Duration {
	if p.fixed > 0 || p.freely {
		return p.fixed
	}
	return min(max(p.taken*3/2, leastInterval), mostInterval)
}

// ended takes in a turn. One that could not hold all that was due is followed at once.
func (p *pace) ended(began, now time.Time, full bool) {
	took := now.Sub(began)
	if p.taken == 0 {
		p.taken = took
	}
	p.taken += (took - p.taken) / 8
	p.next = began.Add(p.interval())
	if full {
		p.next = now
	}
}

// left is how long no turn may begin.
func (p *pace) left(now time.Time) time.Duration { return max(p.next.Sub(now), 0) }
