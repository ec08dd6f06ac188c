package topics

import "time"

// Route is what the configuration says of one delay topic. NewRoutes checks it
// and makes it ready; it does not change from then on, so many goroutines may
// use it.
type Route struct {
	// Topic is the delay topic.
	Topic string

	// Target is where records go that name no target. "" means that each must.
	Target string

	// Delay is the fixed delay of every record, counted from its timestamp.
	// Zero means that each record has its own.
	Delay time.Duration

	// Allow lists the targets that a record may name: topics, in which * is any
	// run of characters. Target is always allowed. A producer that may write the delay
	// topic borrows our right to write every topic that this matches.
	Allow []string

	// MaxDelay bounds how far ahead a record may be due when it is accepted.
	// Zero means no bound.
	MaxDelay time.Duration

	// DeadLetter is the topic for what cannot be delivered.
	DeadLetter string

	// Emit is which headers of ours delivered records carry.
	Emit Emit

	parser  Parser
	allowed map[string]bool // literals, and what is denied as false
	globs   []string
}

// Spec names the parser of this route, for the checkpoint.
func (r *Route) Spec() string { return Spec(r.Delay) }

// Parser returns the parser of this route as it is configured now.
func (r *Route) Parser() *Parser { return &r.parser }

// ParserFor returns the parser that a checkpoint names, with the fixed target
// of this route: a target does not decide a record's key, so the one of today
// holds for older records too.
func (r *Route) ParserFor(spec string) (*Parser, error) {
	p, err := ParserFor(spec)
	if err != nil {
		return nil, err
	}
	p.target = r.parser.target
	return p, nil
}

// Allowed tells whether a record may be delivered to target. It does not
// allocate.
func (r *Route) Allowed(target []byte) bool {
	if isInternal(target) {
		return false
	}
	if allowed, named := r.allowed[string(target)]; named {
		return allowed
	}
	for _, g := range r.globs {
		if match(g, target) {
			return true
		}
	}
	return false
}

// Refuse judges a request by the configuration of today: nil when it may be
// held. It is asked when a record is accepted, and never again in a replay.
func (r *Route) Refuse(q *Request, nowMillis int64) *Refusal {
	switch {
	case q.Kind != KindRequest:
		return nil
	case len(q.Target) == 0:
		return refuse(CodeNoTarget, StageParse, "", nil,
			"%s is not set, and the route %s has no target of its own", HeaderTargetTopic, r.Topic)
	case !r.Allowed(q.Target):
		return refuse(CodeTargetNotAllowed, StageAuthorize, HeaderTargetTopic, q.Target,
			"the route %s does not allow the target %s", r.Topic, q.Target)
	case r.MaxDelay > 0 && q.Due-nowMillis > ceilMillis(r.MaxDelay):
		return refuse(CodeTooFarAhead, StageStore, "", nil,
			"due at %s, which is more than max_delay %s ahead", format(q.Due), FormatDelay(r.MaxDelay))
	}
	return nil
}

// match tells whether name matches pattern, in which * is any run of
// characters. It never looks back further than the last *, so its time is at
// most the product of the lengths.
func match[T ~string | ~[]byte](pattern string, name T) bool {
	p, n := 0, 0
	star, from := -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
