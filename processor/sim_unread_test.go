//go:build synctests

package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/wait"
)

// unreadable are what a broker may go on answering to fetches of one partition, while its others are well: a damaged log, a disk, a
// leader that has moved.
var unreadable = []*kerr.Error{kerr.CorruptMessage, kerr.KafkaStorageError, kerr.NotLeaderForPartition, kerr.UnknownLeaderEpoch, kerr.UnknownTopicOrPartition,
	kerr.OffsetNotAvailable, kerr.ReplicaNotAvailable, kerr.LeaderNotAvailable, kerr.InconsistentTopicID, kerr.UnknownServerError, kerr.TopicAuthorizationFailed}

// A broker that does not let some partitions be read is asked for them now and then, and as always for the others: neither owners
// nor standbys ask without a rest, and what was refused is read soon after it may be.
func TestSimSomePartitionsUnread(t *testing.T) {
	for i, e := range unreadable {
		if testing.Short() && i > 2 {
			continue
		}
		t.Run(e.Message, func(t *testing.T) {
			scenario(t, worldConfig{partitions: 6, brokers: 2, guarantee: AtLeastOnce, tune: func(c *Config) { c.Standbys = 1 }}, func(w *world) {
				a, b := w.start("a", nil), w.start("b", nil)
				w.within(soonEnough, "shared out", func() bool { return a.live(3) && b.live(3) })
				w.within(10*time.Second, "each follows the other", func() bool { return a.follows(3) && b.follows(3) })
				const lasts = 20 * time.Second
				asked := []map[kmsg.Key]int{a.requests(), b.requests()}
				lines := a.lines.Load() + b.lines.Load()
				refusal := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: simTopic, Partitions: []int32{0, 1, 4}, Err: e, Count: -1, When: ofProcesses})
				for i := range 40 {
					w.send(to(int32(i%6), request(fmt.Sprint(i), in(0))))
					time.Sleep(lasts / 40)
				}
				w.within(time.Second, "what can be read is delivered", func() bool { return w.outstanding() == 20 })
				for i, p := range []*process{a, b} {
					now := p.requests()
					if n := now[kmsg.Fetch] - asked[i][kmsg.Fetch]; n > 800 {
						t.Errorf("%s has fetched %d times in %v", p.name, n, lasts)
					}
					if n := now[kmsg.Metadata] - asked[i][kmsg.Metadata]; n > 300 {
						t.Errorf("%s has asked for metadata %d times in %v", p.name, n, lasts)
					}
				}
				if refusal.Hits() < 10 {
					t.Errorf("%d fetches were refused", refusal.Hits())
				}
				if n := a.lines.Load() + b.lines.Load() - lines; n > 12 {
					t.Errorf("%d lines in the log", n)
				}
				if ok, why := w.owner(0).p.Ready(); ok || !strings.Contains(why[0].Error, e.Message) {
					t.Errorf("ready %v: %+v", ok, why)
				}
				refusal.Remove()
				w.within(wait.MostRest+time.Second, "the rest is delivered", func() bool { return w.outstanding() == 0 })
				w.within(2*time.Second, "ready", func() bool { okA, _ := a.p.Ready(); okB, _ := b.p.Ready(); return okA && okB })
				w.within(wait.MostRest+time.Second, "each follows the other", func() bool { return a.follows(3) && b.follows(3) })
				w.finish()
			})
		})
	}
}

// owner is the process that has a partition.
func (w *world) owner(partition int32) *process {
	for _, p := range w.processes {
		for _, s := range p.p.Stats().Partitions {
			if s.Topic == simTopic && s.Partition == partition {
				return p
			}
		}
	}
	w.fail("partition %d is nowhere", partition)
	return nil
}

// A partition that could not be read for long, because its leader was none any more, is read as soon as another one leads it.
func TestSimUnreadUntilItsLeaderMoves(t *testing.T) {
	scenario(t, worldConfig{partitions: 6, brokers: 2}, func(w *world) {
		a := w.live("a")
		from := w.cluster.LeaderFor(simTopic, 0)
		for _, lasts := range []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, 5 * time.Second, 30 * time.Second} {
			lines := a.lines.Load()
			refusal := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Nodes: []int32{from}, Topic: simTopic, Partitions: []int32{0}, Err: kerr.NotLeaderForPartition, Count: -1, When: ofProcesses})
			w.send(to(0, request(fmt.Sprint("for ", lasts), in(0))))
			time.Sleep(lasts)
			if w.outstanding() != 1 {
				t.Errorf("it was read for %v", lasts)
			}
			if err := w.cluster.MoveTopicPartition(simTopic, 0, 1-from); err != nil {
				t.Fatal(err)
			}
			w.within(700*time.Millisecond, "it is read", func() bool { return w.outstanding() == 0 })
			if n := a.lines.Load() - lines; lasts < session && n > 0 {
				t.Errorf("%d lines in the log when a leader moves", n)
			}
			refusal.Remove()
			from = 1 - from
			time.Sleep(20 * time.Second)
		}
		w.finish()
	})
}

// A partition in which nothing is written is ready again when it may be read.
func TestSimUnreadWithoutRecords(t *testing.T) {
	scenario(t, worldConfig{partitions: 2}, func(w *world) {
		a := w.live("a")
		right := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: simTopic, Partitions: []int32{1}, Err: kerr.TopicAuthorizationFailed, Count: -1, When: ofProcesses})
		w.within(time.Second, "not ready", func() bool { ok, _ := a.p.Ready(); return !ok })
		right.Remove()
		w.within(wait.MostRest+2*time.Second, "ready again", func() bool { ok, _ := a.p.Ready(); return ok })
		w.finish()
	})
}
