package topics

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// NewRoutes returns the routes of a configuration in a form that can be asked.
// Records may never be delivered to a delay topic or a dead letter topic of the
// configuration, nor to a topic that begins with "__": that would let records of
// one topic act on another. What contradicts itself is refused rather than left
// to dead-letter what comes. The error names every problem.
func NewRoutes(all ...Route) ([]*Route, error) {
	roles := rolesOf(all)
	var errs []error
	made := make([]*Route, 0, len(all))
	seen := make(map[string]bool)
	for _, r := range all {
		if seen[r.Topic] {
			errs = append(errs, fmt.Errorf("route %q is given twice", r.Topic))
			continue
		}
		seen[r.Topic] = true
		route, err := roles.route(r)
		if err != nil {
			errs = append(errs, err...)
			continue
		}
		made = append(made, route)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return made, nil
}

// roles is what the configuration uses topics for.
type roles struct {
	delay map[string]bool
	dead  map[string]string // dead letter topic → a delay topic that it is for
}

func rolesOf(all []Route) roles {
	r := roles{delay: make(map[string]bool), dead: make(map[string]string)}
	for _, route := range all {
		r.delay[route.Topic] = true
		for _, dead := range route.LetterBoxes() {
			if r.dead[dead] == "" {
				r.dead[dead] = route.Topic
			}
		}
	}
	return r
}

// problems are those of one route.
type problems struct {
	route string
	errs  []error
}

func (p *problems) report(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("route %q: "+format, append([]any{p.route}, args...)...))
}

// route makes one of them ready, or says everything that is wrong with it.
func (s roles) route(r Route) (*Route, []error) {
	p := problems{route: r.Topic}
	s.checkOwnTopics(r, &p)
	checkDelays(r, &p)
	s.allow(&r, &p)
	checkRetry(r, &p)
	checkWhole(r, &p)
	checkIdle(r, &p)
	if r.Weight = cmp.Or(r.Weight, 1); r.Weight < 1 || r.Weight > MostWeight {
		p.report("weight is %d: 1 to %d", r.Weight, MostWeight)
	}
	r.parser.delay, r.parser.jitter = max(ceilMillis(r.Delay), 0), max(ceilMillis(r.Jitter), 0)
	r.parser.keyed, r.parser.onDuplicate, r.parser.remember = r.Keyed, r.OnDuplicate, max(ceilMillis(r.Remember), 0)
	if r.Retry != nil {
		r.parser.backoff = r.Retry.Backoff.whole()
	}
	aliases := checkNames(&r, &p)
	r.parser.prefix, r.parser.aliases, r.parser.sources = r.HeaderPrefix(), aliases&^sourcePresets, aliases.sourceNames()
	if len(p.errs) > 0 {
		return nil, p.errs
	}
	return &r, nil
}

// MostWeight is the highest weight of a route: more is a mistake.
const MostWeight = 1000

// checkOwnTopics judges the delay topic and the dead letter topic.
func (s roles) checkOwnTopics(r Route, p *problems) {
	all := []struct{ key, topic string }{{"topic", r.Topic}, {"dead_letter", r.DeadLetter}}
	if r.Retry != nil && r.Retry.Parking != "" {
		all = append(all, struct{ key, topic string }{"retry.parking", r.Retry.Parking})
	}
	for _, own := range all {
		switch {
		case own.key == "dead_letter" && !validTopic(r.Topic) && strings.HasPrefix(own.topic, r.Topic):
			// It follows from the delay topic's name.
		case !validTopic(own.topic):
			p.report("%s %q is not a topic name: %s", own.key, own.topic, whatAName)
		case isInternal(own.topic):
			p.report("%s %q is an internal one: names that begin with __ are Kafka's own", own.key, own.topic)
		}
	}
	for _, own := range all[1:] {
		if validTopic(own.topic) && s.delay[own.topic] {
			p.report("%s %q is the delay topic of a route: what could not be delivered would be a request again", own.key, own.topic)
		}
	}
}

// mostAttempts is more than a backoff can be meant to allow.
const mostAttempts = 100_000

// checkWhole refuses what would be rounded: due times are whole milliseconds. (max_delay is a limit, and none of use is so near to another.)
func checkWhole(r Route, p *problems) {
	whole := func(key string, d time.Duration) {
		if d > 0 && d%time.Millisecond != 0 {
			p.report("%s %s is no whole number of milliseconds: write %s", key, FormatDelay(d), FormatDelay(time.Duration(ceilMillis(d))*time.Millisecond))
		}
	}
	whole("delay", r.Delay)
	whole("jitter", r.Jitter)
	whole("expire_after", r.ExpireAfter)
	whole("ids.remember", r.Remember)
	if r.Retry == nil {
		return
	}
	whole("retry.backoff.initial", r.Retry.Backoff.Initial)
	whole("retry.backoff.max", r.Retry.Backoff.Max)
	for _, part := range []struct {
		key string
		is  float64
	}{{"factor", r.Retry.Backoff.Factor}, {"jitter", r.Retry.Backoff.Jitter}} {
		if thousandths := part.is * thousand; math.Abs(thousandths-math.Round(thousandths)) > 1e-6*max(1, math.Abs(part.is)) {
			p.report("retry.backoff.%s %v has more than three decimals, and only so many count", part.key, part.is)
		}
	}
}

func checkRetry(r Route, p *problems) {
	if r.ExpireAfter < 0 {
		p.report("expire_after %s is negative", FormatDelay(r.ExpireAfter))
	}
	if r.Jitter < 0 {
		p.report("jitter %s is negative", FormatDelay(r.Jitter))
	}
	switch {
	case r.Remember == 0:
	case r.Remember < LeastRemember:
		p.report("ids.remember %s is below %s, which the clocks of producers may differ by", FormatDelay(r.Remember), FormatDelay(LeastRemember))
	case r.OnDuplicate == DuplicateReplaces:
		p.report("ids.remember does nothing on a route where a record replaces the one that has its id, which is meant to be used again; leave it out, or write ids.on_duplicate: reject or ignore")
	}
	if r.Retry == nil {
		return
	}
	for _, fault := range r.Retry.Backoff.whole().faults() {
		p.report("retry.%s", fault)
	}
	if n := r.Retry.MaxAttempts; n < 1 || n > mostAttempts {
		p.report("retry.max_attempts is %d: 1 to %d", n, mostAttempts)
	}
	switch {
	case r.Delay > 0: // which does nothing
	case r.MaxDelay > 0 && r.Retry.Backoff.longest() > r.MaxDelay:
		p.report("retry.backoff.max %s, with its jitter, is above max_delay %s: raise that, if so long a pause is meant", FormatDelay(r.Retry.Backoff.Max), FormatDelay(r.MaxDelay))
	case r.Retry.FromHeaders && len(r.Allow) == 0 && r.Target == "":
		p.report("retry.target is from_headers, and targets.allow is empty: nothing could be delivered")
	}
}

// leastMaxDelay is less than a route can be meant to allow: its unit was mistyped.
const leastMaxDelay = time.Second

func checkDelays(r Route, p *problems) {
	if r.Delay < 0 {
		p.report("delay %s is negative", FormatDelay(r.Delay))
	}
	if r.MaxDelay < 0 {
		p.report("max_delay %s is negative", FormatDelay(r.MaxDelay))
	}
	if r.MaxDelay > 0 && r.MaxDelay < leastMaxDelay {
		p.report("max_delay %v is below %s: nearly every record would be dead-lettered", r.MaxDelay, FormatDelay(leastMaxDelay))
	}
	if r.MaxDelay > 0 && ceilMillis(r.Delay) > ceilMillis(r.MaxDelay) {
		p.report("delay %s is above max_delay %s: raise that, if so long a delay is meant", FormatDelay(r.Delay), FormatDelay(r.MaxDelay))
	}
	if r.MaxDelay > 0 && r.Delay == 0 && r.Retry == nil && r.Jitter > r.MaxDelay {
		p.report("jitter %s is above max_delay %s: a record could wait longer for that than for what it asks", FormatDelay(r.Jitter), FormatDelay(r.MaxDelay))
	}
}

// allow fills in what may be a target.
func (s roles) allow(r *Route, p *problems) {
	r.allowed, r.globs = make(map[string]bool), nil
	for topic := range s.delay {
		r.allowed[topic] = false
	}
	for topic := range s.dead {
		r.allowed[topic] = false
	}
	if r.Target != "" {
		r.parser.target = []byte(r.Target)
		if !validTopic(r.Target) {
			p.report("target %q is not a topic name: %s", r.Target, whatAName)
		} else {
			s.permit(r, r.Target, "target is", p)
		}
	}
	for _, a := range r.Allow {
		switch literal := strings.ReplaceAll(a, "*", "x"); {
		case !validTopic(literal):
			p.report("targets.allow has %q, which is neither a topic name nor one with *", a)
		case literal == a || isInternal(a):
			s.permit(r, a, "targets.allow has", p)
		default:
			r.globs = append(r.globs, a)
		}
	}
}

// permit makes topic a target, unless it is something else already.
func (s roles) permit(r *Route, topic, said string, p *problems) {
	of, dead := s.dead[topic]
	switch {
	case isInternal(topic):
		p.report("%s %q, an internal topic: names that begin with __ are Kafka's own", said, topic)
	case s.delay[topic]:
		p.report("%s %q, the delay topic of route %q: it cannot be a target as well", said, topic, topic)
	case dead:
		p.report("%s %q, the dead letter topic of route %q: it cannot be a target as well", said, topic, of)
	default:
		r.allowed[topic] = true
	}
}

// isInternal tells whether a name is one of those that Kafka keeps for itself.
func isInternal[T ~string | ~[]byte](topic T) bool {
	return len(topic) >= 2 && topic[0] == '_' && topic[1] == '_'
}

// FormatDelay writes a duration as a configuration has it: 400d, 1h30m.
func FormatDelay(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
