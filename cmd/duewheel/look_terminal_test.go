//go:build unix

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/creack/pty"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
)

// screen is what a terminal of some columns shows of what is printed to it: it knows carriage returns, the end of a line and its erasing.
type screen struct {
	columns int
	lines   [][]string // a cell each; the second one of a wide character is empty
	row, at int
}

func (s *screen) write(text string) (unknown string) {
	for len(text) > 0 {
		switch {
		case strings.HasPrefix(text, "\r"):
			s.at, text = 0, text[1:]
		case strings.HasPrefix(text, "\n"):
			s.row, text = s.row+1, text[1:]
		case strings.HasPrefix(text, "\x1b[K"):
			s.line()
			s.lines[s.row], text = s.lines[s.row][:min(s.at, len(s.lines[s.row]))], text[3:]
		case text[0] < ' ':
			return text
		default:
			r := []rune(text)[0]
			s.put(r)
			text = text[len(string(r)):]
		}
	}
	return ""
}

func (s *screen) line() {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
}

// put shows a character, which takes two columns in scripts of East Asia and none if it combines.
func (s *screen) put(r rune) {
	wide := 1
	switch {
	case unicode.Is(unicode.Mn, r):
		wide = 0
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul), r >= 0x1f300 && r < 0x1fa00:
		wide = 2
	}
	if s.at+wide > s.columns {
		s.row, s.at = s.row+1, 0
	}
	s.line()
	if wide == 0 {
		if n := len(s.lines[s.row]); n > 0 {
			s.lines[s.row][n-1] += string(r)
		}
		return
	}
	for len(s.lines[s.row]) < s.at+wide {
		s.lines[s.row] = append(s.lines[s.row], "")
	}
	s.lines[s.row][s.at] = string(r)
	s.at += wide
}

func (s *screen) String() string {
	var b strings.Builder
	for _, line := range s.lines {
		b.WriteString(strings.Join(line, "") + "\n")
	}
	return b.String()
}

// shownOn is what a terminal shows of a command.
func shownOn(t *testing.T, columns int, args ...string) string {
	t.Helper()
	master, tty, err := pty.Open()
	if err == nil {
		err = pty.Setsize(master, &pty.Winsize{Cols: uint16(columns), Rows: 24})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	printed := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(master) // it ends with an error, as the other side is closed
		printed <- string(b)
	}()
	err = run(t.Context(), args, strings.NewReader(""), tty, tty)
	tty.Close()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	s := &screen{columns: columns}
	text := <-printed
	if unknown := s.write(text); unknown != "" {
		t.Errorf("%v: a terminal is sent %q", args, unknown)
	}
	if args[0] != "get" && len(s.lines) > strings.Count(text, "\n") { // what a header means is prose
		t.Errorf("%v: on %d columns lines are broken:\n%s", args, columns, s)
	}
	return s.String()
}

// What ls, agenda and get look like on terminals of 80 and 120 columns, where letters are those of ASCII and where they are not: no line is broken, and
// columns stand below each other also of names that take two columns a letter.
func TestLookOnATerminal(t *testing.T) {
	fixTime(t)
	t.Setenv("TERM", "xterm-256color")
	targets := []string{"orders", "billing.invoices", "billing.reminders-of-customers-who-have-not-paid", "a"}
	all := map[string]int32{"delays": 1}
	for _, target := range targets {
		all[target] = 1
	}
	c, addr := cluster(t, all)
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, targets: {allow: ['*']}}\n")
	cl := client(t, addr)
	for i, of := range []struct {
		due     time.Duration
		id, key string
		n       int // of them
	}{
		{-time.Minute, "", "customer-17", 1}, {5 * time.Minute, "reminder-1", "k1", 1}, {50 * time.Minute, "北京-订单-2026-0001", "客户", 1}, {90 * time.Minute, "Müller", "Grüße", 3},
		{2 * time.Hour, "an-id-that-is-longer-than-forty-columns-are-wide", "0b7f9d1e-8a54-4c0e-9d6a-1f2e3d4c5b6a", 1}, {5 * time.Hour, "🚀-launch", "e\u0301", 2},
		{26 * time.Hour, "control\x1b[2J", "\x00\x01", 1}, {40 * time.Hour, "", "", 7},
	} {
		for n := range of.n {
			r := &kgo.Record{Topic: "delays", Key: []byte(of.key), Value: []byte("v"), Timestamp: lookNow.Add(-time.Hour), Headers: []kgo.RecordHeader{
				{Key: "delay-until", Value: fmt.Append(nil, lookNow.Add(of.due+time.Duration(n)*time.Minute).UnixMilli())}, {Key: "delay-target-topic", Value: []byte(targets[(i+n)%len(targets)])}}}
			if of.id != "" {
				id := of.id
				if n > 0 {
					id += fmt.Sprint(n)
				}
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: "delay-id", Value: []byte(id)})
			}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	id := c.TopicInfo("delays").TopicID
	checkpoint := state.Checkpoint{TopicID: [4]byte(id[:4]), Offset: 17, Watermark: state.Key{Due: lookNow.Add(-10 * time.Minute).UnixMilli()}, Parsers: []state.ParserEpoch{{From: 0, Spec: "p1"}}}
	metadata, err := checkpoint.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	commit(t, addr, "delays", 0, 17, metadata)
	if row := "2026-11-22 05:06:00  in 1 d 16 h  " + strings.Repeat("t", targetOn(80)) + "  12-12345678-1795320360000"; len(row) >= 80 {
		t.Errorf("%s has %d columns", row, len(row))
	}
	for _, locale := range []string{"C", "de_DE.UTF-8"} {
		for _, columns := range []int{80, 120} {
			t.Run(fmt.Sprintf("%s %d", locale, columns), func(t *testing.T) {
				t.Setenv("LC_ALL", locale)
				var b strings.Builder
				for _, args := range [][]string{{"ls"}, {"agenda"}, {"agenda", "--by", "day"}, {"get", "reminder-1"}} {
					fmt.Fprintf(&b, "$ duewheel %s\n%s\n", strings.Join(args, " "), shownOn(t, columns, append(args, "-c", config)...))
				}
				if text := b.String(); locale == "C" {
					for _, r := range "█▓▒░…─" {
						if strings.ContainsRune(text, r) {
							t.Errorf("%q is no letter of ASCII:\n%s", r, text)
						}
					}
				}
				for _, handle := range []string{" 0-2-1795179000000", " 0-16-1795320360000"} {
					if !strings.Contains(b.String(), handle) {
						t.Errorf("the handle%s is not shown:\n%s", handle, b.String())
					}
				}
				golden(t, filepath.Join("testdata", "terminal", fmt.Sprintf("%d-%s.txt", columns, strings.TrimSuffix(locale, ".UTF-8"))), b.String())
			})
		}
	}
}

// On a narrow terminal ls shows when a record is due and its handle, which other commands ask for, and of the rest what there is room for.
func TestListOnANarrowTerminal(t *testing.T) {
	fixTime(t)
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	c, addr := cluster(t, map[string]int32{"delays": 1, "billing.reminders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, target: billing.reminders}\n")
	r := &kgo.Record{Topic: "delays", Key: []byte("k"), Value: []byte("v"), Timestamp: lookNow, Headers: []kgo.RecordHeader{{Key: "delay-for", Value: []byte("40h6m")}}}
	if err := client(t, addr).ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	id := c.TopicInfo("delays").TopicID
	metadata, err := state.Checkpoint{TopicID: [4]byte(id[:4]), Offset: 1, Parsers: []state.ParserEpoch{{From: 0, Spec: "p1"}}}.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	commit(t, addr, "delays", 0, 1, metadata)
	handle := fmt.Sprintf("0-0-%d", lookNow.Add(40*time.Hour+6*time.Minute).UnixMilli())
	for columns, want := range map[int]string{
		40: "2026-11-22 05:06:00  " + handle,
		59: "2026-11-22 05:06:00  " + handle,
		60: "2026-11-22 05:06:00  billing.rem…  " + handle,
		73: "2026-11-22 05:06:00  billing.rem…  " + handle,
		74: "2026-11-22 05:06:00  in 1 d 16 h  billing.rem…  " + handle,
	} {
		if text := shownOn(t, columns, "ls", "-c", config); !strings.Contains(text, "\n"+want) {
			t.Errorf("on %d columns %q is not shown:\n%s", columns, want, text)
		}
	}
}

// On a narrow terminal a value begins beside its name, whatever others are called.
func TestGetOnANarrowTerminal(t *testing.T) {
	fixTime(t)
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	r := &kgo.Record{Topic: "delays", Key: []byte("k"), Value: []byte("v"), Timestamp: lookNow, Headers: []kgo.RecordHeader{
		{Key: "delay-for", Value: []byte("1h")}, {Key: "delay-target-topic", Value: []byte("orders")}, {Key: "trace", Value: []byte("0af7651916cd43dd8448eb211c80319c")},
		{Key: strings.Repeat("name-that-is-long-", 3), Value: []byte("short")}, {Key: "long", Value: []byte(strings.Repeat("x", 300))}}}
	if err := client(t, addr).ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for _, columns := range []int{40, 60, 80} {
		text := shownOn(t, columns, "get", "-b", addr, "-g", "g", "-t", "delays", fmt.Sprintf("0-0-%d", lookNow.Add(time.Hour).UnixMilli()))
		for name, value := range map[string]string{"state": "pending", "delay-for": "1h", "delay-target-topic": "orders", "trace": "0af765", "long": "xxxxxx"} {
			beside := false
			for line := range strings.Lines(text) {
				rest, is := strings.CutPrefix(line, "  "+name+"  ")
				beside = beside || is && strings.HasPrefix(strings.TrimLeft(rest, " "), value)
			}
			if !beside {
				t.Errorf("on %d columns %s is not beside %s:\n%s", columns, value, name, text)
			}
		}
	}
}
