package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// demoScenes are what the screen shows in the course of a demo.
func demoScenes() []struct {
	name string
	*scene
} {
	now := time.UnixMilli(demoDue)
	rows := func(counts ...int64) (all []agendaRow) {
		for _, n := range counts {
			all = append(all, agendaRow{Records: n, Targets: map[string]int64{"orders": n / 2, "billing.invoices": n / 3, "billing.reminders": n - n/2 - n/3}})
		}
		return all
	}
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	latest := []arrival{{"orders", ms(1.9), false}, {"billing.invoices", ms(2.2), false}, {"orders", ms(2.4), true}, {"billing.reminders", ms(11.3), false}, {"orders", ms(1.1), false}}
	told := [storyCount]string{
		storyCancel: "reminder-1 was cancelled by its id, and never came",
		storyRetry:  "order-1 is processed at the third attempt, 3.2 s after the first",
		storyDead:   "wages-1 is dead-lettered: target_not_allowed\nthe route delay-requests does not allow the target payroll",
	}
	killing, back, lost := told, told, told
	killing[storyKill] = "replica a is killed (kill -9), with 2 partitions of delay-requests"
	back[storyKill] = "0 lost, 0 doubled, back in 2.4 s\nreplica a killed; 1,225 records came due meanwhile, at most 2.4 s late"
	lost[storyKill] = "3 lost, 1 doubled, back in 2.4 s, 2 other faults\nreplica a killed; 1,225 records came due meanwhile, at most 2.4 s late"
	a := replicaState{name: "a", admin: "127.0.0.1:9464", partitions: 3, pending: 1150, warm: 3, perSecond: 152}
	b := replicaState{name: "b", admin: "127.0.0.1:9465", partitions: 3, pending: 1161, warm: 3, perSecond: 149}
	c := replicaState{name: "c", admin: "127.0.0.1:9464"}
	gone := a
	gone.killed = now
	own := yours{waiting: 1, came: 2, dead: 1, cancelled: 1, last: ms(2.4)}
	came := demoTally{waiting: 2311, delivered: 9876, p50: ms(2.1), p99: ms(8.9), max: ms(70.7), latest: latest}
	with := came
	with.yours = own
	return []struct {
		name string
		*scene
	}{
		{"starting", &scene{rows: rows(0, 0, 0, 0, 0, 0, 0), replicas: []replicaState{{name: "a"}, {name: "b"}}, keys: true}},
		{"running", &scene{begun: true, elapsed: 34 * time.Second, rows: rows(0, 512, 498, 611, 683, 4, 3), tally: came, rate: 301, replicas: []replicaState{a, b}, told: told, keys: true}},
		{"a replica is killed", &scene{begun: true, elapsed: 65 * time.Second, rows: rows(412, 512, 498, 611, 683, 4, 3), tally: with, rate: 151, replicas: []replicaState{gone, b}, told: killing,
			kill: killState{going: true, since: 1300 * time.Millisecond}, keys: true}},
		{"it is refused to kill the other one", &scene{begun: true, elapsed: 65 * time.Second, rows: rows(412, 512, 498, 611, 683, 4, 3), tally: with, replicas: []replicaState{gone, b}, told: killing,
			kill: killState{going: true, since: 1300 * time.Millisecond}, keys: true, said: errOne.Error()}},
		{"all is back", &scene{begun: true, elapsed: 70 * time.Minute, rows: rows(0, 512, 498, 611, 683, 4, 3), tally: with, rate: 299, replicas: []replicaState{b, c}, told: back,
			kill: killState{well: true}, keys: true, held: true}},
		{"something is lost, and there are no keys", &scene{begun: true, rows: rows(0, 1, 0, 0, 0, 0, 0), tally: with, replicas: []replicaState{b, c}, told: lost}},
		{"what to try", &scene{begun: true, replicas: []replicaState{b, a}, keys: true, trying: true}},
	}
}

// What the screen shows, at 80 and 120 columns, with and without colours, and with ASCII alone. -rewrite makes the files anew: look at them.
func TestDemoPages(t *testing.T) {
	for file, k := range map[string]look{
		"80":            {width: 80, height: 24, colours: true},
		"80-no-colours": {width: 80, height: 24},
		"80-ascii":      {width: 80, height: 24, ascii: true},
		"120":           {width: 120, height: 40, colours: true},
		"60":            {width: 60, height: 16},
	} {
		t.Run(file, func(t *testing.T) {
			var b strings.Builder
			for _, s := range demoScenes() {
				s.broker, s.program = "127.0.0.1:9092", "go run ./cmd/duewheel"
				page := s.page(k)
				if len(page) > k.height && k.height >= 24 {
					t.Errorf("%s: %d lines", s.name, len(page))
				}
				fmt.Fprintf(&b, "## %s\n", s.name)
				for _, line := range strings.Split(strings.TrimSuffix(frame(page, k), "\x1b[J"), "\r\n") {
					line = strings.TrimSuffix(strings.TrimPrefix(line, "\x1b[H"), "\x1b[K")
					b.WriteString(strings.ReplaceAll(line, "\x1b", "^") + "\n")
				}
				for _, line := range page {
					if n := utf8.RuneCountInString(line.cut(k.width, "~").text()); n > k.width {
						t.Errorf("%s: %d columns: %q", s.name, n, line.text())
					}
					if k.width >= 80 && line.width() > k.width && len(line.text()) > k.width {
						t.Errorf("%s: is cut: %q", s.name, line.text())
					}
				}
			}
			golden(t, "testdata/demo/"+file+".txt", b.String())
		})
	}
}

// golden compares with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if f := flag.Lookup("rewrite"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s says otherwise; -rewrite makes it anew. Got:\n%s", path, got)
	}
}

func TestFrameFitsTheScreen(t *testing.T) {
	lines := []painted{painted{}.add(red, "ab").add(unpainted, "cdef"), painted{}.add(unpainted, "µµµµ"), painted{}.add(unpainted, "gone")}
	got := frame(lines, look{width: 4, height: 2, colours: true})
	if want := "\x1b[H\x1b[1;31mab\x1b[0mc…\x1b[K\r\nµµµµ\x1b[K\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What there is too much for a screen leaves out blank lines first; the last line is at the bottom of one with more room.
func TestFitted(t *testing.T) {
	text := func(lines []painted) string {
		var all []string
		for _, l := range lines {
			all = append(all, l.text())
		}
		return strings.Join(all, "|")
	}
	lines := func() []painted {
		return []painted{{{"a", unpainted}}, {}, {{"b", unpainted}}, {}, {{"c", unpainted}}}
	}
	for height, want := range map[int]string{3: "a|b|c", 4: "a|b||c", 5: "a||b||c", 7: "a||b||||c", 2: "a|b|c"} {
		if got := text(fitted(lines(), height)); got != want {
			t.Errorf("on %d lines: %q, want %q", height, got, want)
		}
	}
}

func TestLookOf(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		want look
	}{
		{map[string]string{"LANG": "C.UTF-8"}, look{80, 24, true, false}},
		{map[string]string{"LANG": "C.UTF-8", "NO_COLOR": "1"}, look{80, 24, false, false}},
		{map[string]string{}, look{80, 24, true, true}},
	} {
		if got := lookOf(func(name string) string { return test.env[name] }); got != test.want {
			t.Errorf("%v: got %+v", test.env, got)
		}
	}
}

// A line says how late what came was, and before anything has come nothing of that.
func TestDemoLine(t *testing.T) {
	s := &scene{elapsed: time.Second, tally: demoTally{asked: 1300, waiting: 1299, dead: 1}}
	if got, want := s.line(0), "   1s  asked 1,300, pending 1,299, delivered 0 (0/s), dead-lettered 1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.tally.delivered, s.tally.p50, s.tally.p99 = 250, 2100*time.Microsecond, 8900*time.Microsecond
	if got, want := s.line(100), "   1s  asked 1,300, pending 1,299, delivered 250 (150/s), dead-lettered 1, lateness p50 2.1 ms p99 8.9 ms"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a key has asked for is answered for long enough to be read, although stories are told meanwhile.
func TestAnswersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStories()
		s.answer("3-1-2, due in 1.0 s, is cancelled by its handle")
		s.tell(storyCancel, "reminder-1 is asked for")
		s.tell(storyRetry, "order-1 is processed")
		if got := s.newest(); got[storyCancel] != "3-1-2, due in 1.0 s, is cancelled by its handle" || got[storyRetry] != "order-1 is processed" {
			t.Errorf("shown is %q", got)
		}
		s.answer("3-1-2 was cancelled by its handle, and never came")
		if got := s.newest(); got[storyCancel] != "3-1-2 was cancelled by its handle, and never came" {
			t.Errorf("shown is %q", got)
		}
		if got := len(s.fresh()); got != 4 {
			t.Errorf("%d lines are printed", got)
		}
		time.Sleep(storyStays)
		s.tell(storyCancel, "reminder-2 is asked for")
		if got := s.newest(); got[storyCancel] != "reminder-2 is asked for" {
			t.Errorf("shown is %q", got)
		}
	})
}
