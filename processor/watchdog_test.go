package processor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A process that was frozen as a whole has not hung: its lanes have as long as any to go on. One that has not gone on then hangs, and so does one that
// has not ended long after it was told to.
func TestWatchdogAfterAFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLane(t)
		p := &Processor{lanes: []*lane{l}}
		p.cfg = l.cfg
		stood := time.Now().Add(-time.Hour)
		l.stepped.Store(&stood)
		ended, barked := make(chan error), make(chan error, 1)
		go func() { barked <- p.watchdog().wait(t.Context(), ended) }()
		time.Sleep(2*p.watchdog().patience() - 5*time.Second)
		select {
		case err := <-barked:
			t.Fatalf("too soon: %v", err)
		default:
		}
		now := time.Now()
		l.stepped.Store(&now)
		time.Sleep(2*p.watchdog().patience() - time.Second)
		select {
		case err := <-barked:
			t.Fatalf("too soon after a step: %v", err)
		default:
		}
		time.Sleep(5 * time.Second)
		select {
		case err := <-barked:
			if !errors.Is(err, ErrHangs) {
				t.Errorf("it says %v", err)
			}
		default:
			t.Error("it says nothing of a lane that hangs")
			ended <- nil
		}
		l.reader.Close()
	})
}

// Lanes that wait for a turn in a rebalance are alive, however long a turn may take.
func TestAliveInALongTurn(t *testing.T) {
	l := testLane(t, func(c *Config) { c.TurnTimeout, c.TransactionTimeout = time.Minute, 10*time.Minute })
	p := &Processor{lanes: []*lane{l}}
	p.cfg = l.cfg
	stood := time.Now().Add(-time.Minute - time.Second)
	l.stepped.Store(&stood)
	equal(t, "alive", p.Alive(), true)
	stood = stood.Add(-time.Minute)
	equal(t, "alive after twice that", p.Alive(), false)
}
