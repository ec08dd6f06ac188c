//go:build synctests

package processor

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// A transaction timeout that brokers do not grant ends the process as it starts, by name: it would be
// refused for ever. Without transactions it is of no concern, not even for asking what time it is.
func TestSimTransactionTimeoutIsRefused(t *testing.T) {
	tooLong := func(c *Config) { c.TransactionTimeout = 16 * time.Minute } // brokers grant 15
	t.Run("exactly once", func(t *testing.T) {
		scenario(t, worldConfig{tune: tooLong}, func(w *world) {
			a := w.start("a", nil)
			select {
			case <-a.done:
			case <-time.After(5 * time.Second):
				w.fail("it runs")
			}
			a.ended.Store(true)
			if !errors.Is(a.err, ErrTransactionTimeout) || !strings.Contains(a.err.Error(), "transaction_timeout is 16m") {
				t.Fatalf("it ended with %v", a.err)
			}
			if n := strings.Count(a.err.Error(), "transaction_timeout"); n != 1 {
				t.Errorf("said %d times: %v", n, a.err)
			}
			if _, ok := w.checkpoint(0); ok {
				t.Error("it has written a checkpoint")
			}
		})
	})
	t.Run("at least once", func(t *testing.T) {
		scenario(t, worldConfig{guarantee: AtLeastOnce, tune: tooLong}, func(w *world) {
			a := w.start("a", nil)
			w.until("live", func() bool { return a.live(1) })
			if unchecked := a.p.Stats().ClockUnknown; unchecked != "" {
				t.Errorf("the clock is not compared with the brokers': %s", unchecked)
			}
		})
	})
}
