package retention

import (
	"cmp"
	"context"
	"errors"
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

// ageing finds out how old the logs of delay topics are: what the topics keep, and where in their logs what is half as old lies. It belongs
// to a carrier. While brokers do not answer, what they have said before counts.
type ageing struct {
	*Env
	log      *slog.Logger
	lane     int
	keeps    map[string]topics.Keeping // by topic
	fails    map[string]time.Time      // since when it is asked in vain of a topic
	lookedAt time.Time
	failing  wait.Backoff
}

const (
	// carryLook is how often brokers are asked how old a log is: once in a twentieth of what it keeps, and within these bounds.
	carryLook, carryLookMost = time.Second, time.Minute
	// carryUnaskedLeast and Unsaid are for how long it may be asked in vain how old logs are before that is said: an eighth of what the topic keeps, within
	// these bounds.
	carryUnaskedLeast = 5 * time.Second
)

// errUnreadable is that a topic's settings may not be read.
var errUnreadable = errors.New("its settings cannot be read")

// every is how often brokers are asked.
func (a *ageing) every() time.Duration {
	every := carryLookMost
	for _, k := range a.keeps {
		if k.Age > 0 {
			every = min(every, max(k.Age/20, carryLook))
		}
	}
	return every
}

// look asks of the topics of some partitions when it is time to.
func (a *ageing) look(ctx context.Context, cl *kgo.Client, of map[kafka.TopicPartition]*carriage) {
	here := map[string]bool{}
	for tp := range of {
		here[tp.Topic] = true
	}
	a.forget(here)
	if len(here) == 0 || time.Since(a.lookedAt) < a.every() {
		return
	}
	a.lookedAt = time.Now()
	names := slices.Sorted(maps.Keys(here))
	why := a.ask(ctx, cl, of, names)
	if ctx.Err() != nil {
		return
	}
	failed := false
	for _, topic := range names {
		a.heard(topic, why[topic])
		failed = failed || why[topic] != nil
	}
	if failed {
		a.lookedAt = time.Now().Add(max(a.failing.Failed(), wait.LeastRest) - a.every())
	}
}

// forget forgets topics of which nothing is here any more, and what was said of them: the replica that has their partitions looks at them.
func (a *ageing) forget(but map[string]bool) {
	maps.DeleteFunc(a.keeps, func(topic string, _ topics.Keeping) bool { return !but[topic] })
	maps.DeleteFunc(a.fails, func(topic string, _ time.Time) bool { return !but[topic] })
	for topic, stats := range a.Topics {
		if !but[topic] {
			stats.Uncarried.Set(int32(a.lane), "")
		}
	}
}

// ask asks what topics keep, and where in their logs what is half as old lies. It says of which that is not known.
func (a *ageing) ask(ctx context.Context, cl *kgo.Client, of map[kafka.TopicPartition]*carriage, names []string) (why map[string]error) {
	why = map[string]error{}
	soon, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	keeps, err := topics.Keeps(soon, kadm.NewClient(cl), names...)
	for _, topic := range names {
		k, has := keeps[topic]
		switch {
		case err != nil || !has:
			why[topic] = fmt.Errorf("brokers do not say for how long it keeps its log: %w", cmp.Or[error](err, kerr.UnknownTopicOrPartition))
		case k.Err != nil:
			why[topic] = unreadableSettings(k.Err)
		default:
			a.keeps[topic] = k
			a.Topics[topic].Keeps.Store(k.Age.Milliseconds())
		}
		if age := a.keeps[topic].Age; age > 0 {
			why[topic] = cmp.Or(a.lookAt(ctx, cl, of, topic, age), why[topic])
		}
	}
	return why
}

// unreadableSettings says what it means that a topic's settings cannot be read.
func unreadableSettings(err error) error {
	return fmt.Errorf("%w (%w), so it is not known for how long it keeps its log: give this user the right to DescribeConfigs of the topic, or set carry: false on the route", errUnreadable, err)
}

// lookAt asks where in a topic that lies which is half as old as what it keeps, and three quarters. What some brokers do not answer is left
// as it was.
func (a *ageing) lookAt(ctx context.Context, cl *kgo.Client, of map[kafka.TopicPartition]*carriage, topic string, age time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	now := a.Now()
	old, err := kafka.OffsetsAfter(ctx, cl, topic, now-age.Milliseconds()/2)
	ageing, failed := kafka.OffsetsAfter(ctx, cl, topic, now-age.Milliseconds()/4*3)
	err = cmp.Or(err, failed)
	for tp, g := range of {
		if tp.Topic != topic {
			continue
		}
		for _, into := range []struct {
			offset *int64
			from   kadm.ListedOffsets
		}{{&g.old, old}, {&g.ageing, ageing}} {
			if o, ok := into.from.Lookup(tp.Topic, tp.Partition); ok && o.Err == nil {
				if o.Timestamp < 0 { // nothing is younger. Where the log ends was asked after that, and what came between is younger
					o.Offset = min(o.Offset, g.end)
				}
				*into.offset = o.Offset
			} else {
				err = cmp.Or(err, o.Err, error(kerr.LeaderNotAvailable))
			}
		}
	}
	if err != nil {
		return fmt.Errorf("brokers do not say how old its log is: %w", err)
	}
	return nil
}

// heard takes in whether it is known how old the log of a topic is. That it is not is said when nothing can be done meanwhile, or when it lasts.
func (a *ageing) heard(topic string, err error) {
	if err == nil {
		delete(a.fails, topic)
		a.note(topic, "")
		return
	}
	a.log.Debug("it cannot be asked how old a delay topic is; asking again", "topic", topic, "error", err)
	since, fails := a.fails[topic]
	if !fails {
		since = time.Now()
		a.fails[topic] = since
	}
	if _, known := a.keeps[topic]; errors.Is(err, errUnreadable) && !known || time.Since(since) >= a.unasked(topic) {
		a.note(topic, err.Error())
	}
}

// unasked is for how long it may be asked in vain how old the logs of a topic are, or its records may not be carried, before that is said.
func (a *ageing) unasked(topic string) time.Duration {
	if age := a.keeps[topic].Age; age > 0 {
		return min(Unsaid, max(age/8, carryUnaskedLeast))
	}
	return Unsaid
}

// note tells once why nothing of a topic is carried for its age; "": it is.
func (a *ageing) note(topic, why string) {
	switch was := a.Topics[topic].Uncarried.Set(int32(a.lane), why); {
	case was == why:
	case why == "":
		a.log.Info("what is pending in a delay topic is carried for its age again", "topic", topic)
	default:
		a.log.Warn("what is pending in a delay topic is not carried for its age, or not in time", "topic", topic, "why", why)
	}
}
