package processor

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
)

// answersFor has a partition's leader answer every second, for so long, and the lane look after each answer.
func answersFor(l *lane, p *partition, d time.Duration, of func(second int64) (stable, high int64)) {
	for second := range int64(d / time.Second) {
		stable, high := of(second)
		l.ends.answered(logEnds{asked: time.Now(), of: map[*partition]kafka.Bounds{p: {Stable: stable, High: high, Epoch: -1}}}, testNow)
		watchLog(p, l.events, l.cfg.SessionTimeout, true)
		time.Sleep(time.Second)
	}
}

// journaled is a lane whose log is read by the test.
func journaled(t *testing.T) (*lane, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	return testLane(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }), &log
}

// A last stable offset that stands still below the high watermark is an open transaction, which is said when it has lasted for a
// session, once in the log, until it moves.
func TestOpenTransactionIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := journaled(t)
		p := livePartition(t, l)
		session := l.cfg.SessionTimeout
		stands := func(second int64) (int64, int64) { return 7, 9 + second }
		p.Pass(7, -1)
		answersFor(l, p, session, stands)
		if got := pictureOf(l); got.HeldBack != "" || got.Unstable == 0 || log.Len() > 0 {
			t.Errorf("too soon: %q, %d offsets, in the log %s", got.HeldBack, got.Unstable, log)
		}
		answersFor(l, p, 2*session, stands)
		got := pictureOf(l)
		if !strings.Contains(got.HeldBack, "open in requests/3 since offset 7 for 29s or longer") || got.OpenFor != 3*session-time.Second || got.Unstable != 21 || got.Error != "" {
			t.Errorf("%v, %d offsets, error %q: %q", got.OpenFor, got.Unstable, got.Error, got.HeldBack)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "find-hanging") {
			t.Errorf("%d lines in the log: %s", lines, log)
		}
		log.Reset()
		p.Pass(8, -1) // it is read before the end of the log is asked for again
		watchLog(p, l.events, session, true)
		if got := pictureOf(l); got.HeldBack != "" || got.OpenFor != 0 || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "has ended") {
			t.Errorf("when it has ended: %q, %v, in the log %s", got.HeldBack, got.OpenFor, log)
		}
		l.reader.Close()
	})
}

// Where many transactions overlap, and where none is open, nothing is held back.
func TestOpenTransactionsThatMove(t *testing.T) {
	for name, of := range map[string]func(int64) (int64, int64){
		"overlapping ones": func(second int64) (int64, int64) { return second, 100 + second },
		"none":             func(int64) (int64, int64) { return 5, 5 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, log := journaled(t)
				p := livePartition(t, l)
				answersFor(l, p, 5*l.cfg.SessionTimeout, of)
				if got := pictureOf(l); got.HeldBack != "" || got.OpenFor != 0 || log.Len() > 0 {
					t.Errorf("%v %q, in the log %s", got.OpenFor, got.HeldBack, log)
				}
				l.reader.Close()
			})
		})
	}
}

// What was heard long ago is not held against anyone: how long a transaction is open is between two answers.
func TestOpenTransactionBetweenAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := journaled(t)
		p := livePartition(t, l)
		answersFor(l, p, time.Second, func(int64) (int64, int64) { return 0, 3 })
		time.Sleep(10 * l.cfg.SessionTimeout)
		if got := pictureOf(l); got.OpenFor != 0 || got.HeldBack != "" || got.Unstable != 3 {
			t.Errorf("%v, %d offsets: %q", got.OpenFor, got.Unstable, got.HeldBack)
		}
		p.phase = PhaseStopped // nothing is asked for
		equal(t, "offsets of what is stopped", pictureOf(l).Unstable, 0)
		l.reader.Close()
	})
}

// Producers whose transactions are all long do not fill the log.
func TestLongTransactionsAreToldNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := journaled(t)
		p := livePartition(t, l)
		answersFor(l, p, time.Hour, func(second int64) (int64, int64) { return second / 60, 1000 })
		if told, ended := strings.Count(log.String(), "is open"), strings.Count(log.String(), "has ended"); told < 5 || told > 6 || ended < told-1 || ended > told {
			t.Errorf("told of %d, and that %d have ended", told, ended)
		}
		l.reader.Close()
	})
}

// A catch-up that waits for what lies behind an open transaction says so as soon as it is known.
func TestCatchUpTellsOfAnOpenTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := journaled(t)
		p, err := l.assign(state.Checkpoint{Offset: 2, Appended: true}, 0, 3, 9)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "what lies behind it, as it was found", p.open.behind, 6)
		const says = "a transaction has been open in requests/3 since offset 3"
		stands := func(int64) (int64, int64) { return 3, 9 }
		answersFor(l, p, 3*time.Second, stands)
		if got := pictureOf(l); strings.Contains(got.Reason, says) {
			t.Errorf("before it is reached: %q", got.Reason)
		}
		p.Pass(3, -1)
		if got := pictureOf(l); !strings.HasPrefix(got.Reason, "reading the log, at offset 3 of 9: ") || !strings.Contains(got.Reason, says) || got.HeldBack != "" {
			t.Errorf("when it is reached: %q, %q", got.Reason, got.HeldBack)
		}
		if log.Len() > 0 {
			t.Errorf("too soon in the log: %s", log)
		}
		answersFor(l, p, 2*l.cfg.SessionTimeout, stands)
		if strings.Count(log.String(), "\n") != 1 {
			t.Errorf("in the log: %s", log)
		}
		l.reader.Close()
	})
}

// A live partition is asked for the end of its log more often while a transaction is open.
func TestOpenTransactionIsAskedFor(t *testing.T) {
	p := &partition{}
	const session = 2 * time.Second
	equal(t, "mostly", endEvery(p, session), 10*time.Second)
	p.open.behind = 1
	equal(t, "while one is open", endEvery(p, session), session)
	equal(t, "with a long session", endEvery(p, time.Minute), 10*time.Second)
	equal(t, "with a short session", endEvery(p, 100*time.Millisecond), time.Second)
}

// A pending record that L names, and that the log has lost from its midst, as compaction takes it, is said to be lost; no log has a hole there that is whole.
func TestHoleAtTheLowWater(t *testing.T) {
	for _, c := range []struct {
		name  string
		from  state.Checkpoint
		first int64
		says  bool
	}{
		{name: "compacted", from: state.Checkpoint{Offset: 9, LowWater: 2}, first: 3, says: true},
		{name: "whole", from: state.Checkpoint{Offset: 9, LowWater: 2}, first: 2},
		{name: "nothing is pending, and what follows was aborted", from: state.Checkpoint{Offset: 2, LowWater: 2}, first: 5},
		{name: "given up", from: state.Checkpoint{Offset: 9, LowWater: 2, GivenUp: 2}, first: 3},
	} {
		l, log := journaled(t)
		p, err := l.assign(c.from, 0, 9, 9)
		if err != nil {
			t.Fatal(err)
		}
		log.Reset()
		for offset := c.first; offset < 9; offset += 3 { // what lies further behind was aborted
			if err := l.intake(p).all([]*kgo.Record{req(offset, ms(farMs), "orders")}, testNow, nil); err != nil {
				t.Fatal(err)
			}
		}
		if lines := strings.Count(log.String(), "has lost a pending record from its midst"); lines > 1 || (lines == 1) != c.says || c.says && !strings.Contains(log.String(), "offset=2 next=3") {
			t.Errorf("%s: %d lines in the log: %s", c.name, lines, log)
		}
	}
}

// What the log has lost from its midst is delivered if the store has it, and said when the partition becomes live.
func TestHoleThatTheStoreFills(t *testing.T) {
	l, log := journaled(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, testNow+1, "orders"), req(1, ms(farMs), "orders"))
	p.Wrote(p.Checkpoint())
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	p, err := l.assign(p.Marks().Committed, 0, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	l.read(t, p, testNow, req(0, testNow+1, "orders"))
	p.learnEnds(kafka.Bounds{Start: 0, Stable: 2, High: 2}, time.Now(), passage{to: 2}, testNow)
	l.settleCatchUps(t.Context(), testNow, true)
	equal(t, "phase", p.phase, PhaseLive)
	equal(t, "it is said", strings.Contains(log.String(), "from its midst, which the local store has") && strings.Contains(log.String(), "records=1 offset=1"), true)
}
