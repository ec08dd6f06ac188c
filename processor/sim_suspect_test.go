//go:build synctests

package processor

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/topics"
)

// refusing makes orders refuse every batch with a record that has a word in it.
func (w *world) refusing(word string, why *kerr.Error) *kfake.FaultHandle {
	orders := w.cluster.TopicInfo("orders").TopicID
	return w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Err: why, Count: -1,
		When: func(kreq kmsg.Request) bool {
			for _, t := range kreq.(*kmsg.ProduceRequest).Topics {
				for _, p := range t.Partitions {
					if (t.Topic == "orders" || t.TopicID == orders) && bytes.Contains(p.Records, []byte(word)) {
						return true
					}
				}
			}
			return false
		},
	})
}

// deadLettered is how many dead letters the process has counted for a reason.
func (p *process) deadLettered(code string) (n int64) {
	for _, d := range p.p.Stats().DeadLetters {
		if d.Code == code {
			n += d.Records
		}
	}
	return n
}

// A record that its target refuses for what it is costs the others a second or two, and is
// dead-lettered, whatever the error.
func TestSimRefusedRecord(t *testing.T) {
	for _, why := range []*kerr.Error{kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.PolicyViolation, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.UnsupportedForMessageFormat} {
		for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
			t.Run(why.Message+"/"+string(guarantee), func(t *testing.T) {
				scenario(t, worldConfig{guarantee: guarantee, partitions: 4, refuses: true}, func(w *world) {
					a := w.start("a", nil)
					w.until("live", func() bool { return a.live(4) })
					refusing := w.refusing("poison", why)
					due := in(2 * time.Second)
					for i := range 400 {
						r := request(fmt.Sprint(i), due.Add(time.Duration(i%10)*time.Millisecond))
						if i == 100 || i == 101 || i == 250 {
							r = request("poison", due)
						}
						r.Partition = int32(i % 4)
						w.send(r)
					}
					time.Sleep(time.Until(due))
					code := string(topics.CodeRejected)
					if why == kerr.MessageTooLarge || why == kerr.RecordListTooLarge {
						code = string(topics.CodeTooLarge)
					}
					w.within(2*time.Second, "the three records are dead-lettered, the others delivered", func() bool {
						c := w.watch.Counts()
						return c.DeadLettered == 3 && c.Delivered == 397
					})
					w.within(100*time.Millisecond, "they are counted", func() bool {
						return a.deadLettered(code) == 3 && a.p.Stats().Topics[0].Delivered == 397
					})
					if refusing.Hits() < 6 {
						t.Errorf("only %d requests were refused", refusing.Hits())
					}
					if n := a.p.Stats().Retried; n > 0 {
						t.Errorf("%d records were carried on", n)
					}
					w.clean()
					a.kill()
				})
			})
		}
	}
}

// A target that refuses everything is in trouble, not its records: a few are dead-lettered, the
// others are carried on until it takes them, and other targets do not wait for it.
func TestSimRefusingTarget(t *testing.T) {
	scenario(t, worldConfig{refuses: true}, func(w *world) {
		a := w.live("a")
		refusing := w.refusing("", kerr.InvalidRecord)
		for i := range 50 {
			w.send(request(fmt.Sprint(i), in(time.Second)))
		}
		time.Sleep(5 * time.Second)
		for range 20 {
			r := request("elsewhere", in(100*time.Millisecond))
			r.Headers[2] = kgo.RecordHeader{Key: topics.HeaderTargetTopic, Value: []byte("bills")}
			before := w.outstanding()
			w.send(r)
			w.within(3*time.Second, "another target's record arrives", func() bool { return w.outstanding() <= before })
			time.Sleep(time.Second)
		}
		if n := a.deadLettered(string(topics.CodeRejected)); n == 0 || n > 2*mostBlamed {
			t.Errorf("%d records were dead-lettered", n)
		}
		refusing.Remove()
		w.within(time.Minute, "all have arrived", func() bool { return w.outstanding() == 0 })
		w.clean()
		a.kill()
	})
}

// A target that refuses one record of four, for as long as such are requested, keeps others waiting now
// and then for a second or two, not all the time; and what it takes of the others is delivered, too.
func TestSimRefusesMany(t *testing.T) {
	guarantees(t, worldConfig{refuses: true, late: 10 * time.Minute, latency: 3 * time.Millisecond}, func(w *world) {
		a := w.live("a")
		refusing := w.refusing("poison", kerr.InvalidRecord)
		for i := range 500 {
			key := fmt.Sprint(i)
			if i%4 == 0 {
				key = "poison"
			}
			w.send(request(key, in(100*time.Millisecond)), addressed("bills", request(fmt.Sprint("b", i), in(100*time.Millisecond))))
			time.Sleep(20 * time.Millisecond)
		}
		w.within(4*time.Second, "the other target has its records", func() bool { return a.deliveredTo("bills") == 500 })
		l := w.watch.Report().ByTarget["bills"]
		if p50, most := l.Quantile(.5), l.Quantile(1); p50 > 200*time.Millisecond || most > 4*time.Second {
			t.Errorf("records of the other target are late: p50 %v, at most %v", p50, most)
		}
		if n := w.watch.Counts().DeadLettered; n < 5 || refusing.Hits() < 50 {
			t.Errorf("%d were dead-lettered, %d requests refused", n, refusing.Hits())
		}
		w.within(5*time.Minute, "all have arrived", func() bool { return w.outstanding() == 0 })
		equal(t, "dead letters", w.watch.Counts().DeadLettered, 125)
		t.Logf("%d dials, in a second at most %d", a.link.dials.Load(), a.worst("dials"))
		if most := a.mostDials(); a.worst("dials") > most {
			t.Errorf("%d dials in a second, at most %d are expected", a.worst("dials"), most)
		}
		w.clean()
		a.kill()
	})
}
