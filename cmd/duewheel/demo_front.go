package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// front is what a person, or a script, sees of the demo: a screen where there is a terminal, lines elsewhere.
type front struct {
	d    *demo
	in   io.Reader
	out  io.Writer
	err  io.Writer
	tty  *os.File // nil: lines
	look look
	quit func() // ends the demo

	kept keptLog
}

func newFront(d *demo, in io.Reader, out, err io.Writer, quit func()) *front {
	f := &front{d: d, in: in, out: out, err: err, quit: quit, look: lookOf(os.Getenv)}
	if hasScreen(out) {
		f.tty = fileOf(out)
	}
	return f
}

// hasScreen tells whether something is a terminal that can be drawn on.
func hasScreen(out io.Writer) bool { return isScreen(out) && os.Getenv("TERM") != "dumb" }

// log takes what replicas log. On a screen it would be in the way.
func (f *front) log() io.Writer {
	if f.tty != nil {
		return &f.kept
	}
	return f.err
}

// sayLog prints what was kept from the screen.
func (f *front) sayLog() { _, _ = f.err.Write(f.kept.bytes()) }

func (f *front) show(ctx context.Context) error {
	if f.tty != nil {
		return f.showScreen(ctx)
	}
	return f.showLines(ctx)
}

// keptLog keeps the last of a log.
type keptLog struct {
	mu   sync.Mutex
	kept []byte
}

const mostLog = 16 << 10

func (l *keptLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept = append(l.kept, b...); len(l.kept) > mostLog {
		l.kept = l.kept[len(l.kept)-mostLog:]
		l.kept = l.kept[bytes.IndexByte(l.kept, '\n')+1:]
	}
	return len(b), nil
}

func (l *keptLog) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.kept)
}

// showLines prints a line a second, what happens as it happens, and once how much is due when.
func (f *front) showLines(ctx context.Context) error {
	d := f.d
	fmt.Fprintf(f.out, "demo: broker %s, two replicas; Ctrl-C ends\n\n%s\n\n", d.broker, strings.Join(demoAdvice(thisProgram(), d.broker), "\n"))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, seconds, drawn := 0, 0, false
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			s := d.scene(now)
			if !s.begun {
				continue
			}
			if _, err := fmt.Fprintln(f.out, s.line(last)); err != nil {
				return err
			}
			last = s.tally.delivered
			if seconds++; !drawn && seconds >= 2 && s.comes() {
				drawn = true
				fmt.Fprintln(f.out)
				for _, l := range s.agenda(look{width: 80, ascii: f.look.ascii}) {
					fmt.Fprintln(f.out, l.text())
				}
				fmt.Fprintln(f.out)
			}
			f.news()
		}
	}
}

// line tells how all stands, where so many had been delivered a second ago.
func (s *scene) line(before int) string {
	t := s.tally
	line := fmt.Sprintf("%4.0fs  asked %s, pending %s, delivered %s (%s/s), dead-lettered %s", s.elapsed.Seconds(), thousands(int64(t.asked)), thousands(int64(t.waiting)),
		thousands(int64(t.delivered)), thousands(int64(t.delivered-before)), thousands(int64(t.dead)))
	if t.delivered > 0 {
		line += fmt.Sprintf(", lateness p50 %s p99 %s", millis(t.p50), millis(t.p99))
	}
	return line
}

// news prints what was told and not printed yet; where there was a screen, only what it ended with.
func (f *front) news() {
	fresh := f.d.watch.stories.fresh()
	if f.tty != nil {
		fresh = nil
		for _, line := range f.d.watch.stories.newest() {
			if line != "" {
				fresh = append(fresh, line)
			}
		}
	}
	for _, line := range fresh {
		fmt.Fprintln(f.out, "       "+strings.ReplaceAll(line, "\n", ": "))
	}
}

// demoAdvice is what to try from another terminal. No line is longer than 80 characters, so that what is there to be copied is never cut.
func demoAdvice(duewheel, broker string) []string {
	return []string{
		"Try from another terminal:",
		fmt.Sprintf(`  %s produce -b %s -t %s \`, duewheel, broker, demoRequests),
		"    --to orders --for 30s -k me -v hello --id mine",
		fmt.Sprintf("  %s agenda -b %s -g %s -t %s", duewheel, broker, demoGroup, demoRequests),
		fmt.Sprintf("  %s cancel -b %s -t %s mine", duewheel, broker, demoRequests),
		fmt.Sprintf(`  echo hello | kcat -P -b %s -t %s \`, broker, demoRequests),
		"    -H delay-for=10s -H delay-target-topic=orders",
		fmt.Sprintf(`  kcat -C -u -b %s -t orders -o end -f '%%T %%k %%s %%h\n'`, broker),
	}
}

// thisProgram is how a person calls it.
func thisProgram() string {
	if exe, err := os.Executable(); err == nil && strings.Contains(exe, "go-build") {
		return "go run ./cmd/duewheel" // where `go run` has put it says nothing to a reader
	}
	return "duewheel"
}

// act does what a key asks for besides what concerns the screen alone.
func (f *front) act(ctx context.Context, key byte) {
	d := f.d
	d.mu.Lock()
	begun := !d.started.IsZero()
	d.mu.Unlock()
	switch {
	case !begun:
	case key == 'k' || key == 'K':
		d.acts.Go(func() { d.killOne(ctx) })
	case key == 'c' || key == 'C':
		d.acts.Go(func() { d.cancelNext(ctx) })
	}
}
