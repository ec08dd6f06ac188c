package topics

import (
	"fmt"
	"slices"
	"strings"
)

// Some settings mean something on some kinds of routes only. What can have no effect is refused by its name in a configuration file, with what
// to write instead: a setting that is taken without a word is believed to work.

// kind is how a route comes by due times.
type kind uint8

const (
	byHeader   kind = iota // each record has its own
	fixedDelay             // all have the same delay
	forRetries             // they follow from a backoff
)

func (r *Route) kind() kind {
	switch {
	case r.Retry != nil:
		return forRetries
	case r.Delay != 0:
		return fixedDelay
	}
	return byHeader
}

var kindNames = [...]string{"a route whose records have due times of their own", "a route with a fixed delay", "a retry route"}

const (
	inOrder = "its records wait in the order of the log, and "
	leave   = "; leave it out"
	forIDs  = "; leave it out, or give ids to a route without "
)

// idleSetting is one that has no effect on some kinds of routes.
type idleSetting struct {
	key string
	set func(*Route) bool // it is not what holds without it
	why map[kind]string   // it has no effect, and what to write instead
}

var noIDs = map[kind]string{fixedDelay: inOrder + "have no ids" + forIDs + "delay", forRetries: "what a consumer has failed to process has no id" + forIDs + "retry"}

var idleSettings = []idleSetting{
	{"delay", func(r *Route) bool { return r.Delay > 0 }, map[kind]string{
		forRetries: "the pause of each record follows from retry.backoff; write retry.backoff.initial, and retry.backoff.factor: 1 where all pauses are to be as long",
	}},
	{"jitter", func(r *Route) bool { return r.Jitter > 0 }, map[kind]string{
		fixedDelay: inOrder + "so cannot be spread; leave it out, or delay, and have producers write delay-for",
		forRetries: "a backoff has a jitter of its own; write retry.backoff.jitter",
	}},
	{"carry", func(r *Route) bool { return r.Carry != nil }, map[kind]string{
		fixedDelay: inOrder + "are not carried" + leave + ", and give the topic a retention.ms longer than the delay, or -1",
	}},
	{"on_unknown_cancel", func(r *Route) bool { return r.CancelsAnswered }, map[kind]string{fixedDelay: inOrder + "cannot be cancelled" + leave}},
	{"on_late_replace", func(r *Route) bool { return r.ReplacesLate }, map[kind]string{fixedDelay: inOrder + "cannot be replaced" + leave}},
	{"mode", func(r *Route) bool { return r.Keyed }, noIDs},
	{"ids.on_duplicate", func(r *Route) bool {
		return r.OnDuplicate != DuplicateRejected && !(r.Keyed && r.OnDuplicate == DuplicateReplaces) // which follows from the mode
	}, noIDs},
	{"ids.remember", func(r *Route) bool { return r.Remember != 0 }, noIDs},
}

// idle says that a setting has no effect on a route, and what to write instead; nil when it has one.
func (s *idleSetting) idle(r *Route) error {
	if why := s.why[r.kind()]; why != "" {
		return fmt.Errorf("route %q: %s does nothing on %s: %s", r.Topic, s.key, kindNames[r.kind()], why)
	}
	return nil
}

// Idle says which settings have no effect on this route that were written, by their keys below routes in a configuration file, with the value
// that holds without them. Those with another value NewRoutes refuses.
func (r *Route) Idle(written []string) (errs []error) {
	for i := range idleSettings {
		s := &idleSettings[i]
		if err := s.idle(r); err != nil && slices.Contains(written, s.key) && !s.set(r) {
			errs = append(errs, err)
		}
	}
	return errs
}

// checkIdle refuses what is set and can have no effect.
func checkIdle(r Route, p *problems) {
	for i := range idleSettings {
		s := &idleSettings[i]
		if err := s.idle(&r); err != nil && s.set(&r) {
			p.errs = append(p.errs, err)
		}
	}
	if r.Retry == nil {
		return
	}
	for _, pattern := range r.Retry.Strip {
		if leftOut(pattern, r.HeaderPrefix()) {
			p.report("retry.strip has %q, which does nothing: names that begin with %s or %s are taken off everywhere; leave it out", pattern, r.HeaderPrefix(), strings.TrimSuffix(errorPrefix, "."))
		}
	}
}
