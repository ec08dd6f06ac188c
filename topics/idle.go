package topics

import (
	"fmt"
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

// idle says why a setting has no effect on a kind of route, and what to write instead.
var idle = map[string]map[kind]string{
	"delay": {forRetries: "the pause of each record follows from retry.backoff; write retry.backoff.initial, and retry.backoff.factor: 1 where all pauses are to be as long"},
	"jitter": {
		fixedDelay: inOrder + "so cannot be spread; leave it out, or delay, and have producers write delay-for",
		forRetries: "a backoff has a jitter of its own; write retry.backoff.jitter",
	},
	"on_unknown_cancel": {fixedDelay: inOrder + "cannot be cancelled" + leave},
	"on_late_replace":   {fixedDelay: inOrder + "cannot be replaced" + leave},
	"mode":              {fixedDelay: inOrder + "have no ids" + forIDs + "delay", forRetries: "what a consumer has failed to process has no id" + forIDs + "retry"},
	"ids.on_duplicate":  {fixedDelay: inOrder + "have no ids" + forIDs + "delay", forRetries: "what a consumer has failed to process has no id" + forIDs + "retry"},
	"ids.remember":      {fixedDelay: inOrder + "have no ids" + forIDs + "delay", forRetries: "what a consumer has failed to process has no id" + forIDs + "retry"},
}

// Idle says why a setting, by its key below routes in a configuration file, can have no effect on this route, and what to write instead; nil
// when it has one.
func (r *Route) Idle(key string) error {
	if why := idle[key][r.kind()]; why != "" {
		return fmt.Errorf("route %q: %s does nothing on %s: %s", r.Topic, key, kindNames[r.kind()], why)
	}
	return nil
}

// checkIdle refuses what is set and can have no effect.
func checkIdle(r Route, p *problems) {
	for _, set := range []struct {
		key string
		is  bool
	}{
		{"delay", r.Delay > 0}, {"jitter", r.Jitter > 0}, {"on_unknown_cancel", r.CancelsAnswered}, {"on_late_replace", r.ReplacesLate},
		{"mode", r.Keyed}, {"ids.on_duplicate", r.OnDuplicate != DuplicateRejected && !(r.Keyed && r.OnDuplicate == DuplicateReplaces)}, // which follows from the mode
		{"ids.remember", r.Remember != 0},
	} {
		if err := r.Idle(set.key); set.is && err != nil {
			p.errs = append(p.errs, err)
		}
	}
	if r.Retry == nil {
		return
	}
	for _, pattern := range r.Retry.Strip {
		if LeftOut(pattern, r.HeaderPrefix()) {
			p.report("retry.strip has %q, which does nothing: names that begin with %s or %s are taken off everywhere; leave it out", pattern, r.HeaderPrefix(), strings.TrimSuffix(errorPrefix, "."))
		}
	}
}
