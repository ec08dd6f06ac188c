package processor

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
)

// looks has a lane look at its partition as often as it does.
func looks(l *lane, p *partition, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		watchLog(p, l.events, l.cfg.SessionTimeout, true)
	}
}

// leaderHas is an answer about a log that ends somewhere, and up to where its leader has nothing that readers see.
func leaderHas(p *partition, nothing, end int64) logEnds {
	a := logEnds{asked: time.Now(), of: map[*partition]kafka.Bounds{p: {Stable: end, High: end, Epoch: -1}}}
	if nothing >= 0 {
		a.passed = map[*partition]passage{p: {nothing, -1}}
	}
	return a
}

// A live partition whose log goes on, and of which nothing is read for a session, is not ready: once its leader has said that there is
// something to be read.
func TestStalledReadingIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := journaled(t)
		p := livePartition(t, l)
		session := l.cfg.SessionTimeout
		looks(l, p, 10*session) // at its end
		l.ends.answered(leaderHas(p, -1, 5), testNow)
		looks(l, p, session)
		equal(t, "the leader is asked at once", p.stall.suspected(l.ends.lasting), false)
		looks(l, p, time.Second)
		equal(t, "the leader is asked after a session", p.stall.suspected(l.ends.lasting), true)
		equal(t, "error before it has answered", pictureOf(l).Error, "")
		l.ends.answered(leaderHas(p, 0, 5), testNow)
		looks(l, p, 10*session)
		if got := pictureOf(l); !strings.Contains(got.Error, "nothing has come for 1m") || !strings.Contains(got.Error, "from offset 0 on") {
			t.Errorf("error %q", got.Error)
		}
		if strings.Count(log.String(), "\n") != 1 {
			t.Errorf("in the log: %s", log)
		}
		log.Reset()
		p.Pass(3, -1) // some has come, and there is more
		looks(l, p, session/2)
		if got := pictureOf(l); got.Error != "" || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("when it is read: %q, in the log %s", got.Error, log)
		}
		l.reader.Close()
	})
}

// Nothing is wrong where nothing is asked for, where a lane was kept by something else, and where all that follows was aborted.
func TestReadingThatIsNotStalled(t *testing.T) {
	for name, happens := range map[string]func(l *lane, p *partition){
		"it pauses": func(l *lane, p *partition) {
			p.paused = true
			looks(l, p, 10*l.cfg.SessionTimeout)
		},
		"the store has no room": func(l *lane, p *partition) {
			for range 100 {
				watchLog(p, l.events, l.cfg.SessionTimeout, false)
				time.Sleep(time.Second)
			}
		},
		"the process was frozen": func(l *lane, p *partition) {
			looks(l, p, time.Second)
			p.stall.waited = 0 // since a moment ago
			time.Sleep(time.Hour)
			watchLog(p, l.events, l.cfg.SessionTimeout, true)
		},
		"it catches up": func(l *lane, p *partition) {
			p.phase = PhaseCatchUp
			looks(l, p, 10*l.cfg.SessionTimeout)
		},
		"it is refused": func(l *lane, p *partition) {
			p.unread.Refused(l.reader, p.tp, local.ErrNoStore)
			looks(l, p, 10*l.cfg.SessionTimeout)
		},
		"what follows was aborted": func(l *lane, p *partition) {
			looks(l, p, l.cfg.SessionTimeout+time.Second)
			l.ends.answered(leaderHas(p, 5, 5), testNow)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, log := journaled(t)
				p := livePartition(t, l)
				l.ends.answered(leaderHas(p, -1, 5), testNow)
				happens(l, p)
				if p.stall.suspected(l.ends.lasting) || log.Len() > 0 {
					t.Errorf("it is suspected after %v; in the log %s", p.stall.waited, log)
				}
				equal(t, "position", p.Marks().Position, 0)
				l.reader.Close()
			})
		})
	}
}

// The leader of a partition of which nothing comes is asked what it has there.
func TestStalledReadingIsCheckedWithItsLeader(t *testing.T) {
	l, w := testCluster(t)
	transact(t, w, "first", 1)(kgo.TryCommit)
	p := livePartition(t, l)
	p.id = w.C.TopicInfo(testTopic).TopicID
	ask := func() {
		t.Helper()
		l.ends.ask(t.Context(), l.order)
		l.ends.answered(<-l.ends.answers, testNow)
	}
	ask()
	equal(t, "it is shown, and was not asked for", p.stall.shown, false)
	p.stall.waited = l.cfg.SessionTimeout + time.Second // nothing reads here
	ask()
	if got := pictureOf(l); !strings.Contains(got.Error, "nothing has come for 11s from offset 0 on") {
		t.Errorf("error %q", got.Error)
	}
	equal(t, "position", p.Marks().Position, 0)
}
