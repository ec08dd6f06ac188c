package integration

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor"
)

// telling begins the line in which a replica tells of its live partitions: for each its number and when it last moved its
// checkpoint, in epoch milliseconds.
const telling = "live"

// tell prints which partitions of a processor are live whenever that changes, until it is told to end.
func tell(ctx context.Context, p *processor.Processor) {
	moves := make(map[int32]moved)
	said := ""
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		if line := livePartitions(p.Stats().Partitions, moves); line != said {
			fmt.Println(line)
			said = line
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

// moved is where the checkpoint of a live partition was, and when it came there.
type moved struct{ offset, due, at int64 }

func livePartitions(partitions []processor.PartitionStats, moves map[int32]moved) string {
	line := telling
	live := make(map[int32]bool)
	for _, p := range partitions {
		if p.Phase != processor.PhaseLive {
			continue
		}
		live[p.Partition] = true
		if m, ok := moves[p.Partition]; !ok || m.offset != p.Offset || m.due != p.WatermarkDue {
			moves[p.Partition] = moved{p.Offset, p.WatermarkDue, p.CheckpointAt.UnixMilli()}
		}
		line += fmt.Sprintf(" %d:%d", p.Partition, moves[p.Partition].at)
	}
	maps.DeleteFunc(moves, func(p int32, _ moved) bool { return !live[p] })
	return line
}

// view is which replica has which partitions live, put together from what they say themselves. Those who run and can be heard
// count; one that is frozen or cut off goes on believing in what it had.
type view struct {
	mu         sync.Mutex
	partitions int
	said       map[string]map[int32]int64 // by replica and partition: when it last moved its checkpoint
	counted    map[string]bool            // replicas that count
	open       []*recovery                // not over yet
	over       []*recovery
}

// recovery is the way from a fault until all partitions are live again.
type recovery struct {
	fault  fault
	began  time.Time
	took   time.Duration
	shared bool // another fault came before it was over
}

func newView(partitions int) *view {
	return &view{partitions: partitions, said: make(map[string]map[int32]int64), counted: make(map[string]bool)}
}

// hear takes a line that a replica has printed.
func (v *view) hear(replica, line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != telling {
		return
	}
	live := make(map[int32]int64)
	for _, word := range words[1:] {
		partition, at, _ := strings.Cut(word, ":")
		n, _ := strconv.Atoi(partition)
		live[int32(n)], _ = strconv.ParseInt(at, 10, 64)
	}
	v.said[replica] = live
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
			if at, ok := v.said[replica][p]; ok {
				holders = append(holders, replica)
				fresh = at > since.UnixMilli()
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
	began := time.Now().UnixMilli()
	before, after := began-1000, began+60_000
	for _, replica := range []string{"a", "b"} {
		v.count(replica, true)
	}
	v.hear("a", fmt.Sprintf("live 0:%d 1:%d", before, before))
	v.begin(killFault)
	for _, c := range []struct {
		what string
		do   func()
		over bool
	}{
		{"no checkpoint since", func() {}, false},
		{"one partition has made one", func() { v.hear("a", fmt.Sprintf("live 0:%d 1:%d", after, before)) }, false},
		{"one partition is live nowhere", func() { v.hear("a", fmt.Sprintf("live 0:%d", after)) }, false},
		{"it is live in the other", func() { v.hear("b", fmt.Sprintf("live 1:%d", before)) }, false},
		{"and in both", func() { v.hear("a", fmt.Sprintf("live 0:%d 1:%d", after, after)) }, false},
		{"one has given it up", func() { v.hear("b", "live") }, true},
		{"a replica is frozen", func() { v.begin(freezeFault); v.count("a", false) }, false},
		{"the other has all", func() { v.hear("b", fmt.Sprintf("live 0:%d 1:%d", after, after)) }, true},
		{"it wakes up and believes in what it had", func() { v.begin("SIGCONT"); v.count("a", true) }, false},
		{"it has learned better", func() { v.hear("a", "live") }, true},
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
