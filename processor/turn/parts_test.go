package turn

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/clock"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/state"
)

// A turn that has begun waits for as long as brokers want to be left alone, if its transaction may.
func TestTurnWaitsForAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turnTimeout = 4 * time.Second
		quota := producer.Quota{}
		quota.OnBrokerThrottle(kgo.BrokerMetadata{}, 3*time.Second, true)
		began := time.Now()
		tn := &Turn{Env: &Env{Quota: &quota, TurnTimeout: turnTimeout, TransactionTimeout: 30 * time.Second}}
		equal(t, "a turn goes on", tn.extension(began, 0, 10), 3*time.Second+turnTimeout/4)
		equal(t, "a transaction that may not", tn.extension(began.Add(-22*time.Second), 0, 10), 0)
		equal(t, "one whose rest may be on its way", tn.extension(began.Add(-19*time.Second), 5, 5), 3*time.Second+turnTimeout/4)
		equal(t, "one whose rest comes in time", tn.extension(began.Add(-5*time.Second), 4, 8) > 0, true)
		equal(t, "one whose rest does not", tn.extension(began.Add(-5*time.Second), 3, 10), 0)
		tn.AtLeastOnce = true
		equal(t, "without a transaction", tn.extension(began.Add(-22*time.Second), 3, 9) > 3*time.Second, true)
		time.Sleep(3 * time.Second)
		equal(t, "no turn waits when it is over", tn.extension(began, 0, 10), 0)
	})
}

// A turn with two parts of a partition commits one checkpoint, which says what both of them do.
func TestOneCheckpointForEachPartition(t *testing.T) {
	tp := kafka.TopicPartition{Topic: "requests", Partition: 3}
	part := func(offset int64) *Part {
		return &Part{Part: &pending.Part{To: state.Checkpoint{Offset: offset, LowWater: 2}}, TP: tp, ID: kafka.TopicID{1}}
	}
	first, later := part(5), part(6)
	first.To.Appended = true
	tn := &Turn{Parts: []*Part{first, later}, Joining: []*Part{later}, Tried: []*Part{first, later}}
	entries, err := tn.entries()
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d checkpoints (%v), want one", len(entries), err)
	}
	equal(t, "what the first part has appended counts", later.To.Appended, true)
	want, err := CommitOf(tp, later.ID, later.To)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "checkpoint", fmt.Sprintf("%+v", entries[0]), fmt.Sprintf("%+v", want))
}

// What was due by the clock before it was set back is not delivered before it is due: it bears the time of that.
func TestTakenBeforeTheClockIsSetBack(t *testing.T) {
	now := func() time.Time { return time.UnixMilli(testNow) }
	tn := &Turn{Env: &Env{Clock: clock.New(now, time.Second, slog.New(slog.DiscardHandler))}, Renderer: &Renderer{}}
	for _, c := range []struct{ due, want int64 }{{testNow - 1000, testNow}, {testNow + 1000, testNow + 1000}, {testNow - 1, testNow}} {
		tn.RenderParts(t.Context(), []*Part{{Part: &pending.Part{Items: []pending.Item{{Key: state.Key{Due: c.due}, Acked: true}}}}})
		equal(t, "the time that it bears", tn.Renderer.now.UnixMilli(), c.want)
	}
}

const testNow = int64(1_000_000_000_000)

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}
