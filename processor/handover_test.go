package processor

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
)

// A restore that is cancelled does not swallow what another one hands over meanwhile: its
// partition would have no owner.
func TestCancelledRestoreKeepsOthers(t *testing.T) {
	l := testLane(t)
	a, b := kafka.TopicPartition{Topic: testTopic, Partition: 0}, kafka.TopicPartition{Topic: testTopic, Partition: 1}
	cancelled := make(chan struct{})
	ends := &restore{kit: &l.kit, to: l.restores.restored, left: map[kafka.TopicPartition]bool{a: true}, cancel: func() { close(cancelled) }, done: make(chan struct{})}
	goesOn := &restore{kit: &l.kit, to: l.restores.restored, left: map[kafka.TopicPartition]bool{b: true}, cancel: func() {}, done: make(chan struct{})}
	l.restores.m[ends], l.restores.m[goesOn] = struct{}{}, struct{}{}
	go func() {
		<-cancelled
		goesOn.tell(t.Context(), restored{from: goesOn, p: &partition{tp: b}})
		close(ends.done) // the claim that was under way has been answered
	}()
	again, others := l.restores.cancel([]kafka.TopicPartition{a})
	if len(again) != 0 {
		t.Errorf("again: %v, want none", again)
	}
	if len(others) != 1 || others[0].p.tp != b {
		t.Errorf("handed over meanwhile: %v, want %v", others, b)
	}
}

// What is taken in while a partition is adopted may start others over, and with them this one: a
// partition that the lane does not have must not be read.
func TestAdoptReadsOnlyWhatItHas(t *testing.T) {
	l := testLane(t)
	other := kafka.TopicPartition{Topic: testTopic, Partition: testTP.Partition + 1}
	l.partitions = map[kafka.TopicPartition]*partition{other: {tp: other, phase: PhaseCatchUp, log: l.log}}
	l.order = inOrder(l.partitions)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.reading.polling, l.reading.endPoll = true, func() {}
	l.membership = outsider{}
	l.reading.fetched <- kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: testTopic, Partitions: []kgo.FetchPartition{{Partition: other.Partition, Err: kerr.UnknownTopicID}}}}}}
	from := &restore{kit: &l.kit, to: l.restores.restored, left: map[kafka.TopicPartition]bool{testTP: true}, cancel: func() {}, done: make(chan struct{})}
	close(from.done)
	l.restores.m[from] = struct{}{}
	l.adopt(ctx, restored{from: from, p: &partition{Partition: &pending.Partition{}, tp: testTP, phase: PhaseCatchUp, log: l.log}})
	if has, reads := l.partitions[testTP] != nil, len(l.reader.GetConsumeTopics()) > 0; has != reads {
		t.Errorf("the lane has the partition: %v; it reads it: %v", has, reads)
	}
}

// A log that starts above the low water has lost nothing as long as the store holds it all.
func TestStoreCoversTheLog(t *testing.T) {
	for _, c := range []struct {
		name     string
		position state.Position
		logStart int64
		want     bool
	}{
		{"the store resumes inside the log", state.Position{Resume: 100, Offset: 100}, 60, true},
		{"the store resumes where the log starts", state.Position{Resume: 60, Offset: 100}, 60, true},
		{"a part is in neither", state.Position{Resume: 50, Offset: 100}, 60, false},
		{"what it took in above its checkpoint is forgotten", state.Position{Resume: 100, Offset: 50}, 60, false},
		{"it leads the checkpoint", state.Position{Resume: 100, Offset: 200}, 60, false},
		{"its watermark leads the checkpoint", state.Position{Resume: 100, Offset: 100, Watermark: state.Key{Due: 9}}, 60, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLane(t)
			p := &partition{tp: testTP, log: l.log}
			part, err := l.store.Partition(l.store.ID(p.tp, p.id))
			if err != nil {
				t.Fatal(err)
			}
			if err := part.Put(state.Key{Due: testNow, Seq: 10}, []byte("run")); err != nil {
				t.Fatal(err)
			}
			if err := part.Commit(c.position); err != nil {
				t.Fatal(err)
			}
			if upTo, err := l.storeReaches(p, state.Checkpoint{Offset: 100}); err != nil || upTo >= c.logStart != c.want {
				t.Errorf("it reaches up to %d, and %v; the log starts at %d, want %v", upTo, err, c.logStart, c.want)
			}
		})
	}
}
