package main

import (
	"fmt"
	"slices"

	"github.com/duewheel/duewheel/processor/setting"
	"github.com/duewheel/duewheel/topics"
)

// idle says what was written of a route and can have no effect, but for what topics.NewRoutes refuses.
func (r routeSettings) idle(route *topics.Route) []error {
	errs := route.Idle(setting.Given(r))
	for _, why := range r.Retry.idle(r.Target) {
		errs = append(errs, fmt.Errorf("route %q: %s", route.Topic, why))
	}
	return errs
}

// idle says what another setting leaves without effect, and what to write instead.
func (r retrySettings) idle(target string) (all []string) {
	with := r // its defaults
	setting.Fill(&with)
	b, said := with.Backoff, r.Backoff
	once := with.MaxAttempts == 1
	for _, f := range []struct {
		is   bool
		says string
	}{
		{len(r.Strip) > 1 && slices.Contains(r.Strip, stripNone), "retry.strip has none beside others: write none alone, or leave it out"},
		{target != "" && r.Target != "" && r.Target != fromHeaders,
			"target does nothing where retry.target is a topic; leave it out, or write retry.target: from_headers, and it is for records that name none"},
		{once && said.Factor != nil, "retry.backoff.factor does nothing where retry.max_attempts is 1: the only pause is retry.backoff.initial; leave it out"},
		{once && said.Max != 0, "retry.backoff.max does nothing where retry.max_attempts is 1: the only pause is retry.backoff.initial; leave it out"},
		{!once && said.Max != 0 && *b.Factor == 1 && b.Max >= b.Initial, "retry.backoff.max does nothing where retry.backoff.factor is 1: all pauses are retry.backoff.initial; leave it out, or raise the factor"},
		{!once && said.Factor != nil && *b.Factor > 1 && b.Max == b.Initial, "retry.backoff.factor does nothing where retry.backoff.max is as short as retry.backoff.initial; raise the maximum, or leave the factor out"},
	} {
		if f.is {
			all = append(all, f.says)
		}
	}
	return all
}
