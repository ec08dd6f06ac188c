//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/topics"
)

// What was cancelled or replaced while no replica was running never comes, though it is overdue when one is back: if both were written to one partition. What
// was written to another partition is passed on by its owner, and what is overdue waits for that where one process has both. (Design rule 2.)
func TestSimCancelledWhileAllWereAway(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		for _, disk := range []string{"its store", "an empty disk"} {
			t.Run(fmt.Sprintf("%s, %s", guarantee, disk), func(t *testing.T) {
				scenario(t, worldConfig{guarantee: guarantee, partitions: 2, inTime: 10 * time.Second, audit: true}, func(w *world) {
					p := w.start("a", nil)
					w.until("live", func() bool { return p.live(2) })
					a := away{world: w, due: in(40 * time.Second), near: in(3 * time.Second)}
					a.ask()
					time.Sleep(time.Second)
					has := p.kill()
					if disk != "its store" {
						has = nil
					}
					a.changeMinds()
					time.Sleep(5 * time.Minute)
					p = w.start("a", has)
					w.until("live again", func() bool { return p.live(2) })
					time.Sleep(10 * time.Second)
					w.finish()
					a.judge(p)
				})
			})
		}
	}
}

// So it is where one partition has nothing but the record, and another one nothing but the cancel.
func TestSimCancelledBesideWhileAllWereAway(t *testing.T) {
	guarantees(t, worldConfig{partitions: 2, late: time.Hour, latency: 20 * time.Millisecond}, func(w *world) {
		a := w.live("a")
		r := to(0, request("cancelled", in(10*time.Second)))
		w.send(r)
		w.until("accepted", func() bool { return a.pending() == 1 })
		a.kill()
		h, _ := handleOf(r)
		w.send(to(1, &kgo.Record{Topic: simTopic, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(h.String())}}}))
		time.Sleep(time.Minute)
		b := w.start("b", nil)
		w.until("live", func() bool { return b.live(2) })
		time.Sleep(10 * time.Second)
		w.finish()
		if did := b.p.Stats().Cancels; did["cancelled"] != 1 {
			t.Errorf("what became of the cancel is %v", did)
		}
		b.kill()
	})
}

// What a partition may have to pass on that cannot be read is not waited for, for longer than 5 s: what is overdue in the others goes then.
func TestSimWaitsNoLongerForWhatIsPassedOn(t *testing.T) {
	const away = time.Minute
	scenario(t, worldConfig{partitions: 2, late: away + 10*time.Second}, func(w *world) {
		a := w.live("a")
		w.send(to(0, request("overdue", in(10*time.Second))), to(1, request("behind", in(10*time.Second))))
		w.until("accepted", func() bool { return a.pending() == 2 })
		a.kill()
		time.Sleep(away)
		h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: simTopic, Partitions: []int32{1}, Err: kerr.NotLeaderForPartition, Count: -1})
		b := w.start("b", nil)
		w.within(soonEnough, "one is live", func() bool { return b.live(1) })
		time.Sleep(4 * time.Second)
		if n := w.outstanding(); n != 2 {
			t.Errorf("%d are outstanding: it does not wait for the other partition", n)
		}
		w.within(time.Second+200*time.Millisecond, "it goes", func() bool { return w.outstanding() == 1 })
		h.Remove()
		w.arrived()
		w.finish()
	})
}

// A replica whose stay has ended while it brought partitions back shows none of them any more.
func TestSimShowsNothingOfAStayThatHasEnded(t *testing.T) {
	scenario(t, worldConfig{partitions: 2}, func(w *world) {
		p := w.start("a", nil)
		mend := p.holdCommits(0) // claims are not answered
		w.within(soonEnough, "it is in the group", func() bool { return p.told(EventAssigned) > 0 })
		h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, Count: -1})
		w.within(10*session, "its stay has ended", func() bool { return !p.joined() })
		time.Sleep(time.Second)
		if all := p.p.Stats().Partitions; len(all) > 0 {
			t.Errorf("it shows %+v", all)
		}
		mend()
		h.Remove()
		w.until("live", func() bool { return p.live(2) })
		w.finish()
	})
}

// away is what is asked for while a replica runs, and not any more when none does.
type away struct {
	*world
	due, near time.Time

	asked  []*kgo.Record
	stays  map[string]bool // by value: nothing has changed its producer's mind
	minds  map[string]bool // what was changed in its own partition
	beside map[string]bool // in another one
}

// ask asks for records that lie in memory and in the store, by handle and by id, in both partitions.
func (a *away) ask() {
	for i := range 32 {
		due := a.due
		if i%2 == 0 {
			due = a.near
		}
		r := request(fmt.Sprint(i), due)
		r.Partition = int32(i / 2 % 2)
		if i/4%2 == 1 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderID, Value: fmt.Append(nil, "id", i)})
		}
		a.asked = append(a.asked, r)
	}
	a.send(a.asked...)
}

// changeMinds cancels a third of them in their own partition, replaces some there, cancels a third in the other partition, and leaves the rest.
func (a *away) changeMinds() {
	a.stays, a.minds, a.beside = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, r := range a.asked {
		name := fmt.Sprint("id", i)
		if h, ok := handleOf(r); ok {
			name = h.String()
		}
		c := &kgo.Record{Topic: simTopic, Partition: r.Partition, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(name)}}}
		switch i / 8 {
		case 0:
			a.stays[string(r.Value)] = true
			continue
		case 1:
			a.minds[string(r.Value)] = true
		case 2:
			a.minds[string(r.Value)] = true
			c = request(fmt.Sprint("instead of ", i), a.due)
			c.Partition = r.Partition
			c.Headers = append(c.Headers, kgo.RecordHeader{Key: topics.HeaderReplace, Value: []byte(name)})
			a.stays[string(c.Value)] = true
		case 3:
			a.beside[string(r.Value)] = true
			c.Partition = 1 - r.Partition
		}
		a.send(c)
	}
}

func (a *away) judge(p *process) {
	came := map[string]int{}
	for _, r := range a.committedOf("orders") {
		came[string(r.Value)]++
	}
	for value := range a.stays {
		if came[value] != 1 {
			a.t.Errorf("%s came %d times", value, came[value])
		}
	}
	for value := range a.minds {
		if came[value] > 0 {
			a.t.Errorf("%s came, and was cancelled or replaced in its own partition while no replica was running", value)
		}
	}
	for value := range a.beside {
		if came[value] > 0 {
			a.t.Errorf("%s came, and was cancelled in another partition while no replica was running", value)
		}
	}
	did := p.p.Stats().Cancels
	if n := int64(len(a.beside)); n == 0 || did["forwarded"] != n || did["cancelled"] != 8+n || did["replaced"] != 8 {
		a.t.Errorf("what became of cancels is %v, of which %d were written to another partition", did, n)
	}
}
