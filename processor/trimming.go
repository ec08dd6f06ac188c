package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/topics"
)

// trimming deletes what the logs of delay topics do not need any more (KIP-107): all below a low water that was committed
// some time ago. It asks for whole topics at a time, once in Config.TrimInterval and only where a fifth of a log can go. It touches
// nothing of a lane: what it knows of partitions are their pictures. One goroutine owns it.
type trimming struct {
	*shared
	log  *slog.Logger
	seen map[kafka.TopicPartition][]waterline
}

// waterline is where a partition's committed low water was at a time.
type waterline struct {
	at  time.Time
	id  kafka.TopicID
	low int64
}

const (
	// trimShare is the part of a log that is worth a request: one in trimShare.
	trimShare = 5
	// staleCheckpoint is for how long a plain commit that was not answered may still take the checkpoint of at_least_once back.
	staleCheckpoint = time.Minute
)

func newTrimming(sh *shared) *trimming {
	return &trimming{shared: sh, log: sh.cfg.Logger, seen: map[kafka.TopicPartition][]waterline{}}
}

// run trims until ctx ends.
func (t *trimming) run(ctx context.Context, cl *kgo.Client) {
	adm := kadm.NewClient(cl)
	for wait.For(ctx, t.cfg.TrimInterval) {
		if err := t.trim(ctx, cl, adm, time.Now()); err != nil && ctx.Err() == nil {
			t.log.Debug("delay topics cannot be trimmed now; trying again", "error", err)
		}
	}
}

// trim deletes what can go of each topic. The error says what could not be asked.
func (t *trimming) trim(ctx context.Context, cl *kgo.Client, adm *kadm.Client, now time.Time) error {
	pictures := t.assigned.pictures()
	t.forget(pictures)
	unneeded := t.unneeded(pictures, now)
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	if err := t.choose(ctx, adm, unneeded); err != nil || len(unneeded) == 0 {
		return err
	}
	if err := t.sameTopics(ctx, cl, unneeded); err != nil {
		return err
	}
	var failed error
	for topic, offsets := range unneeded {
		answers, err := adm.DeleteRecords(ctx, kadm.Offsets{topic: offsets.kadm(topic)})
		failed = errors.Join(failed, err)
		t.trimmed(topic, offsets, answers[topic])
	}
	return failed
}

// forget stops saying why topics are not trimmed of which nothing is here any more: the replica that has their partitions says it.
func (t *trimming) forget(pictures []PartitionStats) {
	for topic, stats := range t.counters.topics {
		if !slices.ContainsFunc(pictures, func(p PartitionStats) bool { return p.Topic == topic }) {
			stats.untrimmed.Store(nil)
		}
	}
}

// cut is what of a topic's partitions can go.
type cut map[int32]stretchToCut

// stretchToCut is the offsets from the log's start up to a low water.
type stretchToCut struct {
	id       kafka.TopicID
	from, to int64
}

func (c cut) kadm(topic string) map[int32]kadm.Offset {
	offsets := make(map[int32]kadm.Offset, len(c))
	for partition, s := range c {
		offsets[partition] = kadm.Offset{Topic: topic, Partition: partition, At: s.to}
	}
	return offsets
}

// unneeded is what no checkpoint needs that could be found again: what lies below the low water that was committed a while ago.
func (t *trimming) unneeded(pictures []PartitionStats, now time.Time) map[string]cut {
	old, all, here := t.cfg.TrimInterval, map[string]cut{}, map[kafka.TopicPartition]bool{}
	if t.cfg.Guarantee == AtLeastOnce {
		old = max(old, staleCheckpoint)
	}
	for _, p := range pictures {
		if p.Phase != PhaseLive || p.Error != "" || !t.mayTrim(p.Topic) {
			continue
		}
		tp := p.tp()
		here[tp] = true
		seen := slices.DeleteFunc(t.seen[tp], func(s waterline) bool { return s.id != p.TopicID })
		low := int64(-1)
		for len(seen) > 0 && now.Sub(seen[0].at) >= old {
			low, seen = seen[0].low, seen[1:]
		}
		t.seen[tp] = append(seen, waterline{at: now, id: p.TopicID, low: p.LowWater})
		if low > p.LogStart && (low-p.LogStart)*trimShare >= p.LogEnd-p.LogStart {
			if all[p.Topic] == nil {
				all[p.Topic] = cut{}
			}
			all[p.Topic][p.Partition] = stretchToCut{p.TopicID, p.LogStart, low}
		}
	}
	maps.DeleteFunc(t.seen, func(tp kafka.TopicPartition, _ []waterline) bool { return !here[tp] })
	return all
}

// mayTrim reports whether a topic is trimmed unless something is found to be against it.
func (t *trimming) mayTrim(topic string) bool {
	trim := t.routes[topic].Trim
	return trim == nil || *trim
}

// choose leaves out the topics that are not to be trimmed, and says why where that was not to be expected.
func (t *trimming) choose(ctx context.Context, adm *kadm.Client, unneeded map[string]cut) error {
	var unsaid []string
	for topic := range unneeded {
		if t.routes[topic].Trim == nil {
			unsaid = append(unsaid, topic)
		}
	}
	all, err := topics.KeepAll(ctx, adm, unsaid)
	if err != nil {
		return err
	}
	for _, topic := range unsaid {
		if !all[topic] {
			delete(unneeded, topic) // its retention does the work
		}
	}
	if len(unneeded) == 0 {
		return nil
	}
	others, err := otherReaders(ctx, adm, t.cfg.Group)
	if err != nil {
		return err
	}
	for topic := range unneeded {
		if groups := others[topic]; len(groups) > 0 {
			delete(unneeded, topic)
			t.note(topic, fmt.Sprintf("other groups have committed offsets of it (%s), and may need what this one does not: where that is over, "+
				"kafka-consumer-groups.sh --delete --group each of them; else set trim: false on the route", strings.Join(groups, ", ")))
		}
	}
	return nil
}

// sameTopics leaves out those that were made anew since their partitions were assigned: offsets of another topic mean nothing.
func (t *trimming) sameTopics(ctx context.Context, cl *kgo.Client, unneeded map[string]cut) error {
	var tps []kafka.TopicPartition
	for topic, c := range unneeded {
		for partition := range c {
			tps = append(tps, kafka.TopicPartition{Topic: topic, Partition: partition})
		}
	}
	ids, err := kafka.TopicIDs(ctx, cl, tps)
	if err != nil {
		return err
	}
	for _, tp := range tps {
		if c := unneeded[tp.Topic]; c[tp.Partition].id != ids[tp] {
			delete(c, tp.Partition)
		}
	}
	return nil
}

// trimmed takes in what became of a request. An answer that does not come, or asks to try again, leaves it open why a topic is not trimmed.
func (t *trimming) trimmed(topic string, c cut, answers map[int32]kadm.DeleteRecordsResponse) {
	deleted, refused := false, error(nil)
	for partition, s := range c {
		answer, ok := answers[partition]
		switch {
		case !ok:
		case answer.Err == nil:
			deleted = true
			t.counters.topics[topic].trimmed.Add(max(answer.LowWatermark-s.from, 0))
			t.log.Debug("a delay topic is trimmed", "topic", topic, "partition", partition, "from", s.from, "to", answer.LowWatermark)
		case !kerr.IsRetriable(answer.Err):
			refused = answer.Err
		}
	}
	switch {
	case refused != nil:
		t.note(topic, fmt.Sprintf("brokers refuse DeleteRecords (%v): give this user the right to Delete the topic, or set trim: false on the route and give the topic a retention.ms", refused))
	case deleted:
		t.note(topic, "")
	}
}

// note tells once why a topic is not trimmed; "": it is.
func (t *trimming) note(topic, why string) {
	c := t.counters.topics[topic]
	switch was := c.whyUntrimmed(); {
	case why == was:
		return
	case why == "":
		t.log.Info("delay topic is trimmed again", "topic", topic)
	default:
		t.log.Warn("delay topic is not trimmed, and grows until its retention cuts it", "topic", topic, "why", why)
	}
	c.untrimmed.Store(&why)
}

// otherReaders are the groups that have committed offsets of each topic, but for one.
func otherReaders(ctx context.Context, adm *kadm.Client, own string) (map[string][]string, error) {
	listed, err := kafka.Listed(ctx, adm)
	if err != nil {
		return nil, err
	}
	committed, err := kafka.Committed(ctx, adm, slices.DeleteFunc(listed.Groups(), func(g string) bool { return g == own }))
	if err != nil {
		return nil, err
	}
	by := map[string][]string{}
	for _, group := range slices.Sorted(maps.Keys(committed)) {
		for topic := range committed[group] {
			by[topic] = append(by[topic], group)
		}
	}
	return by, nil
}
