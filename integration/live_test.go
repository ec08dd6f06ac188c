package integration

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor"
)

// view is which replica has which partitions live, put together from the events of each. Replicas that run and can be reached
// count; one that is frozen or cut off goes on believing in what it had.
type view struct {
	mu         sync.Mutex
	partitions int
	said       map[string]map[int32]holding // by replica: its live partitions
	counted    map[string]bool              // replicas that count
	open       []*recovery                  // not over yet
	over       []*recovery
}

// holding is a live partition: the lane that has it, and when that has last written its checkpoint.
type holding struct {
	lane int
	at   time.Time
}

// recovery is the way from a fault until all partitions are live again.
type recovery struct {
	fault  fault
	began  time.Time
	took   time.Duration
	shared bool // another fault came before it was over
}

func newView(partitions int) *view {
	return &view{partitions: partitions, said: make(map[string]map[int32]holding), counted: make(map[string]bool)}
}

// overAndDone are the events after which a partition is live no more.
var overAndDone = []processor.EventKind{processor.EventDropped, processor.EventStopped, processor.EventLeaving}

// hear takes what a replica tells.
func (v *view) hear(replica string, e processor.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.said[replica] == nil {
		v.said[replica] = make(map[int32]holding)
	}
	live := v.said[replica]
	for _, tp := range e.Partitions {
		h, has := live[tp.Partition]
		has = has && h.lane == e.Lane
		switch {
		case e.Kind == processor.EventLive, has && e.Kind == processor.EventCommitted:
			live[tp.Partition] = holding{e.Lane, e.At}
		case has && slices.Contains(overAndDone, e.Kind):
			delete(live, tp.Partition)
		}
	}
	v.settle()
}

// count says whether a replica counts. One that does not any more keeps what it said, for when it does again.
func (v *view) count(replica string, counts bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if counts {
		v.counted[replica] = true
	} else {
		delete(v.counted, replica)
	}
	v.settle()
}

// forget drops a replica that has ended.
func (v *view) forget(replica string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.said, replica)
	delete(v.counted, replica)
	v.settle()
}

// begin notes a fault that happens now.
func (v *view) begin(f fault) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := &recovery{fault: f, began: time.Now(), shared: len(v.open) > 0}
	for _, other := range v.open {
		other.shared = true
	}
	v.open = append(v.open, r)
}

// settle ends the recoveries that are over. It is called with mu held.
func (v *view) settle() {
	v.open = slices.DeleteFunc(v.open, func(r *recovery) bool {
		if v.missing(r.began) != "" {
			return false
		}
		r.took = time.Since(r.began)
		v.over = append(v.over, r)
		return true
	})
}

// missing says what is wanting until every partition is live in exactly one replica and has made a checkpoint since.
func (v *view) missing(since time.Time) string {
	for p := range int32(v.partitions) {
		var holders []string
		fresh := false
		for replica := range v.counted {
			if h, ok := v.said[replica][p]; ok {
				holders = append(holders, replica)
				fresh = h.at.After(since)
			}
		}
		switch {
		case len(holders) == 0:
			return fmt.Sprintf("partition %d is live nowhere", p)
		case len(holders) > 1:
			return fmt.Sprintf("partition %d is live in %v", p, holders)
		case !fresh:
			return fmt.Sprintf("partition %d in %s has made no checkpoint since", p, holders[0])
		}
	}
	return ""
}

// wanting says what is wanting until the recoveries are over.
func (v *view) wanting() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.open {
		return fmt.Sprintf("%v after the fault %q: %s", time.Since(r.began).Round(time.Millisecond), r.fault, v.missing(r.began))
	}
	return ""
}

// idle names a replica that counts and has no live partition.
func (v *view) idle() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	for replica := range v.counted {
		if len(v.said[replica]) == 0 {
			return fmt.Sprintf("replica %s has no live partition", replica)
		}
	}
	return ""
}

// blind tells whether no replica counts.
func (v *view) blind() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.counted) == 0
}

// tailLines is how many lines of one replica are shown.
const tailLines = 25

// tailOf returns the last lines that have a word.
func (j *journal) tailOf(word string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines [][]byte
	for line := range bytes.Lines(j.all.Bytes()) {
		if bytes.Contains(line, []byte(word)) {
			lines = append(lines, line)
		}
	}
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], nil))
}

// A fault is over when every partition is live in exactly one of the replicas that count, and has made a checkpoint since.
func TestView(t *testing.T) {
	v := newView(2)
	tell := func(replica string, kind processor.EventKind, at time.Duration, partitions ...int32) {
		e := processor.Event{Kind: kind, At: time.Now().Add(at)}
		for _, p := range partitions {
			e.Partitions = append(e.Partitions, processor.TopicPartition{Partition: p})
		}
		v.hear(replica, e)
	}
	const before, after = -time.Second, time.Minute
	live, committed, dropped := processor.EventLive, processor.EventCommitted, processor.EventDropped
	for _, replica := range []string{"a", "b"} {
		v.count(replica, true)
	}
	tell("a", live, before, 0, 1)
	v.begin(killFault)
	for _, c := range []struct {
		what string
		do   func()
		over bool
	}{
		{"no checkpoint since", func() {}, false},
		{"one partition has made one", func() { tell("a", committed, after, 0) }, false},
		{"one partition is live nowhere", func() { tell("a", dropped, after, 1) }, false},
		{"it is live in the other", func() { tell("b", live, before, 1) }, false},
		{"and in both", func() { tell("a", live, after, 1) }, false},
		{"one has given it up", func() { tell("b", dropped, after, 1) }, true},
		{"a replica is frozen", func() { v.begin(freezeFault); v.count("a", false) }, false},
		{"the other has all", func() { tell("b", live, after, 0, 1) }, true},
		{"it wakes up and believes in what it had", func() { v.begin("SIGCONT"); v.count("a", true) }, false},
		{"it has learned better", func() { tell("a", dropped, after, 0, 1) }, true},
		{"a checkpoint of what it has not any more", func() { tell("a", committed, after, 0) }, true},
		{"the other is killed", func() { v.begin(killFault); v.forget("b") }, false},
	} {
		c.do()
		if over := v.wanting() == ""; over != c.over {
			t.Errorf("%s: over is %t: %s", c.what, over, v.wanting())
		}
	}
	if v.idle() == "" {
		t.Error("a replica without partitions is not idle")
	}
}
