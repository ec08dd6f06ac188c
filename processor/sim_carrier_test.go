//go:build synctests

package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/retention"
)

// carriersAsk are the requests of carriers, the errors that they may be answered with, the likeliest first, and how to tell them from all others.
var carriersAsk = []struct {
	key   kmsg.Key
	topic string
	errs  []*kerr.Error
}{
	{kmsg.Fetch, simTopic, []*kerr.Error{kerr.NotLeaderForPartition, kerr.OffsetOutOfRange, kerr.UnknownTopicID, kerr.TopicAuthorizationFailed, kerr.KafkaStorageError, kerr.CorruptMessage, kerr.UnknownServerError}},
	{kmsg.ListOffsets, simTopic, []*kerr.Error{kerr.NotLeaderForPartition, kerr.TopicAuthorizationFailed, kerr.UnknownTopicOrPartition, kerr.UnknownServerError}},
	{kmsg.DescribeConfigs, "", []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.UnknownServerError}},
}

// ofCarriers picks the requests of carriers: a fetch that waits for no bytes and has no session, and offsets by time.
func ofCarriers(req kmsg.Request) bool {
	switch req := req.(type) {
	case *kmsg.FetchRequest:
		return req.MinBytes == 0 && req.SessionEpoch == -1
	case *kmsg.ListOffsetsRequest:
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				return p.Timestamp >= 0
			}
		}
		return false
	}
	return true
}

// carrierWorld is a topic that keeps its log for a time, with records in it that wait for four times as long, and one process.
func carrierWorld(t *testing.T, cfg worldConfig, keeps time.Duration, run func(w *world, a *process)) {
	t.Helper()
	cfg.tune = func(c *Config) { c.NearWindow = 2 * time.Second }
	scenario(t, cfg, func(w *world) {
		w.set("retention.ms", fmt.Sprint(keeps.Milliseconds()))
		a := w.live("a")
		for i := range 20 {
			r := request(fmt.Sprint("far", i), in(4*keeps))
			r.Partition = int32(i) % max(cfg.partitions, 1)
			w.send(r)
		}
		run(w, a)
	})
}

// ages lets time pass, while the topic deletes what is older than it keeps.
func (w *world) ages(keeps, d time.Duration) (went int64) {
	w.t.Helper()
	for until := in(d); time.Now().Before(until); time.Sleep(time.Second) {
		went += w.age(keeps)
	}
	return went
}

// Whatever brokers answer a carrier for nearly half of the time that is left for it, nothing is lost: it asks seldom meanwhile, and goes on soon when they
// have stopped.
func TestSimCarryEachRefusal(t *testing.T) {
	const keeps, ill = 2 * time.Minute, 45 * time.Second
	for _, a := range carriersAsk {
		for i, e := range a.errs {
			if testing.Short() && i > 0 {
				continue
			}
			t.Run(a.key.Name()+"/"+e.Message, func(t *testing.T) {
				carrierWorld(t, worldConfig{partitions: 2, brokers: 2}, keeps, func(w *world, p *process) {
					w.ages(keeps, keeps/2-2*time.Second)
					before := p.requests()
					fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{a.key}, Topic: a.topic, Err: e, Count: -1, When: ofCarriers})
					time.Sleep(ill)
					fault.Remove()
					n := p.requests()[a.key] - before[a.key]
					t.Logf("%d hits, %d requests; %d copies", fault.Hits(), n, p.carried())
					if fault.Hits() < 2 {
						t.Errorf("%d requests were refused", fault.Hits())
					}
					if a.key != kmsg.Fetch && n > 120 || fault.Hits() > 150 {
						t.Errorf("%d requests in %v, of which %d were refused", n, ill, fault.Hits())
					}
					if p.carried() < 20 {
						w.within(12*time.Second, "all is carried", func() bool { return p.carried() >= 20 })
					}
					if went := w.ages(keeps, 3*keeps); went < 20 {
						t.Errorf("%d offsets went", went)
					}
					w.finish()
				})
			})
		}
	}
}

// A carrier that is not answered, or whose connections break, goes on with another one.
func TestSimCarrySilence(t *testing.T) {
	const keeps = 2 * time.Minute
	for _, a := range carriersAsk[:2] {
		for name, cut := range map[string]bool{"silent": false, "cut": true} {
			t.Run(a.key.Name()+"/"+name, func(t *testing.T) {
				carrierWorld(t, worldConfig{partitions: 2, brokers: 2}, keeps, func(w *world, p *process) {
					w.ages(keeps, keeps/2-2*time.Second)
					held := make(chan struct{})
					hit := p.link.on(rule{key: a.key, match: ofCarriers, count: 4, wait: held, cut: cut})
					if cut {
						close(held)
					}
					w.hit(hit)
					w.within(40*time.Second, "all is carried", func() bool { return p.carried() >= 20 })
					if !cut {
						close(held)
					}
					w.ages(keeps, 3*keeps)
					w.finish()
				})
			})
		}
	}
}

// Where retention has cut the log since it was looked at, carrying goes on at once where it begins now.
func TestSimCarryCutMeanwhile(t *testing.T) {
	const keeps = 126 * time.Second // lanes ask every ten seconds where logs begin
	carrierWorld(t, worldConfig{}, keeps, func(w *world, p *process) {
		fetches := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: simTopic, Err: kerr.NotLeaderForPartition, Count: -1, When: ofCarriers})
		w.until("it fetches", func() bool { return fetches.Hits() > 0 })
		if err := w.cluster.DeleteRecords(simTopic, 0, 5); err != nil {
			t.Fatal(err)
		}
		fetches.Remove()
		w.within(3*time.Second, "the rest is carried", func() bool { return p.carried() == 15 })
	})
}

// That brokers do not say how old a log is, or that it cannot be carried, is said while there is time to act, and when it is over.
func TestSimCarryIsSaid(t *testing.T) {
	const keeps = 40 * time.Minute
	uncarried := func(p *process) string { return p.p.Stats().Topics[0].Uncarried }
	for _, a := range carriersAsk[1:3] {
		t.Run(a.key.Name(), func(t *testing.T) {
			carrierWorld(t, worldConfig{partitions: 2}, keeps, func(w *world, p *process) {
				fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{a.key}, Topic: a.topic, Err: kerr.UnknownServerError, Count: -1, When: ofCarriers})
				w.within(retention.Unsaid+2*time.Minute, "it is said", func() bool { return strings.Contains(uncarried(p), "UNKNOWN_SERVER_ERROR") })
				fault.Remove()
				w.within(90*time.Second, "it is over", func() bool { return uncarried(p) == "" })
			})
		})
	}
	t.Run("behind", func(t *testing.T) {
		carrierWorld(t, worldConfig{partitions: 2}, keeps, func(w *world, p *process) {
			fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: simTopic, Err: kerr.NotLeaderForPartition, Count: -1, When: ofCarriers})
			time.Sleep(keeps/4*3 + 2*time.Minute)
			if why := p.p.Stats().Partitions[0].CarryBehind; !strings.Contains(why, "NOT_LEADER") {
				t.Errorf("it says %q", why)
			}
			fault.Remove()
			w.within(3*time.Minute, "it is over", func() bool { return p.p.Stats().Partitions[0].CarryBehind == "" })
		})
	})
	t.Run("no turn", func(t *testing.T) {
		carrierWorld(t, worldConfig{partitions: 2}, keeps, func(w *world, p *process) {
			time.Sleep(time.Minute)
			p.limit(1) // the quota holds up all turns
			for range 3 {
				w.send(request("due", in(time.Second)))
			}
			time.Sleep(keeps/4*3 + 2*time.Minute)
			if why := p.p.Stats().Partitions[0].CarryBehind; why == "" {
				t.Error("nothing is said")
			}
			p.limit(0)
		})
	})
}

// A broker that does not answer a carrier does not keep the partitions of another one from being carried.
func TestSimCarryOneBrokerAway(t *testing.T) {
	const keeps = 2 * time.Minute
	carrierWorld(t, worldConfig{partitions: 2, brokers: 2}, keeps, func(w *world, p *process) {
		for partition := range int32(2) { // each broker leads one
			if err := w.cluster.MoveTopicPartition(simTopic, partition, partition); err != nil {
				w.fail("%v", err)
			}
		}
		w.ages(keeps, keeps/2-5*time.Second)
		hit := p.link.on(rule{key: kmsg.ListOffsets, count: -1, cut: true, match: func(req kmsg.Request) bool {
			for _, t := range req.(*kmsg.ListOffsetsRequest).Topics {
				for _, rp := range t.Partitions {
					return ofCarriers(req) && rp.Partition == 1
				}
			}
			return false
		}})
		w.hit(hit)
		w.within(20*time.Second, "partition 0 is carried", func() bool { return p.carried() == 10 })
		p.link.clear()
		w.within(20*time.Second, "partition 1 is carried", func() bool { return p.carried() == 20 })
		w.ages(keeps, 3*keeps)
		w.finish()
	})
}

// Of a log of which most is resolved no more is read than where something is pending: for each copy about a batch of those that producers wrote.
func TestSimCarryReadsLittle(t *testing.T) {
	const keeps, batches, each = 2 * time.Minute, 60, 50
	guarantees(t, worldConfig{tune: func(c *Config) { c.NearWindow = 2 * time.Second }}, func(w *world) {
		w.set("retention.ms", fmt.Sprint(keeps.Milliseconds()))
		p := w.live("a")
		for i := range batches {
			var rs []*kgo.Record
			for k := range each {
				r := request(fmt.Sprint(i, k), in(time.Second))
				r.Value = incompressible(1000)
				rs = append(rs, r)
			}
			if i%10 == 5 {
				w.send(request(fmt.Sprint("far", i), in(2*keeps)))
			}
			w.send(rs...)
		}
		w.ages(keeps, keeps/4*3)
		read := p.link.carriersRead.Load()
		t.Logf("%d copies, %d bytes read of a log of %d", p.carried(), read, batches*each*1100)
		if p.carried() != batches/10 || read == 0 || read > batches/10*4*(4<<10) {
			t.Errorf("%d copies, %d bytes read", p.carried(), read)
		}
		w.finish()
	})
}
