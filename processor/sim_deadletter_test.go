//go:build synctests

package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A producer whose requests are all refused is told of in the log, without filling it: at once, once a minute with a count, and when
// the process ends.
func TestSimDeadLettersAreTold(t *testing.T) {
	scenario(t, worldConfig{}, func(w *world) {
		a := w.live("a")
		for i := range 150 {
			r := request(fmt.Sprint(i), in(time.Hour))
			r.Headers[2].Value = []byte("forbidden")
			w.send(r)
			time.Sleep(time.Second)
		}
		w.until("dead-lettered", func() bool { return w.outstanding() == 0 })
		s := a.p.Stats()
		for _, d := range s.DeadLetters {
			if want := map[string]int64{"target_not_allowed": 150}[d.Code]; d.Topic != simTopic || d.Records != want {
				t.Errorf("counted %v, want %d", d, want)
			}
		}
		if len(s.Refusing) != 1 || !strings.Contains(s.Refusing[0], "target_not_allowed (delay-target-topic), such as "+simTopic+"/0@") {
			t.Errorf("recent: %q", s.Refusing)
		}
		if ready, _ := a.p.Ready(); !ready {
			t.Error("it is not ready, although nothing is wrong with it")
		}
		a.shut()
		lines, told := 0, 0
		for line := range strings.Lines(w.history()) {
			if _, records, ok := strings.Cut(line, " records="); ok && strings.Contains(line, "a WARN: records cannot be delivered") {
				var n int
				if _, err := fmt.Sscan(records, &n); err != nil {
					t.Errorf("no count in %s", line)
				}
				lines, told = lines+1, told+n
			}
		}
		if lines < 3 || lines > 4 || told != 150 {
			t.Errorf("%d lines tell of %d records, of 150 in two and a half minutes", lines, told)
		}
		w.finish()
	})
}
