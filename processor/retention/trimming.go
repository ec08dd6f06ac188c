package retention

import (
	"cmp"
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
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Trimming deletes what the logs of delay topics do not need any more (KIP-107): all below a low water that was committed
// some time ago. It asks for whole topics at a time, once in Env.TrimInterval and only where a fifth of a log can go. It touches
// nothing of a lane: what it knows of partitions are their pictures. One goroutine owns it.
type Trimming struct {
	*Env
	log    *slog.Logger
	seen   map[kafka.TopicPartition][]waterline
	cutAt  map[kafka.TopicPartition]waterline // where a log began when it was cut last: pictures may tell so only when it is cut again
	others otherReaders
	own    *kafka.Coordinator                 // says what this group itself has committed
	heldUp map[kafka.TopicPartition]time.Time // since when a partition is left alone for what else is wrong with it, or since it catches up, although some of its log could go
	vain   vain
	inVain int // looks in a row of which something was not answered
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
	// StaleCheckpoint is for how long a plain commit that was not answered may still take the checkpoint of at_least_once back.
	StaleCheckpoint = time.Minute
)

// NewTrimming makes one that has not begun.
func NewTrimming(e *Env) *Trimming {
	return &Trimming{Env: e, log: e.Log, seen: map[kafka.TopicPartition][]waterline{}, cutAt: map[kafka.TopicPartition]waterline{}, heldUp: map[kafka.TopicPartition]time.Time{}, others: newOtherReaders(e), own: kafka.NewCoordinator(e.Group), vain: newVain()}
}

// Run trims until ctx ends.
func (t *Trimming) Run(ctx context.Context, cl *kgo.Client) {
	for wait.For(ctx, t.TrimInterval) {
		t.trim(ctx, cl, time.Now())
	}
}

// trim deletes what can go of each topic.
func (t *Trimming) trim(ctx context.Context, cl *kgo.Client, now time.Time) {
	pictures := t.Pictures()
	t.forget(pictures)
	unneeded := t.unneeded(pictures, now)
	for topic := range t.Topics {
		if _, asks := unneeded[topic]; !asks {
			t.vain.over(topic)
		}
	}
	t.cut(ctx, cl, unneeded)
	t.tellHeldUp(pictures, unneeded, now)
}

// tellHeldUp says of which partitions nothing is deleted for what else is wrong with them, when that has lasted; trimmed are the topics that are to be trimmed.
func (t *Trimming) tellHeldUp(pictures []picture.Partition, trimmed cuts, now time.Time) {
	for _, p := range pictures {
		if _, fails := t.vain.since[p.Topic]; fails {
			continue // it is not known whether that one is
		}
		why := ""
		_, trims := trimmed[p.Topic]
		if since, is := t.heldUp[p.TP()]; is && trims && now.Sub(since) >= Unsaid {
			why = fmt.Sprintf("nothing of partition %d is deleted, so its log grows, while something else is wrong with it: %s", p.Partition, cmp.Or(p.Error, p.Reason))
		}
		t.Topics[p.Topic].HeldUp.say(t.log, p, why, slog.LevelWarn, "a partition is not trimmed", "a partition is trimmed again")
	}
}

// patience is how long an answer may take: brokers may be slow.
func (t *Trimming) patience() time.Duration { return kafka.RequestTimeout << min(t.inVain, 2) }

// cut deletes what can go of each topic, but for those that are not to be trimmed. What fails of one keeps no other.
func (t *Trimming) cut(ctx context.Context, cl *kgo.Client, unneeded cuts) {
	failed := t.leave(ctx, cl, unneeded)
	for topic, c := range unneeded {
		if err := t.deleteOf(ctx, cl, topic, c); err != nil {
			failed[topic] = err
		} else {
			t.vain.over(topic)
		}
	}
	if t.inVain++; len(failed) == 0 {
		t.inVain = 0
	}
	for topic, err := range failed {
		if ctx.Err() == nil {
			t.failed(topic, err)
		}
	}
}

// failed takes in that a topic could not be trimmed, which is said when it lasts.
func (t *Trimming) failed(topic string, err error) {
	t.log.Debug("a delay topic cannot be trimmed now; trying again", "topic", topic, "error", err)
	if t.vain.failed(topic, err) {
		t.note(topic, err.Error())
	}
}

// forget stops saying why topics are not trimmed of which nothing is here any more: the replica that has their partitions says it.
func (t *Trimming) forget(pictures []picture.Partition) {
	for topic, stats := range t.Topics {
		if !slices.ContainsFunc(pictures, func(p picture.Partition) bool { return p.Topic == topic }) {
			stats.Untrimmed.Set("")
		}
		stats.HeldUp.keep(func(partition int32) bool {
			return slices.ContainsFunc(pictures, func(p picture.Partition) bool { return p.Topic == topic && p.Partition == partition })
		})
	}
}

// cut is what of a topic's partitions can go.
type cut map[int32]stretchToCut

// cuts are what of topics can go: nothing of some, which are named all the same.
type cuts map[string]cut

func (c cuts) of(topic string) cut {
	if c[topic] == nil {
		c[topic] = cut{}
	}
	return c[topic]
}

// worthCutting reports whether what lies below a low water is so much of a log that it is worth a request.
func worthCutting(p *picture.Partition, low int64) bool {
	return low > p.LogStart && (low-p.LogStart)*trimShare >= p.LogEnd-p.LogStart
}

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
func (t *Trimming) unneeded(pictures []picture.Partition, now time.Time) cuts {
	old, all, here, heldUp := t.TrimInterval, cuts{}, map[kafka.TopicPartition]bool{}, map[kafka.TopicPartition]time.Time{}
	if t.AtLeastOnce {
		old = max(old, StaleCheckpoint)
	}
	for _, p := range pictures {
		if p.Phase != picture.Live && p.Phase != picture.CatchUp || !t.mayTrim(p.Topic) {
			continue
		}
		tp := p.TP()
		if p.Phase == picture.CatchUp || p.Error != "" {
			if worthCutting(&p, p.LowWater) {
				heldUp[tp] = now
				if since, was := t.heldUp[tp]; was {
					heldUp[tp] = since
				}
				all.of(p.Topic) // it is asked whether that is to be trimmed
			}
			continue
		}
		here[tp] = true
		// L goes back where a log was cut and may go on: what lies above it now is pending.
		seen := slices.DeleteFunc(t.seen[tp], func(s waterline) bool { return s.id != p.TopicID || s.low > p.LowWater })
		low := int64(-1)
		for len(seen) > 0 && now.Sub(seen[0].at) >= old {
			low, seen = seen[0].low, seen[1:]
		}
		t.seen[tp] = append(seen, waterline{at: now, id: p.TopicID, low: p.LowWater})
		untrimmed := t.Topics[p.Topic].Untrimmed.Get() != ""
		if untrimmed { // it is tried with what there is, be it nothing, which brokers take: else it would stay so until a fifth can go
			low = max(low, p.LogStart)
		}
		if untrimmed || worthCutting(&p, low) {
			all.of(p.Topic)[p.Partition] = stretchToCut{p.TopicID, p.LogStart, low}
		}
	}
	t.heldUp = heldUp
	maps.DeleteFunc(t.seen, func(tp kafka.TopicPartition, _ []waterline) bool { return !here[tp] })
	maps.DeleteFunc(t.cutAt, func(tp kafka.TopicPartition, _ waterline) bool { return !here[tp] })
	return all
}

// mayTrim reports whether a topic is trimmed unless something is found to be against it.
func (t *Trimming) mayTrim(topic string) bool {
	trim := t.Routes[topic].Trim
	return trim == nil || *trim
}

// leave leaves out the topics that are not to be trimmed, and says why where that was not to be expected; and those of which that cannot be told now.
func (t *Trimming) leave(ctx context.Context, cl *kgo.Client, unneeded cuts) (failed map[string]error) {
	var unsaid []string
	for topic := range unneeded {
		if t.Routes[topic].Trim == nil {
			unsaid = append(unsaid, topic)
		}
	}
	keeps, failed := apart(ctx, t.patience(), unsaid, func(ctx context.Context, names []string) (map[string]topics.Keeping, error) {
		return topics.Keeps(ctx, kadm.NewClient(cl), names...)
	})
	for _, topic := range unsaid {
		switch k, told := keeps[topic]; {
		case failed[topic] == nil && !told:
			failed[topic] = kerr.UnknownTopicOrPartition
		case k.Err != nil:
			failed[topic] = k.Err
		case told && !k.All: // its retention does the work
			t.Topics[topic].Untrimmed.Set("")
			t.vain.over(topic)
		default:
			continue
		}
		delete(unneeded, topic)
	}
	for topic, err := range failed {
		delete(unneeded, topic)
		failed[topic] = fmt.Errorf("it is not known whether a retention cuts it, since its settings cannot be read (%w): see that this user has the right to DescribeConfigs of the topic, or set trim on the route", err)
	}
	if len(unneeded) > 0 {
		t.leaveToOthers(ctx, cl, unneeded, failed)
	}
	return failed
}

// leaveToOthers leaves out the topics that other groups read, or may read.
func (t *Trimming) leaveToOthers(ctx context.Context, cl *kgo.Client, unneeded cuts, failed map[string]error) {
	hidden, err := t.others.look(ctx, cl, t.patience())
	for topic := range unneeded {
		trim := t.Routes[topic].Trim
		switch groups := t.others.of(topic); {
		case len(groups) > 0:
			t.vain.over(topic)
			t.note(topic, fmt.Sprintf("other groups have committed offsets of it (%s), and may need what this one does not: where that is over, "+
				"kafka-consumer-groups.sh --delete --group each of them; else set trim: false on the route", strings.Join(groups, ", ")))
		case err != nil:
			failed[topic] = fmt.Errorf("it cannot be asked whether other groups read it, and may need what this one does not: %w", err)
		case hidden != nil && (trim == nil || !*trim):
			t.vain.over(topic)
			t.note(topic, fmt.Sprintf("it cannot be seen whether other groups read it, and may need what this one does not, since %v; or set trim: true on the route, if none does", hidden))
		default:
			continue
		}
		delete(unneeded, topic)
	}
}

// deleteOf deletes what can go of a topic. What cannot be told of one of its partitions keeps no other.
func (t *Trimming) deleteOf(ctx context.Context, cl *kgo.Client, topic string, c cut) error {
	if len(c) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.patience()) // of both: what stands still in between for long is to ask again
	defer cancel()
	untold, err := t.confirm(ctx, cl, topic, c)
	if err != nil || len(c) == 0 {
		return cmp.Or(err, untold)
	}
	adm := kadm.NewClient(cl)
	adm.SetTimeoutMillis(int32(kafka.BrokerPatience.Milliseconds()))
	answers, err := adm.DeleteRecords(ctx, kadm.Offsets{topic: c.kadm(topic)})
	return cmp.Or(t.trimmed(topic, c, answers[topic], err), untold)
}

// confirm leaves out the partitions of a topic that was made anew since they were assigned, since offsets of another topic mean nothing, and what lies above the
// L that the group has committed by now. That may be lower than what is known here: this process may have been away for long, and another one have gone on with
// less of the log, or a person have set offsets back. Untold is why a partition was left out of which that L is not known.
func (t *Trimming) confirm(ctx context.Context, cl *kgo.Client, topic string, c cut) (untold, err error) {
	var tps []kafka.TopicPartition
	for partition := range c {
		tps = append(tps, kafka.TopicPartition{Topic: topic, Partition: partition})
	}
	ids, err := kafka.TopicIDs(ctx, cl, tps)
	if err != nil {
		return nil, err
	}
	for _, tp := range tps {
		if c[tp.Partition].id != ids[tp] {
			delete(c, tp.Partition)
			delete(ids, tp)
		}
	}
	if len(c) == 0 {
		return nil, nil
	}
	committed, err := t.own.Fetch(ctx, cl, ids, false) // an open transaction has L go up only
	if err != nil {
		return nil, err
	}
	for tp, id := range ids {
		low, err := committedLow(committed, tp, id)
		if err != nil {
			untold = fmt.Errorf("it is not known what the checkpoint of partition %d needs: %w", tp.Partition, err)
			delete(c, tp.Partition)
			continue
		}
		s := c[tp.Partition]
		s.to = max(min(s.to, low), 0) // below 0 would stand for the end of the log
		c[tp.Partition] = s
	}
	return untold, nil
}

// committedLow is the L of a committed checkpoint.
func committedLow(committed map[kafka.TopicPartition]kafka.Fetched, tp kafka.TopicPartition, id kafka.TopicID) (int64, error) {
	f, ok := committed[tp]
	switch {
	case !ok:
		return 0, kerr.UnknownTopicOrPartition
	case f.Err != nil:
		return 0, f.Err
	case f.Offset < 0:
		return 0, errors.New("nothing is committed")
	}
	c, err := state.ParseCheckpoint(f.Offset, f.Epoch, f.Metadata)
	if err == nil && c.TopicID != id.Short() {
		err = errors.New("it is of another topic of that name")
	}
	return c.LowWater, err
}

// trimmed takes in what became of a request. An answer that does not come, or asks to try again, leaves it open why a topic is not trimmed.
func (t *Trimming) trimmed(topic string, c cut, answers map[int32]kadm.DeleteRecordsResponse, err error) error {
	deleted, refused := false, error(nil)
	for partition, s := range c {
		answer, ok := answers[partition]
		switch {
		case !ok:
			err = cmp.Or(err, error(kerr.LeaderNotAvailable))
		case answer.Err == nil:
			deleted = true
			t.count(kafka.TopicPartition{Topic: topic, Partition: partition}, s, answer.LowWatermark)
			t.log.Debug("a delay topic is trimmed", "topic", topic, "partition", partition, "from", s.from, "to", answer.LowWatermark)
		case kerr.IsRetriable(answer.Err):
			err = answer.Err
		default:
			refused = answer.Err
		}
	}
	switch {
	case refused != nil:
		t.note(topic, refusal(refused))
	case err != nil:
		return fmt.Errorf("brokers do not answer DeleteRecords: %w", err)
	case deleted:
		t.note(topic, "")
	}
	return nil
}

// count counts what is gone since the log was cut last, or since it was asked where it begins.
func (t *Trimming) count(tp kafka.TopicPartition, s stretchToCut, start int64) {
	from := s.from
	if was := t.cutAt[tp]; was.id == s.id {
		from = max(from, was.low)
	}
	t.Topics[tp.Topic].Trimmed.Add(max(start-from, 0))
	t.cutAt[tp] = waterline{id: s.id, low: start}
}

// note tells once why a topic is not trimmed; "": it is.
func (t *Trimming) note(topic, why string) {
	switch was := t.Topics[topic].Untrimmed.Set(why); {
	case why == was:
	case why == "":
		t.log.Info("delay topic is trimmed again", "topic", topic)
	default:
		t.log.Warn("delay topic is not trimmed, and grows until its retention cuts it", "topic", topic, "why", why)
	}
}
