package processor

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
)

// pictureOf publishes what a lane has of the test's partition, and returns it.
func pictureOf(l *lane) PartitionStats {
	l.partitions[testTP].publish(testNow, &l.kit)
	return *l.partitions[testTP].picture.Load()
}

// A live partition for which nothing is answered although records are due is not ready once a
// session would have run out. One that has nothing to do, or goes on, is.
func TestNotReadyWhenNothingIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLane(t)
		p := livePartition(t, l)
		wait := func(d time.Duration) string {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
				pictureOf(l)
			}
			return pictureOf(l).Error
		}
		over := l.cfg.SessionTimeout + time.Second
		if err := wait(3 * over); err != "" {
			t.Errorf("with nothing to do: %s", err)
		}
		l.read(t, p, testNow, req(0, testNow-5, "orders"), req(1, testNow-4, "orders"))
		parts, _ := l.selection.records(l.order, testNow)
		if err := wait(over / 2); err != "" {
			t.Errorf("after half the time: %s", err)
		}
		if err := wait(over); !strings.Contains(err, "no turn has been answered") {
			t.Errorf("in a turn that is not answered: %q", err)
		}
		l.happened(parts...)
		if err := pictureOf(l).Error; err != "" {
			t.Errorf("when it is answered: %s", err)
		}
		l.reader.Close()
	})
}

// What a restore waits for, and how far a catch-up has come, can be seen.
func TestReasons(t *testing.T) {
	l := testLane(t)
	l.assigned.remember(l.n, testTP, nil)
	other := kafka.TopicPartition{Topic: testTopic, Partition: 9}
	l.assigned.explain(l.n, []kafka.TopicPartition{testTP, other}, "waiting: no broker")
	got := l.assigned.pictures()
	if len(got) != 1 || got[0].Phase != PhaseRestoring || got[0].Reason != "waiting: no broker" {
		t.Errorf("got %+v", got)
	}
	p := livePartition(t, l)
	l.assigned.remember(l.n, testTP, p)
	l.assigned.explain(l.n, []kafka.TopicPartition{testTP}, "too late")
	p.Pass(20, 0)
	p.phase, p.logEnd = PhaseCatchUp, 80
	equal(t, "reason", pictureOf(l).Reason, "reading the log, at offset 20 of 80: 0 %, 0 records/s")
	l.store.lost(errors.New("no disk"))
	p.Forgo()
	equal(t, "reason", pictureOf(l).Reason, "reading the log without the local store, at offset 20 of 80: 0 %, 0 records/s")
	p.phase = PhaseLive
	if got := pictureOf(l); !strings.HasPrefix(got.Reason, "without the local store: the disk fails (no disk)") || got.Error != "" {
		t.Errorf("got %q, %q", got.Reason, got.Error)
	}
}
