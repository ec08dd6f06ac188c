package telling

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Of one message so many lines a minute pass; the next one tells how many did not.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(NewQuiet(slog.NewTextHandler(&out, nil))).With("lane", 1)
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
