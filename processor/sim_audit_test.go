//go:build synctests

package processor

import (
	"context"
	"encoding/json"
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

// told is a record of the audit topic, as those read it who ask.
type toldRecord struct {
	Event, Handle, ID, Topic, Group, By, Code, Target string
	At, Due                                           int64
	TargetPartition                                   int32 `json:"target_partition"`
	TargetOffset                                      int64 `json:"target_offset"`
}

// committed are the records of a topic that a reader of committed ones gets, by partition in order.
func (w *world) committedOf(topic string) (rs []*kgo.Record) {
	w.t.Helper()
	cl, err := kgo.NewClient(append(w.outside, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		w.fail("%v", err)
	}
	defer cl.Close()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second+10*w.latency)
		n := len(rs)
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { rs = append(rs, r) })
		over := ctx.Err() != nil // else it may have returned for what a broker has refused
		if cancel(); over && n == len(rs) {
			return rs
		}
	}
}

// audit is what was told of each handle, with the delay topic before it, in order.
func (w *world) audit() map[string][]toldRecord {
	w.t.Helper()
	all := map[string][]toldRecord{}
	for _, r := range w.committedOf(simAudit) {
		var a toldRecord
		if err := json.Unmarshal(r.Value, &a); err != nil || string(r.Key) != a.Handle && string(r.Key) != a.By || a.Handle == "" && a.ID == "" || a.Group != simGroup || a.At > r.Timestamp.UnixMilli() {
			w.fail("%s says %s: %v", r.Key, r.Value, err)
		}
		w.note("told %s", r.Value)
		if string(r.Key) != a.Handle {
			continue // it is of a cancel that has done nothing
		}
		all[a.Topic+" "+a.Handle] = append(all[a.Topic+" "+a.Handle], a)
	}
	return all
}

// outcomes are the events that end a request. A cancel in vain is told of the handle that it names, which may have an end of its own.
func outcomes(all []toldRecord) (n int) {
	for _, a := range all {
		switch {
		case a.Event == "delivered", a.Event == "cancelled", a.Event == "replaced", a.Event == "expired", a.Event == "dead_lettered", a.Event == "parked", a.Event == "duplicate", a.Code != "":
			n++
		}
	}
	return n
}

func tellsOf(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == topics.HeaderUntil {
			due, _ := strconv.ParseInt(string(h.Value), 10, 64)
			return topics.Handle{Partition: r.Partition, Offset: r.Offset, Due: due}.String()
		}
	}
	return fmt.Sprintf("%d-%d", r.Partition, r.Offset)
}

// namedBy is a record with a header that names another one.
func namedBy(header, handle string, r *kgo.Record) *kgo.Record {
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: header, Value: []byte(handle)})
	return r
}

func cancels(handle string, partition int32) *kgo.Record {
	return namedBy(topics.HeaderCancel, handle, &kgo.Record{Topic: simTopic, Partition: partition})
}

// Of each request the audit topic tells how it ended, once: across a crash inside a transaction, one that is refused, and a target in
// trouble. What was delivered is where it says.
func TestSimAudit(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: guarantee, partitions: 2, late: time.Second, audit: true}, func(w *world) {
				a := w.live("a")
				want := map[string][]string{}
				sent := func(r *kgo.Record, events ...string) string {
					w.send(r)
					want[tellsOf(r)] = events
					return tellsOf(r)
				}
				sent(request("on time", in(2*time.Second)), "accepted", "delivered")
				late := sent(request("late", in(-time.Second)), "delivered")
				sent(namedBy(topics.HeaderExpires, strconv.FormatInt(in(-time.Second).UnixMilli(), 10), request("expired", in(-5*time.Second))), "expired")
				sent(addressed("forbidden", request("not allowed", in(time.Hour))), "dead_lettered")
				sent(&kgo.Record{Topic: simTopic, Value: []byte("of no use")}, "dead_lettered")
				near := sent(request("near", in(4*time.Second)), "accepted", "cancelled")
				far := sent(request("far", in(time.Hour)), "accepted", "cancelled")
				old := sent(request("old", in(time.Hour)), "accepted", "replaced")
				_, mend := w.unwilling("bills", kerr.NotEnoughReplicas)
				sent(addressed("bills", request("in trouble", in(3*time.Second))), "accepted", "retried", "delivered")
				w.until("all are accepted, and one is delivered", func() bool {
					audited := a.p.Stats().Audited
					return audited["accepted"] == 5 && audited["delivered"] == 1
				})
				w.send(cancels(near, 0), cancels(near, 0), cancels(late, 0), cancels(far, 1))
				sent(namedBy(topics.HeaderReplace, old, request("new", in(8*time.Second))), "accepted", "delivered")
				sent(namedBy(topics.HeaderReplace, late, request("too late", in(time.Hour))), "too_late")
				w.until("it is carried on", func() bool { return a.p.Stats().Retried > 0 })
				mend()
				sent(request("refused", in(0)), "delivered")
				refused := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.OffsetCommit}, Err: kerr.RebalanceInProgress, Count: 2})
				w.until("it is delivered", func() bool { return w.watch.Counts().Delivered >= 4 })
				if refused.Remove(); refused.Hits() == 0 {
					t.Error("no commit was refused")
				}
				key := kmsg.EndTxn
				if guarantee == AtLeastOnce {
					key = kmsg.Produce
				}
				killed := a.killAt(key, false)
				sent(request("crash", in(0)), "delivered")
				sent(request("after the crash", in(30*time.Second)), "accepted", "delivered")
				w.hit(killed)
				w.start("b", nil)
				w.finish()

				told := w.audit()
				for handle, events := range want {
					var got []string
					for _, a := range told[simTopic+" "+handle] {
						if n := len(got); a.Event == "retried" && n > 0 && got[n-1] == "retried" {
							continue
						}
						got = append(got, a.Event)
					}
					if guarantee == AtLeastOnce { // a crash doubles
						got = distinct(got)
					}
					if fmt.Sprint(got) != fmt.Sprint(events) {
						t.Errorf("%s: told are %v, want %v", handle, got, events)
					}
				}
				if t.Failed() {
					t.Log(w.history())
				}
			})
		})
	}
}

func distinct(words []string) (out []string) {
	seen := map[string]bool{}
	for _, word := range words {
		if !seen[word] {
			out = append(out, word)
		}
		seen[word] = true
	}
	return out
}

// checkAudit compares what was told with what became of requests. Each record of a target is told of, once and with its place; at least
// once, of each request that one is told of, which after a crash may have another end. And none has two ends.
func (w *world) checkAudit() {
	w.t.Helper()
	once := w.cfg.guarantee == ExactlyOnce
	of, sources := map[string]string{}, map[string]bool{}
	for name, all := range w.audit() {
		accepted := 0
		for _, a := range all {
			h, _ := topics.ParseHandle([]byte(a.Handle))
			source := fmt.Sprintf("%s/%d/%d", a.Topic, h.Partition, h.Offset)
			switch a.Event {
			case "accepted":
				accepted++
				continue
			case "delivered":
				of[fmt.Sprintf("%s/%d/%d", a.Target, a.TargetPartition, a.TargetOffset)] = source
			}
			sources[source] = true
		}
		if n := outcomes(all); once && (n > 1 || accepted > 1) {
			w.fail("%s was accepted %d times, and has %d ends: %+v", name, accepted, n, all)
		}
	}
	found := 0
	for _, target := range w.targets() {
		for _, r := range w.committedOf(target.Topic) {
			source, place := w.sourceOf(r), fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)
			if told, is := of[place]; is && told != source || !is && once || !sources[source] {
				w.fail("%s is of %s, and told to be of %q; told of are %d", place, source, told, len(sources))
			}
			if _, is := of[place]; is {
				found++
			}
		}
	}
	if found != len(of) {
		w.fail("%d records are told to be delivered, and %d are there", len(of), found)
	}
	w.t.Logf("%d records are told to be delivered", found)
}

// While the audit topic takes no records nothing is delivered, which is said; then it goes on, and nothing is missing.
func TestSimAuditInTrouble(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		for _, refuses := range []bool{true, false} {
			t.Run(fmt.Sprint(guarantee, " refuses=", refuses), func(t *testing.T) {
				scenario(t, worldConfig{guarantee: guarantee, late: time.Hour, audit: true}, func(w *world) {
					a := w.live("a")
					w.send(request("before", in(0)))
					w.within(time.Second, "delivered", func() bool { return w.outstanding() == 0 })
					var mend func()
					if refuses {
						_, mend = w.unwilling(simAudit, kerr.NotEnoughReplicas)
					} else {
						mend = w.leaderless(simAudit)
					}
					lines := a.lines.Load()
					for i := range 100 {
						w.send(request(fmt.Sprint("k", i), in(time.Duration(i%3)*time.Second)))
						time.Sleep(200 * time.Millisecond)
					}
					ready, why := a.p.Ready()
					if ready || len(why) != 1 || !strings.Contains(why[0].Error, "audit topic "+simAudit) {
						t.Errorf("ready is %v, and it says %+v", ready, why)
					}
					if n := w.watch.Counts().Doubled; n > 0 || guarantee == ExactlyOnce && w.watch.Counts().Delivered != 1 {
						t.Errorf("%+v while nothing can be told", w.watch.Counts())
					}
					if n := a.lines.Load() - lines; n > 60 {
						t.Errorf("%d lines of the log", n)
					}
					mend()
					w.within(40*time.Second, "all arrive", func() bool { return w.outstanding() == 0 })
					if n := w.watch.Counts().Doubled; n > 0 {
						t.Errorf("%d are doubled", n)
					}
					w.finish()
				})
			})
		}
	}
}
