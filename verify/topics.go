package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
)

// lookAround finds the topics of the cluster that may be targets, and what has become of the delay topics.
func (v *Verifier) lookAround(ctx context.Context) error {
	if err := reach(ctx, v.arrivals.cl); err != nil {
		return err
	}
	all, err := v.adm.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	unreadable, err := v.seen.unreadable(ctx, v.arrivals.cl, v.checker == nil)
	if err != nil {
		return err
	}
	v.delays = nil
	away := make(map[string]error)
	var first error
	for _, r := range v.config.Routes {
		detail, ok := all[r.Topic]
		if !ok {
			asked, err := v.adm.ListTopics(ctx, r.Topic) // which says why
			detail = asked[r.Topic]
			detail.Err = cmp.Or(err, detail.Err, error(kerr.UnknownTopicOrPartition))
		}
		known, ok := v.ids[r.Topic]
		if !ok && detail.Err == nil && unreadable[r.Topic] {
			detail.Err = kerr.TopicAuthorizationFailed
		}
		switch err := detail.Err; {
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			away[r.Topic] = fmt.Errorf("the delay topic %s does not exist: %w", r.Topic, err)
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			away[r.Topic] = denied(fmt.Errorf("delay topic %s: %w", r.Topic, err), r.Topic, "")
		case err != nil:
			return fmt.Errorf("delay topic %s: %w", r.Topic, err)
		}
		switch err := away[r.Topic]; {
		case err != nil && ok: // of what has arrived meanwhile nothing would be known when it is there again
			return err
		case err != nil:
			first = cmp.Or(first, err)
			continue
		case ok && known != [16]byte(detail.ID):
			return fmt.Errorf("%w: start again, %s is another one now", ErrAnew, r.Topic)
		case !ok && v.checker != nil:
			return fmt.Errorf("%w: start again, %s could not be looked at before", ErrAnew, r.Topic)
		}
		v.ids[r.Topic] = [16]byte(detail.ID)
		v.delays = append(v.delays, r.Topic)
	}
	if len(v.delays) == 0 {
		return first
	}
	v.existing, v.seen.away = all, away
	return nil
}

// reach asks a broker for an answer.
func reach(ctx context.Context, cl *kgo.Client) error {
	answered := make(chan error, 1)
	go func() { answered <- cl.Ping(ctx) }() // which heeds no ctx while a broker that is frozen is greeted; it ends with the client
	select {
	case err := <-answered:
		if err != nil {
			brokers, _ := cl.OptValue(kgo.SeedBrokers).([]string)
			return fmt.Errorf("reach %s: %w", strings.Join(brokers, ","), err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listStarts asks where the logs of the delay topics begin.
func (v *Verifier) listStarts(ctx context.Context) (map[place]int64, error) {
	return list(ctx, v.adm.ListStartOffsets, v.delays...)
}

// openDelays begins to read partitions of delay topics that are not read yet, and sets how far to read.
func (v *Verifier) openDelays(ctx context.Context) error {
	starts, err := list(ctx, v.adm.ListStartOffsets, v.delays...)
	if err != nil {
		return err
	}
	ends, err := list(ctx, v.adm.ListEndOffsets, v.delays...)
	if err != nil {
		return err
	}
	froms, tos, err := v.chosen(ctx, v.delays)
	if err != nil {
		return err
	}
	var fresh []*part
	for _, at := range sortedPlaces(ends) {
		p := v.seen.delays[at]
		if p == nil {
			p = newPart(at, starts[at])
			if from, ok := froms[at]; ok {
				p.from = max(p.start, from)
			}
			p.next = p.from
			fresh = append(fresh, p)
		}
		if p.to = math.MaxInt64; tos != nil {
			p.to = tos[at]
		}
		v.checker.Window(at.topic, at.partition, p.from, p.to)
		v.begins(p)
		p.goal, p.begun, p.waits = ends[at], p.next, false
	}
	v.requests.add(fresh)
	return nil
}

// findEnds asks where the delay topics end by now: what has arrived and lies beyond was never requested.
func (v *Verifier) findEnds(ctx context.Context) error {
	ends, err := list(ctx, v.adm.ListEndOffsets, v.delays...)
	for at, end := range ends {
		v.checker.Ended(at.topic, at.partition, end, v.config.Now().UnixMilli())
	}
	return err
}

// chosen are the bounds of the window, in offsets.
func (v *Verifier) chosen(ctx context.Context, names []string) (from, to map[place]int64, err error) {
	bound := func(t time.Time) (map[place]int64, error) {
		if t.IsZero() {
			return nil, nil
		}
		return list(ctx, after(v.adm, max(t.UnixMilli(), 0)), names...) // brokers take what is negative for something else
	}
	if from, err = bound(v.config.From); err != nil {
		return nil, nil, err
	}
	to, err = bound(v.config.To)
	if now := v.config.Now(); v.config.To.After(now) {
		to = nil
	}
	return from, to, err
}

// fetchCheckpoints asks what the group is done with.
func (v *Verifier) fetchCheckpoints(ctx context.Context) (map[place]checkpoint, error) {
	all := make(map[place]checkpoint)
	if v.config.Group == "" {
		return all, nil
	}
	committed, err := v.fetchOffsets(ctx)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return all, nil
	}
	if err != nil {
		return nil, denied(fmt.Errorf("fetch offsets of group %s: %w", v.config.Group, err), "", v.config.Group)
	}
	for _, r := range v.config.Routes {
		for partition, c := range committed[r.Topic] {
			if c.Err != nil {
				return nil, fmt.Errorf("offset of %s/%d: %w", r.Topic, partition, c.Err)
			}
			if c.At >= 0 {
				all[place{r.Topic, partition}] = readCheckpoint(c.At, c.Metadata, v.ids[r.Topic])
			}
		}
	}
	return all, nil
}

// coordinatorPatience is how long a cluster that has never had a group takes to make __consumer_offsets, or one that has lost a broker to find another
// coordinator.
const coordinatorPatience = 15 * time.Second

// fetchOffsets asks what the group has committed.
func (v *Verifier) fetchOffsets(ctx context.Context) (kadm.OffsetResponses, error) {
	for end := time.Now().Add(coordinatorPatience); ; {
		committed, err := v.adm.FetchOffsets(ctx, v.config.Group)
		away := errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.NotCoordinator) || down(err)
		if !away || time.Now().After(end) {
			return committed, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(atOnce):
		}
		// The client goes on with a coordinator that it has found once while it knows that broker. From memory kadm does not answer of which
		// rights are asked for, too.
		anew, cancel := context.WithTimeout(kadm.WithAuthorizedOps(ctx), 2*time.Second)
		_, _ = v.adm.BrokerMetadata(anew)
		cancel()
	}
}

// openArrivals begins to read the targets that are asked for, and the dead letter topics, and sets how far to read.
func (v *Verifier) openArrivals(ctx context.Context) error {
	var there []string
	for _, name := range slices.Sorted(maps.Keys(v.wanted)) {
		if !v.wanted[name] {
			continue
		}
		t := v.seen.topics[name]
		if t == nil {
			t = &topic{name: name}
			v.seen.topics[name] = t
		}
		detail, exists := v.existing[name]
		if t.gone = !exists || detail.Err != nil || v.arrivals.barred[name]; t.gone {
			continue
		}
		if made := [16]byte(detail.ID); t.id != made {
			v.arrivals.forget(name)
			t.id, t.parts, t.anew = made, nil, t.parts != nil
		}
		if there = append(there, name); v.again[name] {
			delete(v.again, name)
			v.arrivals.add(t.parts)
		}
	}
	if len(there) == 0 {
		return nil
	}
	starts, err := list(ctx, v.adm.ListStartOffsets, there...)
	if err != nil {
		return err
	}
	ends, err := list(ctx, v.adm.ListEndOffsets, there...)
	if err != nil {
		return err
	}
	fresh := slices.DeleteFunc(slices.Clone(there), func(name string) bool { // one may have got a partition since the pass began
		_, more := ends[place{name, int32(len(v.seen.topics[name].parts))}]
		return !more
	})
	if err := v.openFresh(ctx, fresh, starts, ends); err != nil {
		return err
	}
	for _, name := range there {
		for _, p := range v.seen.topics[name].parts {
			p.goal, p.waits = ends[p.place], false
			p.begun = min(max(p.begun, p.start), p.next)
			if starts[p.place] > p.next {
				v.arrivals.lose(p, starts[p.place])
			}
		}
	}
	return nil
}

// openFresh adds partitions, from shortly before the first request on.
func (v *Verifier) openFresh(ctx context.Context, names []string, starts, ends map[place]int64) error {
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		v.describe(ctx, v.seen.topics[name])
	}
	since := map[place]int64{}
	begin := v.seen.begin(v.config.Now())
	if !v.config.From.IsZero() { // what was asked for then may have left the delay topics
		begin = min(begin, v.config.From.UnixMilli())
	}
	if begin > 0 && !v.deliveries.anyUntimed() {
		var err error
		if since, err = list(ctx, after(v.adm, begin), names...); err != nil {
			return err
		}
	}
	var fresh []*part
	for _, at := range sortedPlaces(ends) {
		t := v.seen.topics[at.topic]
		if !slices.Contains(names, at.topic) || slices.ContainsFunc(t.parts, func(p *part) bool { return p.place == at }) {
			continue
		}
		p := newPart(at, starts[at])
		from := max(p.start, since[at])
		if p.next = from; p.start > 0 {
			p.shrink(max(p.start, from-before))
			p.shrunk = from == p.start
		}
		p.from = p.next
		if p.begun = p.next; t.anew { // what came to the former one and was not read
			p.shrink(p.start)
			p.begun, p.wholeSince = p.next, v.config.Now().UnixMilli()
		}
		t.parts = append(t.parts, p)
		fresh = append(fresh, p)
	}
	for _, name := range names {
		if !v.seen.letters[name] {
			v.checker.AddTarget(check.Target{Topic: name, Partitions: len(v.seen.topics[name].parts), MaxBytes: v.seen.topics[name].maxBytes})
		}
	}
	v.arrivals.add(fresh)
	return nil
}

// before is how many records are read before that, where the older part of a topic is gone, to find one that was delivered earlier.
const before = 1000

// describe asks whether a topic is compacted, and how large its batches can be. That may be forbidden.
func (v *Verifier) describe(ctx context.Context, t *topic) {
	configs, err := v.adm.DescribeTopicConfigs(ctx, t.name)
	if err != nil {
		return
	}
	config, err := configs.On(t.name, nil)
	if err != nil || config.Err != nil {
		return
	}
	t.compacted = isCompacted(config)
	for _, c := range config.Configs {
		if c.Value != nil && c.Key == "max.message.bytes" {
			t.maxBytes, _ = strconv.Atoi(*c.Value)
		}
	}
}

// findCompacted asks which delay topics are compacted now. That may be forbidden; then what was seen last counts.
func (s *survey) findCompacted(ctx context.Context, adm *kadm.Client, delays []string) {
	configs, err := adm.DescribeTopicConfigs(ctx, delays...)
	if err != nil {
		return
	}
	for _, config := range configs {
		if config.Err != nil {
			continue
		}
		if delete(s.compacted, config.Name); isCompacted(config) {
			s.compacted[config.Name] = true
		}
	}
}

// isCompacted tells whether a topic keeps the last record of each key alone.
func isCompacted(config kadm.ResourceConfig) bool {
	return slices.ContainsFunc(config.Configs, func(c kadm.Config) bool {
		return c.Key == "cleanup.policy" && c.Value != nil && strings.Contains(*c.Value, "compact")
	})
}

func sortedPlaces[V any](m map[place]V) []place {
	return slices.SortedFunc(maps.Keys(m), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
}
