//go:build synctests

package processor

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/duewheel/duewheel/topics"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// small is the max.message.bytes of the topics of these tests.
const small = 20_000

// compressible is a value of many times what a small topic takes, and of little when it is compressed.
func compressible() []byte { return bytes.Repeat([]byte("all work and no play "), 3000) }

// incompressible is a value of so many bytes, whatever is done with it.
func incompressible(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// tooLarge makes a topic refuse batches above a size for it, and counts them.
func (w *world) tooLarge(topic string, size int) *kfake.FaultHandle {
	id := w.cluster.TopicInfo(topic).TopicID
	return w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.MessageTooLarge, Count: -1,
		When: func(kreq kmsg.Request) bool {
			for _, t := range kreq.(*kmsg.ProduceRequest).Topics {
				for _, p := range t.Partitions {
					if (t.Topic == topic || t.TopicID == id) && len(p.Records) > size {
						return true
					}
				}
			}
			return false
		},
	})
}

// Records that topics take because they are compressed are delivered, carried on and dead-lettered
// whole, and what goes along with them makes no batch that is too large.
func TestSimCompressed(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: guarantee}, func(w *world) {
				for _, topic := range []string{simTopic, simTopic + ".dead", "orders", "bills"} {
					w.configure(topic, "max.message.bytes", fmt.Sprint(small))
				}
				refusing := w.tooLarge("orders", small)
				a := w.live("a")
				burst := func(to string, due time.Time) {
					for i := range 100 {
						r := addressed(to, request(fmt.Sprintf("%d", i), due))
						r.Value = incompressible(1000)
						if i == 30 || i == 31 || i == 60 {
							r.Value = compressible()
						}
						w.send(r)
					}
				}
				// The producers know the topic by small records only, when large ones come.
				w.send(request("first", in(500*time.Millisecond)), request("second", in(time.Second)))
				due := in(3 * time.Second)
				burst("orders", due)
				bad := request("bad", due)
				bad.Value, bad.Headers[1].Value = compressible(), []byte("soon")
				w.send(bad)
				time.Sleep(time.Until(due))
				w.within(2*time.Second, "all are delivered, one is dead-lettered whole", func() bool {
					c := w.watch.Counts()
					return c.Delivered == 102 && c.DeadLettered == 1
				})
				mend := w.leaderless("bills")
				burst("bills", in(2*time.Second))
				time.Sleep(4 * time.Second)
				mend()
				w.within(30*time.Second, "all have arrived", func() bool { return w.outstanding() == 0 })
				if a.p.Stats().Retried < 100 {
					t.Errorf("%d records were carried on", a.p.Stats().Retried)
				}
				if n := refusing.Hits(); n > 0 {
					t.Errorf("%d batches were too large", n)
				}
				if n := w.lines("cut_to_fit"); n > 0 {
					t.Error("a dead letter was cut")
				}
				w.clean()
				a.kill()
			})
		})
	}
}

// Where brokers do not tell what a target takes, it is tried: a record is delivered that is larger than what they take by default, and dead-lettered when it is refused.
func TestSimUntoldSizes(t *testing.T) {
	scenario(t, worldConfig{refuses: true}, func(w *world) {
		const takes = 3 << 20
		for _, topic := range []string{simTopic, simTopic + ".dead", "orders"} {
			w.configure(topic, "max.message.bytes", fmt.Sprint(2*takes))
		}
		w.cluster.ControlKey(int16(kmsg.DescribeConfigs), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			resp := kreq.ResponseKind().(*kmsg.DescribeConfigsResponse)
			for _, r := range kreq.(*kmsg.DescribeConfigsRequest).Resources {
				rr := kmsg.NewDescribeConfigsResponseResource()
				rr.ResourceType, rr.ResourceName, rr.ErrorCode = r.ResourceType, r.ResourceName, kerr.TopicAuthorizationFailed.Code
				resp.Resources = append(resp.Resources, rr)
			}
			return resp, nil, true
		})
		refusing := w.tooLarge("orders", takes)
		large, err := kgo.NewClient(append(w.outside, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(2*takes))...)
		if err != nil {
			t.Fatal(err)
		}
		w.client.Close()
		w.client = large
		a := w.live("a")
		due := in(2 * time.Second)
		for i := range 100 {
			r := request(fmt.Sprint(i), due)
			r.Value = incompressible(1000)
			switch i {
			case 30:
				r.Value = incompressible(takes / 2)
			case 60:
				r.Value = incompressible(takes + takes/2)
			}
			w.send(r)
		}
		time.Sleep(time.Until(due))
		w.within(3*time.Second, "one is dead-lettered, the others delivered", func() bool {
			c := w.watch.Counts()
			return c.DeadLettered == 1 && c.Delivered == 99
		})
		if n := a.deadLettered(string(topics.CodeTooLarge)); n != 1 || refusing.Hits() == 0 {
			t.Errorf("%d are dead-lettered as too large, and %d batches were refused", n, refusing.Hits())
		}
		w.clean()
		a.kill()
	})
}

// A target that takes larger records than before gets them, and no larger batches than now.
func TestSimLargerThanBefore(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		w.configure("orders", "max.message.bytes", fmt.Sprint(small))
		a := w.live("a")
		w.send(request("first", in(500*time.Millisecond)), request("second", in(time.Second)))
		w.within(2*time.Second, "both are delivered", func() bool { return w.outstanding() == 0 })
		configure := func(bytes int32) {
			w.configure("orders", "max.message.bytes", fmt.Sprint(bytes))
			w.until("it is seen", func() bool { return a.p.targets.Of([]byte("orders")).State.Load().Takes.MaxBytes == bytes })
		}
		configure(10 * small)
		large := request("large", in(time.Second))
		large.Value = incompressible(5 * small)
		w.send(large)
		w.within(2*time.Second, "it is delivered", func() bool { return w.outstanding() == 0 })
		configure(small)
		refusing := w.tooLarge("orders", small)
		due := in(time.Second)
		for i := range 100 {
			r := request(fmt.Sprint(i), due)
			r.Value = incompressible(1000)
			w.send(r)
		}
		w.within(2*time.Second, "all are delivered", func() bool { return w.outstanding() == 0 })
		if n := refusing.Hits(); n > 0 {
			t.Errorf("%d batches were too large", n)
		}
		w.clean()
		a.kill()
	})
}

// A target that takes less than before, and less than much of what waits for it has, is asked what it takes at its first refusal: what is too large is
// dead-lettered, the rest delivered in batches that are small enough, and other targets hardly wait for it.
func TestSimSmallerThanBefore(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: guarantee, refuses: true}, func(w *world) {
				a := w.live("a")
				due := in(12 * time.Second)
				for i := range 400 {
					r := addressed("orders", request(fmt.Sprintf("order%d", i), due.Add(time.Duration(i%100)*10*time.Millisecond)))
					if r.Value = incompressible(1000); i%4 == 0 {
						r.Value = incompressible(2 * small)
					}
					w.send(r, addressed("bills", request(fmt.Sprintf("bill%d", i), due.Add(time.Duration(i%100)*10*time.Millisecond))))
				}
				w.send(addressed("orders", request("first", in(time.Second))))
				time.Sleep(time.Until(due.Add(-time.Second)))
				w.configure("orders", "max.message.bytes", fmt.Sprint(small))
				refusing := w.tooLarge("orders", small)
				time.Sleep(2 * time.Second)
				w.within(500*time.Millisecond, "what is too large is dead-lettered, the rest delivered", func() bool {
					c := w.watch.Counts()
					return c.DeadLettered == 100 && c.Delivered == 701
				})
				if n := refusing.Hits(); n == 0 || n > 10 {
					t.Errorf("%d batches were refused", n)
				}
				w.clean()
				a.kill()
			})
		})
	}
}

// So is one that is compacted from now on, and refuses what has no key.
func TestSimCompactedFromNowOn(t *testing.T) {
	scenario(t, worldConfig{refuses: true}, func(w *world) {
		a := w.live("a")
		due := in(12 * time.Second)
		for i := range 100 {
			r := addressed("orders", request(fmt.Sprintf("poison%d", i), due.Add(time.Duration(i)*10*time.Millisecond)))
			r.Key = nil
			w.send(r, addressed("bills", request(fmt.Sprintf("bill%d", i), due.Add(time.Duration(i)*10*time.Millisecond))))
		}
		w.send(addressed("orders", request("first", in(time.Second))))
		time.Sleep(time.Until(due.Add(-time.Second)))
		w.configure("orders", "cleanup.policy", "compact")
		refusing := w.refusing("poison", kerr.InvalidRecord)
		time.Sleep(2 * time.Second)
		w.within(500*time.Millisecond, "what has no key is dead-lettered, the rest delivered", func() bool {
			c := w.watch.Counts()
			return c.DeadLettered == 100 && c.Delivered == 101
		})
		if n := refusing.Hits(); n == 0 || n > 10 {
			t.Errorf("%d batches were refused", n)
		}
		w.clean()
		a.kill()
	})
}

// A dead letter whose topic refuses it for its size, whatever it says of what it takes, is cut, and
// the log says so. What goes along with it is not.
func TestSimDeadLetterRefusedForItsSize(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		refusing := w.tooLarge(simTopic+".dead", small)
		due := in(2 * time.Second)
		for i := range 50 {
			w.send(request(fmt.Sprint(i), due))
			r := request("bad", due)
			r.Headers[1].Value = []byte("soon")
			if i == 20 {
				r.Value = incompressible(5 * small)
			}
			w.send(r)
		}
		time.Sleep(time.Until(due))
		w.within(3*time.Second, "all are delivered or dead-lettered", func() bool {
			c := w.watch.Counts()
			return c.Delivered == 50 && c.DeadLettered == 50
		})
		if n := refusing.Hits(); n == 0 || n > 30 {
			t.Errorf("%d batches were refused", n)
		}
		w.within(time.Minute+10*time.Second, "the log tells of the cut", func() bool { return w.lines("cut_to_fit=1 ") == 1 })
		a.kill()
	})
}

// A record that is to be carried on, and that the delay topic refuses for its size, waits where it is.
func TestSimRetryRefusedForItsSize(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		due := in(time.Second)
		r := request("large", due)
		r.Value = incompressible(5 * small)
		w.send(r)
		refusing := w.tooLarge(simTopic, small)
		mend := w.leaderless("orders")
		time.Sleep(10 * time.Second)
		if n := refusing.Hits(); n != 1 {
			t.Errorf("the delay topic has refused it %d times", n)
		}
		mend()
		w.within(5*time.Second, "it is delivered", func() bool { return w.outstanding() == 0 })
		w.clean()
		a.kill()
	})
}
