package wait

import (
	"testing"
	"testing/synctest"
	"time"
)

// The first failure is tried again at once, the next ones after growing rests, and what has gone well
// for a while begins anew.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Backoff
		if rest := b.Failed(); rest != 0 {
			t.Errorf("the first rest is %v", rest)
		}
		var last time.Duration
		for range 12 {
			rest := b.Failed()
			if rest > MostRest || rest < last && rest < MostRest*3/4 {
				t.Errorf("a rest of %v follows one of %v", rest, last)
			}
			time.Sleep(rest)
			last = rest
		}
		if last < MostRest*3/4 {
			t.Errorf("the last rest is %v", last)
		}
		time.Sleep(wellAfter + time.Millisecond)
		if rest := b.Failed(); rest != 0 {
			t.Errorf("after it went well, the rest is %v", rest)
		}
	})
}
