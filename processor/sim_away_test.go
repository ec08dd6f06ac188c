//go:build synctests

package processor

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// What was cancelled or replaced while no replica was running never comes, though it is overdue when one is back: if both were written to one partition. What
// was written to another partition is passed on by its owner, and meanwhile what is overdue may go: then it is too late, and that is told. (Design rule 2.)
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
	late := 0
	for value := range maps.Keys(a.beside) {
		late += came[value]
	}
	did := p.p.Stats().Cancels
	a.t.Logf("of %d that were cancelled in another partition %d came: %v", len(a.beside), late, did)
	if did["forwarded"] != int64(len(a.beside)) || did["cancelled"] != int64(8+len(a.beside)-late) || did["replaced"] != 8 || did["too_late"]+did["not_here"] != int64(late) {
		a.t.Errorf("%d came of those that were cancelled in another partition, and what became of cancels is %v", late, did)
	}
}
