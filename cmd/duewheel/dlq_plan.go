package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// chosen calls a function with each dead letter that was asked for, and may be called again for the same.
type chosen func(ctx context.Context, fn func(*letter) error) error

// chosen finds what was asked for. Where logs end is found out once.
func (o *replaying) chosen(ctx context.Context, r *replay, want filter) (chosen, error) {
	if len(o.places) > 0 {
		found, err := r.all(ctx, o.places, len(o.topics) > 0)
		return func(_ context.Context, fn func(*letter) error) error {
			for _, l := range found {
				if err := fn(l); err != nil {
					return err
				}
			}
			return nil
		}, err
	}
	spans, err := o.open(ctx, r.letters, want, r.stderr)
	return func(ctx context.Context, fn func(*letter) error) error {
		n := 0
		_, err := r.each(ctx, spans, func(l *letter) error {
			if !want.takes(l) {
				return nil
			}
			if n++; o.most > 0 && n > o.most {
				at := l.place()
				r.next = &at
				return errEnough
			}
			return fn(l)
		})
		return err
	}, err
}

// plan is what a replay would do.
type plan struct {
	codes   tally // of what is written
	delays  tally // the topics that it is written to
	refused tally // what is not, by the reason
	doomed  tally // what is dead-lettered once more as things are, by code
	targets map[string]bool
}

// mostTargets is how many targets are looked up before a replay.
const mostTargets = 20

// mostNotes is how many dead letters are named that are not replayed. A dry run names all.
const mostNotes = 10

func (p *plan) err() error {
	if p.refused.total == 0 {
		return nil
	}
	return findings{fmt.Errorf("%s not replayed: %s", topics.Plural(p.refused.total, "dead letter"), &p.refused)}
}

// plan reads everything that is chosen once. A dry run says of each what would become of it.
func (r *replay) plan(ctx context.Context, all chosen, dryRun bool) (*plan, error) {
	p := plan{targets: map[string]bool{}}
	return &p, all(ctx, func(l *letter) error {
		why, err := r.refuse(ctx, l)
		if err != nil {
			return err
		}
		if why != "" {
			p.refused.add(why)
			if dryRun {
				fmt.Fprintf(r.stdout, "%s is not replayed: it is one %s\n", l.place(), why)
			} else if p.refused.total <= mostNotes {
				fmt.Fprintf(r.stderr, "note: %s is not replayed: it is one %s\n", l.place(), why)
			}
			return nil
		}
		p.codes.add(string(l.Refusal.Code))
		p.delays.add(l.Topic)
		if topics.CheckTopic(l.target) == nil && len(p.targets) < mostTargets { // of what is no topic brokers would say no more than that
			p.targets[l.target] = true
		}
		a := r.again(l)
		refusal := r.judge(a)
		if refusal != nil {
			p.doomed.add(string(refusal.Code))
		}
		if dryRun {
			line := fmt.Sprintf("%s to %s/%d", l.place(), l.Topic, l.Partition)
			if refusal != nil {
				line += ", where it is dead-lettered again: " + visible(refusal.Error())
			}
			_, err = fmt.Fprintln(r.stdout, line)
		}
		return err
	})
}

// tell says what a person should know before it is done.
func (r *replay) tell(ctx context.Context, p *plan) error {
	note := func(format string, args ...any) { fmt.Fprintf(r.stderr, "note: "+format+"\n", args...) }
	if r.next != nil {
		note("there are more; --from %s goes on", r.next)
	}
	if p.codes.total == 0 {
		return nil
	}
	note("%s", twice)
	note("they go to %s", strings.Join(sorted(p.delays.by), ", "))
	if p.doomed.total > 0 {
		note("as things are, %s of them will be dead-lettered again: %s", fmt.Sprint(p.doomed.total), &p.doomed)
	}
	for _, target := range sorted(p.targets) {
		problem, _, err := lookAtTarget(ctx, r.cl, target, -1)
		if err != nil {
			return err
		}
		if problem != "" {
			note("%s", visible(problem))
		}
	}
	return nil
}

// refuse says what kind of dead letter it is that cannot be replayed; "" when it can be.
func (r *replay) refuse(ctx context.Context, l *letter) (string, error) {
	switch {
	case l.Cut != "":
		return "that was cut and is not whole", nil
	case !topics.IsRequest(l.record.Headers):
		return "that never was a request", nil
	case r.boxes.routes != nil && r.boxes.routes[l.Topic] == nil:
		return "of " + l.Topic + ", which is not the delay topic of any route of the configuration", nil
	}
	n, err := r.partitionsOf(ctx, l.Topic)
	switch {
	case err != nil:
		return "", err
	case n == 0:
		return "of " + l.Topic + ", which does not exist any more", nil
	case int(l.Partition) >= n:
		return fmt.Sprintf("of partition %d of %s, which has only 0 to %d", l.Partition, l.Topic, n-1), nil
	}
	return "", nil
}

// partitionsOf returns how many partitions a delay topic has; 0 when it does not exist.
func (r *replay) partitionsOf(ctx context.Context, topic string) (int, error) {
	if n, known := r.partitions[topic]; known {
		return n, nil
	}
	details, err := r.adm.ListTopics(ctx, topic)
	if err == nil && !errors.Is(details[topic].Err, kerr.UnknownTopicOrPartition) {
		err = details[topic].Err
	}
	if err != nil {
		return 0, askFor("Write", fmt.Errorf("look up the delay topic %s: %w", topic, err), topic)
	}
	if r.partitions == nil || len(r.partitions) >= mostWords {
		r.partitions, r.entrances = map[string]int{}, map[string]entrance{}
	}
	r.partitions[topic], r.entrances[topic] = len(details[topic].Partitions), entranceOf(ctx, r.cl, topic)
	return r.partitions[topic], nil
}

// again is a dead letter as it is to be written.
type again struct {
	of     *letter
	record *kgo.Record
}

// again is the request of a dead letter.
func (r *replay) again(l *letter) *again {
	return &again{l, &kgo.Record{
		Topic: l.Topic, Partition: l.Partition, Key: l.record.Key, Value: l.record.Value,
		Headers: topics.AppendReplayed(nil, l.record.Headers, l.Refusal.Code, l.prefix),
	}}
}

// judge says why a request would be refused again by what its route says today; nil where nothing is known of it.
func (r *replay) judge(a *again) *topics.Refusal {
	route, now := r.boxes.routes[a.record.Topic], r.now().UnixMilli()
	if route == nil {
		return nil
	}
	q, err := route.Parser().Parse(a.record.Headers, topics.Stamp{Millis: now, ByBroker: true, Key: a.record.Key, NoValue: a.record.Value == nil}, 0, topics.NewMark([4]byte{}, "", a.record.Partition))
	var refusal *topics.Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	return refusedBy(route, &q, now)
}
