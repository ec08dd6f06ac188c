package processor

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The first failure is tried again at once, the next ones after growing rests, and what has gone well
// for a while begins anew.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b backoff
		equal(t, "first rest", b.failed(), 0)
		var last time.Duration
		for range 12 {
			rest := b.failed()
			if rest > mostRest || rest < last && rest < mostRest*3/4 {
				t.Errorf("a rest of %v follows one of %v", rest, last)
			}
			time.Sleep(rest)
			last = rest
		}
		if last < mostRest*3/4 {
			t.Errorf("the last rest is %v", last)
		}
		time.Sleep(wellAfter + time.Millisecond)
		equal(t, "rest after it went well", b.failed(), 0)
	})
}

// Of one message so many lines a minute pass; the next one tells how many did not.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(newQuiet(slog.NewTextHandler(&out, nil))).With("lane", 1)
		for range linesAMinute + 7 {
			log.Info("often")
		}
		log.Info("seldom")
		equal(t, "lines", strings.Count(out.String(), "\n"), linesAMinute+1)
		time.Sleep(time.Minute)
		out.Reset()
		log.Info("often")
		log.Info("often")
		equal(t, "lines that tell of others", strings.Count(out.String(), "left_out=7"), 1)
		equal(t, "lines", strings.Count(out.String(), "\n"), 2)
	})
}
