//go:build synctests

package processor

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/topics"
)

// Turns with two parts of one partition happen once or not at all, while all sorts of things go wrong; with an audit topic or without, and with records that a target
// refuses for what they are.
func TestSimTwoPartsInTrouble(t *testing.T) {
	chained := int64(0)
	for name, trouble := range map[string]func(w *world, a *process, step int){
		"dead letters away": func(w *world, _ *process, step int) {
			if step%4 == 1 {
				mend := w.leaderless(simTopic + ".dead")
				time.AfterFunc(400*time.Millisecond, mend)
			}
		},
		"end not known": func(w *world, _ *process, step int) {
			w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.UnknownServerError, Count: 1})
		},
		"offsets refused": func(w *world, _ *process, step int) {
			w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.OffsetCommit}, Err: kerr.RebalanceInProgress, Count: 1 + step%2})
		},
		"orders refuse": func(w *world, _ *process, step int) {
			h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Err: kerr.NotLeaderForPartition, Count: -1})
			time.AfterFunc(20*time.Millisecond, func() { h.Remove() })
		},
		"bills refuse": func(w *world, _ *process, step int) {
			h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "bills", Err: kerr.NotEnoughReplicas, Count: -1})
			time.AfterFunc(20*time.Millisecond, func() { h.Remove() })
		},
		"delay topic refuses": func(w *world, _ *process, step int) {
			h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: simTopic, Err: kerr.NotEnoughReplicas, Count: -1})
			time.AfterFunc(20*time.Millisecond, func() { h.Remove() })
		},
		"crash": func(w *world, a *process, step int) {
			if step == 3 {
				a.kill()
				w.start("b", nil)
			}
		},
		"expelled": func(w *world, a *process, step int) {
			if step%3 == 0 {
				w.expel()
			}
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			for seed := range uint64(2) {
				cfg := worldConfig{seed: seed, audit: seed == 1, refuses: true, late: 10 * time.Minute, latency: 3 * time.Millisecond, retries: 1000,
					tune: func(c *Config) { c.BatchRecords = 48 }}
				guarantees(t, cfg, func(w *world) { chained += twoPartsInTrouble(w, (len(name)+int(seed))%2 == 0, trouble) })
			}
		})
	}
	if t.Logf("%d turns had two parts of one partition", chained); chained < 100 {
		t.Errorf("only %d turns had two parts of one partition", chained)
	}
}

// twoPartsInTrouble plays one of them, and says how many turns there were.
func twoPartsInTrouble(w *world, poison bool, trouble func(*world, *process, int)) (chained int64) {
	const hot, others = 1500, 120
	a := w.live("a")
	due := in(5 * time.Second)
	var all []*kgo.Record
	for i := range hot {
		r := addressed("bills", request(fmt.Sprint("h", i), due))
		if i%40 == 0 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderExpires, Value: strconv.AppendInt(nil, due.Add(time.Duration(i/10)*time.Millisecond).UnixMilli(), 10)})
		}
		all = append(all, r)
	}
	for i := range others {
		key := fmt.Sprint("o", i)
		if poison && i%30 == 7 {
			key = "poison"
		}
		all = append(all, request(key, due.Add(20*time.Millisecond+time.Duration(i)*5*time.Millisecond)))
	}
	w.send(all...)
	if poison {
		w.refusing("poison", kerr.InvalidRecord)
	}
	time.Sleep(time.Until(due) + 30*time.Millisecond)
	for step := range 8 {
		trouble(w, a, step)
		for i := range 5 { // late, and while all that goes on
			w.send(request(fmt.Sprint("l", step, i), in(-time.Second)), addressed("bills", request(fmt.Sprint("m", step, i), in(10*time.Millisecond))))
		}
		time.Sleep(70 * time.Millisecond)
	}
	w.finish()
	return a.p.counters.chained.Load()
}
