package restore

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
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

// Those of a restore that is cancelled which are not given up are restored again; what it hands over while it ends is of no use. Without a list, all are cancelled.
func TestCancelledRestoreIsBegunAgain(t *testing.T) {
	a, b, c := kafka.TopicPartition{Topic: testTopic, Partition: 0}, kafka.TopicPartition{Topic: testTopic, Partition: 1}, kafka.TopicPartition{Topic: testTopic, Partition: 2}
	for name, test := range map[string]struct {
		given, again []kafka.TopicPartition
		left         int
	}{
		"one":    {[]kafka.TopicPartition{a}, []kafka.TopicPartition{b}, 1},
		"both":   {[]kafka.TopicPartition{a, b}, nil, 1},
		"all":    {nil, []kafka.TopicPartition{a, b, c}, 0},
		"others": {[]kafka.TopicPartition{{Topic: testTopic, Partition: 7}}, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			e := testEnv(t)
			s := New(e, &sync.WaitGroup{})
			for _, tps := range [][]kafka.TopicPartition{{a, b}, {c}} {
				cancelled := make(chan struct{})
				r := &restore{Env: e, to: s.Restored, left: map[kafka.TopicPartition]bool{}, cancel: func() { close(cancelled) }, done: make(chan struct{})}
				for _, tp := range tps {
					r.left[tp] = true
				}
				s.m[r] = struct{}{}
				go func() {
					<-cancelled
					r.tell(t.Context(), Restored{Partition: &Partition{TP: tps[0]}, from: r}) // it was on its way
					close(r.done)
				}()
			}
			again, others := s.Cancel(test.given)
			slices.SortFunc(again, kafka.Compare)
			if !slices.Equal(again, test.again) || len(others) != 0 || len(s.m) != test.left {
				t.Errorf("again: %v, want %v; %d were handed over, and %d go on, want %d", again, test.again, len(others), len(s.m), test.left)
			}
		})
	}
}

// A partition that starts over again and again rests for longer.
func TestStartingOverRests(t *testing.T) {
	s := New(testEnv(t), &sync.WaitGroup{})
	if first, then := s.Failed(testTP), s.Failed(testTP); first != 0 || then <= 0 {
		t.Errorf("it rests for %v, and then for %v", first, then)
	}
}

// A claim that is refused for what one partition wants to commit stops that one, and any other refusal is tried again.
func TestClaimed(t *testing.T) {
	tps := []kafka.TopicPartition{{Topic: testTopic, Partition: 0}, {Topic: testTopic, Partition: 1}}
	for why, stopped := range map[error]bool{
		kerr.OffsetMetadataTooLarge: true, kerr.TopicAuthorizationFailed: true, kerr.IllegalGeneration: false, kerr.NotCoordinator: false, kerr.UnknownMemberID: false,
	} {
		r := &restore{Env: testEnv(t)}
		ps := []*Partition{{TP: tps[0], Partition: &pending.Partition{}}, {TP: tps[1], Partition: &pending.Partition{}}}
		got, again := r.claimed(ps, map[kafka.TopicPartition]error{tps[0]: why})
		if slices.Contains(got, ps[0]) != stopped || (ps[0].Stopped != nil) != stopped || (again == nil) != stopped || again != nil && !errors.Is(again, why) {
			t.Errorf("%v: it is brought %v, stopped by %v, and tried again for %v", why, slices.Contains(got, ps[0]), ps[0].Stopped, again)
		}
		if !slices.Contains(got, ps[1]) || ps[1].Stopped != nil {
			t.Errorf("%v: the other one is not brought", why)
		}
	}
}
