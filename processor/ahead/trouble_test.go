package ahead

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// Patience is one for all partitions that are looked at, and is there anew when nothing was in vain for as long.
func TestPatienceIsOneForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var with trouble
		for range 2 {
			for passed := time.Duration(0); passed <= patience; passed += patience / 5 {
				if with.lasts() {
					t.Errorf("it is over after %v", passed)
				}
				time.Sleep(patience / 5)
			}
			for range 100 { // others
				if !with.lasts() {
					t.Error("it is not over for another partition")
				}
			}
			time.Sleep(patience + 1)
		}
	})
}

// A leader from memory that has moved is looked up anew, although another partition has used up all patience.
func TestMovedLeaderIsLookedUpThen(t *testing.T) {
	now := time.Now()
	l := &leaders{cl: newSight(t).cl, trouble: trouble{began: now.Add(-2 * patience), again: now}}
	asked := 0
	err := l.ask(t.Context(), kafka.TopicPartition{Topic: "requests"}, func(*kgo.Broker) error {
		if asked++; asked == 1 {
			return kerr.NotLeaderForPartition
		}
		return nil
	})
	if err != nil || asked != 2 {
		t.Errorf("%v after %d", err, asked)
	}
}

// Leaders that move one after the other are each waited for: what is asked for long is asked while brokers are restarted.
func TestTroubleThatIsOverIsNoneOfTheNext(t *testing.T) {
	now := time.Now()
	l := &leaders{cl: newSight(t).cl, trouble: trouble{began: now.Add(-2 * patience), again: now}}
	for moves := 1; moves <= 2; moves++ {
		asked := 0
		err := l.ask(t.Context(), kafka.TopicPartition{Topic: "requests"}, func(*kgo.Broker) error {
			if asked++; asked <= moves {
				return kerr.NotLeaderForPartition
			}
			return nil
		})
		if err != nil || asked != moves+1 {
			t.Errorf("%v after %d", err, asked)
		}
	}
}

// Who looks for a leader while another one waits for brokers that do not answer waits no longer than it may.
func TestLeaderIsLookedUpBesideAnother(t *testing.T) {
	s := newSight(t)
	asked, answered := make(chan struct{}), make(chan struct{})
	s.c.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(asked)
		s.c.SleepControl(func() { <-answered })
		return nil, nil, false
	})
	l := &leaders{cl: s.client()}
	var first sync.WaitGroup
	defer first.Wait()
	defer close(answered)
	first.Go(func() {
		if _, err := l.of(t.Context(), s.tp); err != nil {
			t.Error(err)
		}
	})
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	second := make(chan error, 1)
	go func() {
		_, err := l.of(ctx, s.tp)
		second <- err
	}()
	select {
	case err := <-second:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it says %v", err)
		}
	case <-time.After(kafka.RequestTimeout / 2):
		t.Error("it waits for another one")
	}
}
