package processor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
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
	log    *slog.Logger
	vain   vain
	inVain int // looks in a row that were not answered
}

// keepingInterval is how soon a change is noticed. Compaction and retention take minutes at least.
const keepingInterval = time.Minute

func newKeeping(sh *shared) *keeping {
	return &keeping{shared: sh, log: sh.cfg.Logger, vain: newVain()}
}

// run looks until ctx ends.
func (k *keeping) run(ctx context.Context, cl *kgo.Client) {
	adm := kadm.NewClient(cl)
	for {
		k.look(ctx, adm)
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

// look asks for the settings of the delay topics that this process has partitions of. What fails of one keeps no other from being looked at.
func (k *keeping) look(ctx context.Context, adm *kadm.Client) {
	needs := k.needs()
	k.forget(needs)
	patience := kafka.RequestTimeout << min(k.inVain, 2) // brokers may be slow to answer
	losing, why := apart(ctx, patience, slices.Sorted(maps.Keys(needs)), func(ctx context.Context, names []string) (map[string]topics.Loss, error) {
		some := map[string]time.Duration{}
		for _, name := range names {
			some[name] = needs[name]
		}
		return topics.Losing(ctx, adm, some)
	})
	if ctx.Err() != nil {
		return
	}
	if k.inVain++; len(why) == 0 {
		k.inVain = 0
	}
	for topic := range needs {
		loss, told := losing[topic]
		if err := cmp.Or(why[topic], loss.Err); err != nil || !told {
			k.failed(topic, cmp.Or[error](err, kerr.UnknownTopicOrPartition))
			continue
		}
		k.vain.over(topic)
		k.noteUnseen(topic, "")
		k.note(topic, loss.Problem)
	}
}

// failed takes in that the settings of a topic cannot be looked at, which is said when it lasts. Until they can, what was seen last counts.
func (k *keeping) failed(topic string, err error) {
	k.log.Debug("the settings of a delay topic cannot be looked at; trying again", "topic", topic, "error", err)
	if k.vain.failed(topic, err) {
		k.noteUnseen(topic, fmt.Sprintf("its settings cannot be read (%v): see that this user has the right to DescribeConfigs of the topic", err))
	}
}

// forget stops naming topics of which nothing is here any more: who has their partitions looks at them.
func (k *keeping) forget(needs map[string]time.Duration) {
	for topic, stats := range k.counters.topics {
		if _, here := needs[topic]; !here {
			stats.trouble.Store(nil)
			stats.unseen.Store(nil)
			k.vain.over(topic)
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

// noteUnseen tells once why it is not known whether a topic keeps what is pending; "": it is.
func (k *keeping) noteUnseen(topic, why string) {
	stats := k.counters.topics[topic]
	switch was := saidWhy(&stats.unseen); {
	case was == why:
		return
	case why == "":
		k.log.Info("it is known again whether a delay topic keeps what is pending", "topic", topic)
	default:
		k.log.Warn("it is not known whether a delay topic keeps what is pending", "topic", topic, "why", why)
	}
	stats.unseen.Store(&why)
}
