package ahead

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

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
