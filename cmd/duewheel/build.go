package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

const (
	defaultStateDir = "duewheel-state"
	// defaultMaxDelay is beyond anything that is meant and below a mistyped unit.
	defaultMaxDelay = 366 * 24 * time.Hour
)

// route turns one entry of routes into what the processor takes, defaults filled in.
func (r *routeSettings) route() topics.Route {
	return topics.Route{
		Topic:       r.Topic,
		Target:      r.Target,
		Delay:       r.Delay,
		Allow:       r.Allow,
		MaxDelay:    cmp.Or(r.MaxDelay, defaultMaxDelay),
		DeadLetter:  cmp.Or(r.DeadLetter, r.Topic+".dead"),
		EmitHeaders: r.Emit != "none",
	}
}

// processorConfig turns settings into a processor's configuration. Brokers and state directory are
// the caller's to fill in. The error names what is missing by its key; the configuration has
// something in its place, so that the processor does not report it a second time.
func (s *settings) processorConfig(logger *slog.Logger) (processor.Config, error) {
	var errs []error
	missing := func(path string) {
		errs = append(errs, fmt.Errorf("%s is missing: give it in the file or as %s", shown(path), envName(path)))
	}
	c := processor.Config{
		Group:              s.Group,
		Guarantee:          s.Guarantee,
		Lanes:              s.Lanes,
		MemoryBudget:       s.MemoryBudget,
		Protocol:           s.Protocol,
		InstanceID:         s.InstanceID,
		SessionTimeout:     s.SessionTimeout,
		HeartbeatInterval:  s.HeartbeatInterval,
		TransactionTimeout: s.TransactionTimeout,
		NearWindow:         s.NearWindow,
		BatchRecords:       s.BatchRecords,
		BatchBytes:         s.BatchBytes,
		CommitInterval:     s.CommitInterval,
		TurnTimeout:        s.TurnTimeout,
		RetryBackoff:       s.RetryBackoff,
		UnknownTargetAfter: s.UnknownTargetAfter,
		MaxClockSkew:       s.MaxClockSkew,
		AcceptLoss:         s.AcceptLoss,
		Standbys:           s.Standbys,
		Instance:           s.Instance,
		Logger:             logger,
	}
	if c.Group == "" {
		missing("group.id")
		c.Group = "missing"
	}
	for i, r := range s.Routes {
		path := fmt.Sprintf("routes.%d.", i)
		route := r.route()
		if r.Topic == "" {
			missing(path + "topic")
			route.Topic, route.DeadLetter = fmt.Sprintf("missing-%d", i), fmt.Sprintf("missing-%d.dead", i)
		}
		if r.Target == "" && len(r.Allow) == 0 {
			errs = append(errs, fmt.Errorf("%s has neither target nor targets.allow: nothing could be delivered", shown(path[:len(path)-1])))
		}
		c.Routes = append(c.Routes, route)
	}
	if len(c.Routes) == 0 {
		missing("routes.0.topic")
		c.Routes = []topics.Route{{Topic: "missing", Target: "missing-target", DeadLetter: "missing.dead"}}
	}
	return c, joinLines(errs...)
}
