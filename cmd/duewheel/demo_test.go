package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Where its output is no terminal, the demo tells its story in lines, kills a replica by itself, and says what became of what that one had.
func TestDemo(t *testing.T) {
	var out, log heard
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"demo", "--rate", "100", "--kill-at", "1s"}, strings.NewReader(""), &out, &log)
	}()
	out.await(t,
		`demo: broker 127\.0\.0\.1:\d+, two replicas`, ` produce -b 127\.0\.0\.1:`, `kcat -P -b 127\.0\.0\.1:`, `\n +\d+s  asked \d+, pending `,
		`WHAT COMES  \d+ .*orders.*billing\.invoices.*billing\.reminders\n  overdue +\d+`, `\n  in 2 s +\d+`, `\n  in (2 s|5 s|15 s|2 min|a day) +[1-9][\d,]*  \S`,
		`reminder-1 is asked for`, `reminder-1 was cancelled by its id, and never came`,
		`wages-1 is dead-lettered: target_not_allowed: the route delay-requests does not allow the target payroll`,
		`order-1 is processed at the third attempt, \d+\.\d s after the first`,
		`replica [ab] is killed \(kill -9\), with \d partitions? of delay-requests`,
		`0 lost, 0 doubled, back in \d+\.\d s: replica [ab] killed; \d+ records? came due meanwhile, at most \d+\.\d s late`,
	)
	stop() // as Ctrl-C does
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s\n%s", err, &out, &log)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := regexp.MustCompile(`^demo: ok: all [1-9][\d,]* due were delivered exactly once, none early, although a replica was killed once \(lateness p50 \S+ ms, p99 \S+ ms\); \d+ dead-lettered, \d+ cancelled, \d+ retried, [\d,]+ not due yet$`)
	if !last.MatchString(lines[len(lines)-1]) {
		t.Errorf("the last line is %q", lines[len(lines)-1])
	}
	if !strings.Contains(log.String(), "code=target_not_allowed") {
		t.Errorf("the log says nothing of the dead letter: %s", &log)
	}
}

// --for ends it, also before there is anything to be told. It is started as the README has it.
func TestDemoEndsByItself(t *testing.T) {
	var out, log heard
	var args []string
	for _, line := range readmeLines(t) {
		if started, is := strings.CutPrefix(line, "go run ./cmd/duewheel "); is { // which is this package
			args = strings.Fields(started)
		}
	}
	if err := run(t.Context(), append(args, "--for", "300ms"), nil, &out, &log); err != nil || !strings.Contains(out.String(), "\ndemo: ok: ") {
		t.Errorf("%v\n%s\n%s", err, &out, &log)
	}
}

func TestMeter(t *testing.T) {
	m, now := meter{}, time.UnixMilli(0)
	if got := m.perSecond(now, 5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for i := range 100 {
		now = now.Add(100 * time.Millisecond)
		if got := m.perSecond(now, 5+(i+1)*30); got < 299 || got > 301 {
			t.Errorf("step %d: %v a second, want 300", i, got)
		}
	}
}
