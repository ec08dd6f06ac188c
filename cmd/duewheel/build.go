package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/setting"
	"github.com/duewheel/duewheel/topics"
)

// route turns one entry of routes into what the processor takes, defaults filled in.
func (r routeSettings) route() topics.Route {
	retries := !reflect.ValueOf(r.Retry).IsZero()
	setting.Fill(&r)
	route := r.Route
	route.DeadLetter = cmp.Or(r.DeadLetter, r.Topic+".dead")
	route.CancelsAnswered, route.ReplacesLate = r.OnUnknownCancel == "dead_letter", r.OnLateReplace == "deliver"
	if route.Keyed = r.Mode == "keyed"; route.Keyed {
		route.OnDuplicate = topics.DuplicateReplaces
	}
	_ = route.OnDuplicate.UnmarshalText([]byte(r.OnDuplicate)) // nothing said, or no word for it, leaves it
	if retries {
		r.Retry.addTo(&route)
	}
	return route
}

// fromHeaders is the target of a retry route whose records name theirs.
const fromHeaders = "from_headers"

// stripNone is what stands for no header in a list of those that delivered records lose.
const stripNone = "none"

// addTo makes a route one for retries.
func (r retrySettings) addTo(route *topics.Route) {
	retries, b := r.Retrying, r.Backoff
	retries.Backoff = topics.Backoff{Initial: b.Initial, Factor: *b.Factor, Max: b.Max, Jitter: *b.Jitter}
	route.Retry = &retries
	switch {
	case len(r.Strip) == 0:
		route.Retry.Strip = topics.ErrorHeaders
	case slices.Equal(r.Strip, []string{stripNone}):
		route.Retry.Strip = nil
	}
	if route.Retry.FromHeaders = r.Target == "" || r.Target == fromHeaders; !route.Retry.FromHeaders {
		route.Target = cmp.Or(route.Target, r.Target)
	}
}

// isEmpty tells whether nothing was said of a route.
func (r routeSettings) isEmpty() bool { return reflect.ValueOf(r).IsZero() }

// missing says that a key has to be given, unless something that was not understood was said of it.
func (s *settings) missing(path string) error {
	if s.isUnread(path) {
		return nil
	}
	return fmt.Errorf("%s is missing: give it in the file or as %s", shown(path), envName(path))
}

// routes are those of the configuration. What is missing is named by its key and has something in
// its place, so that it is not reported a second time.
func (s *settings) routes() ([]topics.Route, error) {
	var errs []error
	var all []topics.Route
	if gap := slices.IndexFunc(s.Routes, routeSettings.isEmpty); gap >= 0 && !s.isUnread("routes.0.topic") {
		errs = append(errs, fmt.Errorf("routes[%d] is given and routes[%d] is not: they are counted from 0 without a gap", len(s.Routes)-1, gap))
	}
	for i, r := range s.Routes {
		if r.isEmpty() {
			continue
		}
		path, route := fmt.Sprintf("routes.%d", i), r.route()
		if r.Topic == "" {
			errs = append(errs, s.missing(path+".topic"))
			route.Topic, route.DeadLetter = fmt.Sprintf("missing-%d", i), fmt.Sprintf("missing-%d.dead", i)
		}
		if route.Target == "" && len(r.Allow) == 0 && !s.isUnread(path+".target", path+".targets.allow") {
			errs = append(errs, fmt.Errorf("%s has neither target nor targets.allow: nothing could be delivered", shown(path)))
		}
		if t := r.Retry.Target; t != fromHeaders && distance(strings.ToLower(t), fromHeaders) <= 2 {
			errs = append(errs, fmt.Errorf("%s is %q, which is the name of a topic; the nearest known one is %s", shown(path+".retry.target"), t, fromHeaders))
		}
		errs = append(errs, r.idle(&route)...)
		all = append(all, route)
	}
	return all, errors.Join(errs...)
}

// processorConfig turns settings into a processor's configuration. Brokers and state directory are
// the caller's to fill in. The error names what is missing by its key; the configuration has
// something in its place, so that the processor does not report it a second time.
func (s *settings) processorConfig(logger *slog.Logger) (processor.Config, error) {
	routes, err := s.routes()
	errs := []error{err}
	c := s.Config
	c.Logger = logger
	if c.Group == "" {
		errs = append(errs, s.missing("group.id"))
		c.Group = "missing"
	}
	if c.Routes = routes; len(routes) == 0 {
		errs = append(errs, s.missing("routes.0.topic"))
		c.Routes = []topics.Route{{Topic: "missing", Target: "missing-target", DeadLetter: "missing.dead"}}
	}
	for _, told := range []struct {
		key string
		is  time.Duration
	}{{"group.session_timeout", s.SessionTimeout}, {"group.heartbeat_interval", s.HeartbeatInterval}} {
		if told.is != 0 && s.Protocol == processor.ProtocolConsumer {
			errs = append(errs, fmt.Errorf("%s is given with group.protocol: consumer, where the brokers decide: set it for the group (docs/operations.md)", told.key))
		}
	}
	return c, joinLines(errs...)
}
