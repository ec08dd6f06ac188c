//go:build synctests

package processor

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// A rival is a second group on the delay topic of a world, with a target and a dead letter topic of
// its own: requests that name no target are delivered by both, those that name one by the group
// that allows it, and the other one refuses them. Each group has a checker, which sees its topics alone.

const (
	simRival  = "h"
	simCopies = "copies"
)

// newRival makes the second group of a world. Cluster, network and history are the host's.
func (w *world) newRival() *world {
	r := &world{
		t: w.t, cfg: w.cfg, group: simRival, host: w, cluster: w.cluster, outside: w.outside, client: w.client,
		rng: w.rng, began: w.began, furthest: map[kafka.TopicPartition]state.Checkpoint{},
	}
	r.look()
	return r
}

// rivalTopics are the topics that a second group needs besides.
func rivalTopics() []kfake.Opt {
	return []kfake.Opt{kfake.SeedTopics(2, simCopies), kfake.SeedTopics(1, simCopies+".dead")}
}

// rivalRoute is the route of the second group.
func rivalRoute() topics.Route {
	return topics.Route{Topic: simTopic, Target: simCopies, Allow: []string{"gone"}, DeadLetter: simCopies + ".dead", MaxDelay: 30 * 24 * time.Hour, CancelsAnswered: true}
}

// forTarget is a request for a target topic; "" names none.
func forTarget(target, key string, due time.Time) *kgo.Record {
	r := request(key, due)
	r.Headers[2].Value = []byte(target)
	return r
}

// Two groups on one delay topic both deliver, and neither takes what the other one has refused,
// retried or resolved for its own: not when it accepts it, and not in a catch-up (design rule 10).
func TestSimTwoGroups(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{rival: true, guarantee: guarantee, tune: func(c *Config) { c.NearWindow = 3 * time.Second }}, func(w *world) {
				groups := []*world{w, w.rival}
				a, b := w.live("a"), w.rival.live("b")
				w.send(forTarget("", "first", in(0)), forTarget("orders", "known", in(0)), forTarget(simCopies, "known", in(0)))
				w.until("targets are known", func() bool { return w.outstanding() == 0 && w.rival.outstanding() == 0 })
				mend := []func(){w.leaderless("orders"), w.leaderless(simCopies)}
				for range 5 {
					w.send(forTarget("", "soon", in(time.Second)), forTarget("orders", "a", in(7*time.Second)), forTarget(simCopies, "b", in(7*time.Second)),
						forTarget("", "far", in(14*time.Second)))
				}
				time.Sleep(5 * time.Second) // both have refused what the other one delivers, and tried again what both do
				a.kill()
				b.kill()
				a, b = w.live("a"), w.rival.live("b")
				for _, undo := range mend {
					undo()
				}
				time.Sleep(time.Second)
				w.again(a, true)
				w.rival.again(b, true)
				w.finish()
				for i, g := range groups {
					mine, others := g.watch.Counts(), groups[1-i].watch.Counts()
					if mine.Resolved == 0 || mine.Retried == 0 || mine.PassedOver != others.Resolved+others.Retried {
						t.Errorf("group %s wrote %d resolve records and %d retries, and passed over %d of the other one's %d and %d",
							g.group, mine.Resolved, mine.Retried, mine.PassedOver, others.Resolved, others.Retried)
					}
					if mine.Delivered < 16 || mine.DeadLettered != 6 {
						t.Errorf("group %s: %s", g.group, mine.Summary())
					}
				}
			})
		})
	}
}
