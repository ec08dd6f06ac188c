package processor

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/topics"
)

// keeping looks whether delay topics keep what is pending in them: settings change while the processor
// runs, and the log is the only copy that outlives it. It stops nothing. One goroutine owns it; lanes
// ask it to look sooner.
type keeping struct {
	*shared
	log *slog.Logger
}

// keepingInterval is how soon a change is noticed. Compaction and retention take minutes at least.
const keepingInterval = time.Minute

func newKeeping(sh *shared) *keeping { return &keeping{shared: sh, log: sh.cfg.Logger} }

// run looks until ctx ends.
func (k *keeping) run(ctx context.Context, cl *kgo.Client) {
	adm := kadm.NewClient(cl)
	for {
		if err := k.look(ctx, adm); err != nil && ctx.Err() == nil {
			k.log.Debug("the settings of delay topics cannot be looked at; trying again", "error", err)
		}
		t := time.NewTimer(keepingInterval)
		select {
		case <-t.C:
		case <-k.settings: // a rebalance tells of several lanes
			t.Stop()
			if !wait.For(ctx, time.Second) {
				return
			}
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// look asks for the settings of the delay topics that this process has partitions of.
func (k *keeping) look(ctx context.Context, adm *kadm.Client) error {
	needs := k.needs()
	k.forget(needs)
	if len(needs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	problems, err := topics.Losing(ctx, adm, needs)
	if err != nil {
		return err
	}
	for topic := range needs {
		k.note(topic, problems[topic])
	}
	return nil
}

// forget stops naming topics of which nothing is here any more: who has their partitions looks at them.
func (k *keeping) forget(needs map[string]time.Duration) {
	for topic, stats := range k.counters.topics {
		if _, here := needs[topic]; !here {
			stats.trouble.Store(nil)
		}
	}
}

// needs is for how long each topic has to keep what is pending in it.
func (k *keeping) needs() map[string]time.Duration {
	needs := map[string]time.Duration{}
	for _, p := range k.assigned.pictures() {
		needs[p.Topic] = max(needs[p.Topic], p.Needs)
	}
	return needs
}

// note tells of a topic what is new.
func (k *keeping) note(topic string, problem *topics.Problem) {
	stats := k.counters.topics[topic]
	was := stats.trouble.Load()
	if problem == nil {
		if stats.trouble.Store(nil); was != nil {
			k.log.Info("delay topic keeps what is pending again", "topic", topic)
		}
		return
	}
	why := "the topic loses records: " + problem.What + "; " + problem.Why + ": " + problem.Mend
	if stats.trouble.Store(&why); was == nil || *was != why {
		k.log.Error("delay topic loses records", "topic", topic, "what", problem.What, "why", problem.Why, "mend", problem.Mend)
	}
}
