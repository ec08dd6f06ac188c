package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/duewheel/duewheel/bench/check"
)

// summary is the last line, with every fault behind it, and whether the demo kept its promises until a time.
func (w *watch) summary(cut time.Time) (text string, well bool) {
	t := w.tally()
	w.mu.Lock()
	report, takeovers, bad := w.checker.ReportUntil(cut), w.takeovers, w.badTakeovers
	w.mu.Unlock()
	var wrong []string
	for _, kind := range check.Kinds() {
		if n := report.Count(kind); n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s %v", thousands(n), kind))
		}
	}
	if bad > 0 && len(wrong) == 0 {
		wrong = append(wrong, fmt.Sprintf("something was missing for longer than %v after a replica was killed", demoGrace))
	}
	retried, faults := w.stories.ends()
	wrong = append(wrong, faults...)
	came := fmt.Sprintf("%s dead-lettered, %s cancelled, %s retried", thousands(int64(t.dead)), thousands(int64(t.cancelled)), thousands(int64(retried)))
	if len(wrong) > 0 {
		return fmt.Sprintf("demo: FAILED: %s (%s delivered, %s)\n%s", strings.Join(wrong, ", "), thousands(int64(t.delivered)), came, report), false
	}
	killed := ""
	if takeovers > 0 {
		killed = fmt.Sprintf(", although a replica was killed %s", times(takeovers))
	}
	return fmt.Sprintf("demo: ok: all %s due were delivered exactly once, none early%s (lateness p50 %s, p99 %s); %s, %s not due yet",
		thousands(int64(t.delivered)), killed, millis(t.p50), millis(t.p99), came, thousands(int64(t.waiting))), true
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// millis prints a duration as people compare it: 2.1 ms.
func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64) + " ms"
}
