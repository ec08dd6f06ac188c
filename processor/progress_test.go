package processor

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A catch-up says which share of the log it has read, how fast, and how long the rest takes, whatever fetches bring at once.
func TestProgress(t *testing.T) {
	now := time.UnixMilli(testNow)
	g := progress{from: 1000}
	g.look(1000, now)
	for i := range int64(100) {
		now = now.Add(250 * time.Millisecond)
		g.look(1000+(i+1)/4*4*250, now) // a thousand records each second
	}
	equal(t, "share", g.done(101_000), 0.25)
	if g.speed < 900 || g.speed > 1150 {
		t.Errorf("it reads %f records/s", g.speed)
	}
	if left := g.left(101_000); left < 65*time.Second || left > 84*time.Second {
		t.Errorf("it takes %v more", left)
	}
	if words := g.words(101_000); !strings.HasPrefix(words, "25 %, ") || !strings.Contains(words, "left") {
		t.Errorf("it says %q", words)
	}
	equal(t, "share of nothing", g.done(1000), 1)
	equal(t, "left of nothing", g.left(1000), 0)
}

// The log says every few seconds how far catch-ups are, in one line for all, and nothing of those that are over sooner.
func TestCatchUpsAreTold(t *testing.T) {
	var out bytes.Buffer
	c := catchUps{log: slog.New(slog.NewTextHandler(&out, nil))}
	now := time.UnixMilli(testNow)
	ps := []*partition{{phase: PhaseCatchUp, logEnd: 1000}, {phase: PhaseCatchUp, logEnd: 3000}, {phase: PhaseLive}}
	for range 44 { // 11 s
		for i, p := range ps {
			p.progress.look(p.progress.was+int64(i)*10, now)
		}
		c.tell(ps, now)
		now = now.Add(250 * time.Millisecond)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[1], "partitions=2 ") || !strings.Contains(lines[1], " of=4000 ") {
		t.Errorf("said %q", lines)
	}
	ps = ps[2:]
	out.Reset()
	for range 100 {
		c.tell(ps, now)
		now = now.Add(250 * time.Millisecond)
	}
	equal(t, "lines when all are live", out.Len(), 0)
}
