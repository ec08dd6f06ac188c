package restore

import (
	"sync"
	"testing"

	"github.com/duewheel/duewheel/processor/kafka"
)

// A restore that is cancelled does not swallow what another one hands over meanwhile: its
// partition would have no owner.
func TestCancelledRestoreKeepsOthers(t *testing.T) {
	e := testEnv(t)
	s := New(e, &sync.WaitGroup{})
	a, b := kafka.TopicPartition{Topic: testTopic, Partition: 0}, kafka.TopicPartition{Topic: testTopic, Partition: 1}
	cancelled := make(chan struct{})
	ends := &restore{Env: e, to: s.Restored, left: map[kafka.TopicPartition]bool{a: true}, cancel: func() { close(cancelled) }, done: make(chan struct{})}
	goesOn := &restore{Env: e, to: s.Restored, left: map[kafka.TopicPartition]bool{b: true}, cancel: func() {}, done: make(chan struct{})}
	s.m[ends], s.m[goesOn] = struct{}{}, struct{}{}
	go func() {
		<-cancelled
		goesOn.tell(t.Context(), Restored{Partition: &Partition{TP: b}, from: goesOn})
		close(ends.done) // the claim that was under way has been answered
	}()
	again, others := s.Cancel([]kafka.TopicPartition{a})
	if len(again) != 0 {
		t.Errorf("again: %v, want none", again)
	}
	if len(others) != 1 || others[0].TP != b {
		t.Errorf("handed over meanwhile: %v, want %v", others, b)
	}
	equal(t, "the other one goes on", s.Has(others[0]), true)
	s.Took(others[0])
	equal(t, "it goes on when it has handed over all", s.Has(others[0]), false)
}
