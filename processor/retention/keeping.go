package retention

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

// Keeping looks whether delay topics keep what is pending in them: settings change while the processor
// runs, and the log is the only copy that outlives it. It stops nothing. One goroutine owns it; lanes
// ask it to look sooner.
type Keeping struct {
	*Env
	log    *slog.Logger
	vain   vain
	inVain int // looks in a row that were not answered
}

// LookInterval is how soon a change is noticed. Compaction and retention take minutes at least.
const LookInterval = time.Minute

// NewKeeping makes one that has not begun.
func NewKeeping(e *Env) *Keeping {
	return &Keeping{Env: e, log: e.Log, vain: newVain()}
}

// Run looks until ctx ends.
func (k *Keeping) Run(ctx context.Context, cl *kgo.Client) {
	adm := kadm.NewClient(cl)
	for {
		k.look(ctx, adm)
		t := time.NewTimer(LookInterval)
		select {
		case <-t.C:
		case <-k.Settings: // a rebalance tells of several lanes
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
func (k *Keeping) look(ctx context.Context, adm *kadm.Client) {
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
func (k *Keeping) failed(topic string, err error) {
	k.log.Debug("the settings of a delay topic cannot be looked at; trying again", "topic", topic, "error", err)
	if k.vain.failed(topic, err) {
		k.noteUnseen(topic, fmt.Sprintf("its settings cannot be read (%v): see that this user has the right to DescribeConfigs of the topic", err))
	}
}

// forget stops naming topics of which nothing is here any more: who has their partitions looks at them.
func (k *Keeping) forget(needs map[string]time.Duration) {
	for topic, stats := range k.Topics {
		if _, here := needs[topic]; !here {
			stats.Trouble.Set("")
			stats.Unseen.Set("")
			k.vain.over(topic)
		}
	}
}

// needs is for how long each topic has to keep what is pending in it.
func (k *Keeping) needs() map[string]time.Duration {
	needs := map[string]time.Duration{}
	for _, p := range k.Pictures() {
		needs[p.Topic] = max(needs[p.Topic], p.Needs)
	}
	return needs
}

// note tells of a topic what is new.
func (k *Keeping) note(topic string, problem *topics.Problem) {
	stats := k.Topics[topic]
	if problem == nil {
		if stats.Trouble.Set("") != "" {
			k.log.Info("delay topic keeps what is pending again", "topic", topic)
		}
		return
	}
	why := "the topic loses records: " + problem.What + "; " + problem.Why + ": " + problem.Mend
	if stats.Trouble.Set(why) != why {
		k.log.Error("delay topic loses records", "topic", topic, "what", problem.What, "why", problem.Why, "mend", problem.Mend)
	}
}

// noteUnseen tells once why it is not known whether a topic keeps what is pending; "": it is.
func (k *Keeping) noteUnseen(topic, why string) {
	switch was := k.Topics[topic].Unseen.Set(why); {
	case was == why:
	case why == "":
		k.log.Info("it is known again whether a delay topic keeps what is pending", "topic", topic)
	default:
		k.log.Warn("it is not known whether a delay topic keeps what is pending", "topic", topic, "why", why)
	}
}
