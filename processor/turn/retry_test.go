package turn

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/topics"
)

// Pauses grow, whatever the jitter, up to the bound; records that failed together are spread out.
func TestRetryPause(t *testing.T) {
	e := &Env{RetryBackoff: time.Second, RetryBackoffMax: 5 * time.Minute}
	for attempts, want := range []time.Duration{0: time.Second, 1: 1250 * time.Millisecond, 4: 2441 * time.Millisecond, 40: 5 * time.Minute} {
		if want == 0 {
			continue
		}
		var sum, least, most time.Duration
		for offset := range int64(1000) {
			d := retryPause(e, offset, attempts)
			sum += d
			if least, most = min(least, d), max(most, d); offset == 0 {
				least = d
			}
		}
		if mean := sum / 1000; mean < want*98/100 || mean > want*102/100 {
			t.Errorf("after %d attempts %v on the average, want %v", attempts, mean, want)
		}
		if least < want*79/100 || least > want*82/100 || most > want*121/100 || most < want*118/100 {
			t.Errorf("after %d attempts from %v to %v, want a fifth around %v", attempts, least, most, want)
		}
	}
	if d := retryPause(e, 7, 1<<30); d > 6*time.Minute || d < 4*time.Minute {
		t.Errorf("after very many attempts %v", d)
	}
	equal(t, "pause of the same record once more", retryPause(e, 7, 3), retryPause(e, 7, 3))
}

// What is tried again together is due together, and not before its pause is over: after a short one it would be tried at once, again and again.
func TestRetryDue(t *testing.T) {
	for from, want := range map[int64]int64{testNow: testNow, testNow + 1: testNow + 250, testNow + 100: testNow + 250, testNow + 250: testNow + 250, testNow + 251: testNow + 500} {
		equal(t, "due", retryDue(from), want)
	}
}

func TestDeliverable(t *testing.T) {
	for _, c := range []struct {
		name                string
		due, written, since int64
	}{
		{"written before it is due", testNow - 10, testNow - 1000, testNow - 10},
		{"due before it is written", testNow - 5000, testNow - 1000, testNow - 1000},
		{"written by a clock that is ahead", testNow - 10, testNow + 60_000, testNow - 10},
		{"without a timestamp", testNow - 10, -1, testNow - 10},
	} {
		if got := deliverable(topics.Origin{Due: c.due, Timestamp: c.written}, testNow); got != c.since {
			t.Errorf("%s: lateness counts from %d, want %d", c.name, got-testNow, c.since-testNow)
		}
	}
}
