package processor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/internal/disk"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/state"
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
		l.quota.OnBrokerThrottle(kgo.BrokerMetadata{}, over, true)
		if err := pictureOf(l).Error; !strings.Contains(err, "producer_byte_rate") {
			t.Errorf("in one that a quota keeps waiting: %q", err)
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
	var broken disk.Broken
	l := testLane(t, onDisk(&broken))
	l.assigned.Remember(l.n, testTP, nil)
	other := kafka.TopicPartition{Topic: testTopic, Partition: 9}
	l.assigned.Explain(l.n, []kafka.TopicPartition{testTP, other}, "waiting: no broker")
	got := l.assigned.All()
	if len(got) != 1 || got[0].Phase != PhaseRestoring || got[0].Reason != "waiting: no broker" {
		t.Errorf("got %+v", got)
	}
	p := livePartition(t, l)
	l.assigned.Remember(l.n, testTP, &p.picture)
	l.assigned.Explain(l.n, []kafka.TopicPartition{testTP}, "too late")
	p.Pass(20, 0)
	p.phase, p.logEnd = PhaseCatchUp, 80
	equal(t, "reason", pictureOf(l).Reason, "reading the log, at offset 20 of 80: 0 %, 0 records/s")
	l.loseStore(t, &broken)
	p.Forgo()
	equal(t, "reason", pictureOf(l).Reason, "reading the log without the local store, at offset 20 of 80: 0 %, 0 records/s")
	p.phase = PhaseLive
	if got := pictureOf(l); !strings.HasPrefix(got.Reason, "without the local store: the disk is full (") || got.Error != "" {
		t.Errorf("got %q, %q", got.Reason, got.Error)
	}
}

// What is wrong with a log, a checkpoint or a topic would be so on every replica, and keeps none from being ready; what may have to do
// with this one does, also beside the former. All of it is said.
func TestReadyWithWhatNoReplicaCanMend(t *testing.T) {
	for _, c := range []struct {
		name     string
		spoil    func(*partition)
		anywhere bool
	}{
		{"the log has lost what was pending, and another replica's store may hold it", func(p *partition) { p.phase, p.err = PhaseStopped, fmt.Errorf("%w: of t/0", ErrLogTruncated) }, false},
		{"the log has lost its end", func(p *partition) { p.phase, p.err = PhaseStopped, fmt.Errorf("%w: of t/0", ErrBeyondLog) }, true},
		{"the checkpoint is not ours", func(p *partition) { p.phase, p.err = PhaseStopped, fmt.Errorf("%w: of t/0", ErrForeignCheckpoint) }, false},
		{"another release reads the checkpoint", func(p *partition) { p.phase, p.err = PhaseStopped, fmt.Errorf("%w: of t/0", state.ErrUnknownVersion) }, false},
		{"its coordinator refuses it", func(p *partition) { p.phase, p.err = PhaseStopped, errors.New("claim t/0: not allowed") }, false},
		{"a topic that it needs takes nothing", func(p *partition) {
			p.err = turn.StuckError{Why: "a record has to go to the dead letter topic d: it does not exist"}
		}, false},
		{"the log has lost what is still held", func(p *partition) { p.loss = ErrLogTruncated }, true},
		{"the topic loses records", func(p *partition) { p.stats.Trouble.Set("set retention.ms=-1") }, true},
		{"the topic loses records, and it catches up", func(p *partition) {
			p.stats.Trouble.Set("set retention.ms=-1")
			p.phase, p.logEnd = PhaseCatchUp, 80
		}, false},
		{"carrying is behind", func(p *partition) { p.stats.Behind.Set(p.tp.Partition, "older than three quarters") }, true},
		{"the topic loses records, and it is held up", func(p *partition) {
			p.stats.Trouble.Set("set retention.ms=-1")
			p.err = turn.StuckError{Why: "no dead letter topic"}
		}, false},
		{"the topic loses records, and checkpoints are refused", func(p *partition) {
			p.stats.Trouble.Set("set retention.ms=-1")
			p.writing.behind, p.writing.err = time.Now().Add(-time.Hour), errors.New("not allowed")
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLane(t)
			p := livePartition(t, l)
			c.spoil(p)
			if got := pictureOf(l); got.Error == "" || got.Anywhere != c.anywhere {
				t.Errorf("on every replica: %v, want %v; said is %q", got.Anywhere, c.anywhere, got.Error)
			}
		})
	}
}

// One partition that would be stopped anywhere keeps no replica from being ready; if all are, its group or its cluster may be the wrong one.
func TestNotReadyWhenAllIsStopped(t *testing.T) {
	l := testLane(t)
	first := livePartition(t, l)
	second := emptyPartition(first, 1)
	p := &Processor{}
	p.cfg = l.cfg
	for _, of := range []*partition{first, second} {
		p.assigned.Remember(l.n, of.tp, &of.picture)
		of.publish(testNow, &l.kit)
	}
	for i, c := range []struct {
		stop  *partition
		ready bool
	}{{nil, true}, {first, true}, {second, false}} {
		if c.stop != nil {
			c.stop.phase, c.stop.err = PhaseStopped, fmt.Errorf("%w: of t/0", ErrBeyondLog)
			c.stop.publish(testNow, &l.kit)
		}
		ready, rest := p.Ready()
		equal(t, fmt.Sprint(i, " are stopped: ready"), ready, c.ready)
		equal(t, "said of", len(rest), i)
	}
}
