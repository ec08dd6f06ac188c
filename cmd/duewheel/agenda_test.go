package main

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What an agenda holds does not depend on how many minutes there are in which something is due, and nothing is left out of its bars.
func TestAgendaIsBounded(t *testing.T) {
	s := schedule{zone: lookNow.Location()}
	now := lookNow.UnixMilli()
	const many = 3 * mostMinutes
	for i := range int64(many) {
		s.add(ahead.Pending{Due: now + i*time.Minute.Milliseconds(), Size: 1, Target: "orders"}, now)
		if len(s.minutes) > mostMinutes {
			t.Fatalf("%d minutes", len(s.minutes))
		}
	}
	var last int64
	for r := range s.rows(byMinute, lookNow) { // what is known by day is no minute
		if r.Records > (r.To-*r.From)/60_000 || *r.From < last {
			t.Fatalf("from %d to %d there are %d, after %d", *r.From, r.To, r.Records, last)
		}
		last = r.To
	}
	var records, bytes int64
	for r := range s.rows(byDay, lookNow) {
		records, bytes = records+r.Records, bytes+r.Bytes
		if r.Targets["orders"] != r.Records || r.Records > 24*60 {
			t.Fatalf("a day has %+v", r)
		}
	}
	if records != many || bytes != many {
		t.Errorf("%d records of %d bytes in the bars, want %d", records, bytes, many)
	}
}

// What an agenda looks like: hours begin where those of the zone do, what there is little of has a bar beside what there is much of, more targets
// than there are inks share the last one, nothing is said of a gap behind what is overdue, and bars fit the terminal.
func TestAgendaDrawn(t *testing.T) {
	now := time.Date(2026, 11, 20, 13, 10, 0, 0, time.FixedZone("IST", 5*3600+1800))
	s := schedule{zone: now.Location()}
	due := func(in time.Duration, target string, n int) {
		for range n {
			s.add(ahead.Pending{Due: now.Add(in).UnixMilli(), Size: 100, Target: target}, now.UnixMilli())
		}
	}
	due(-time.Minute, "orders", 3)
	due(2*time.Hour, "orders", 600)
	due(2*time.Hour+40*time.Minute, "billing", 400)
	due(2*time.Hour+51*time.Minute, "orders", 1)
	for _, target := range []string{"mail", "push", "sms"} {
		due(4*time.Hour, target, 100)
	}
	want := `overdue              3  #
2026-11-20 15:00 1,000  #################===========
2026-11-20 16:00     1  #
2026-11-20 17:00   300  +++.....

# orders 604   = billing 400   + mail 100
. 2 others 200
1,304 records pending, 130 kB, by hour (IST)
the last is due 2026-11-20 17:10:00, in 4 h
`
	for range 2 { // drawing changes nothing
		if got := s.draw(slices.Collect(s.rows(byHour, now)), byHour, now, letterInk, 52); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	for line := range strings.SplitSeq(s.draw(slices.Collect(s.rows(byHour, now)), byHour, now, letterInk, 30), "\n\n") { // bars, and what they mean
		for row := range strings.SplitSeq(line, "\n") {
			if strings.ContainsAny(row, "#=+.") && len(row) > 30 && strings.Contains(row, ":00 ") {
				t.Errorf("on 30 columns: %q", row)
			}
		}
	}
	if got := s.draw(slices.Collect(s.rows(byHour, now)), byHour, now, letterInk, 10); !strings.Contains(got, "2026-11-20 15:00 1,000  ##==\n") {
		t.Errorf("on 10 columns:\n%s", got)
	}
	four := schedule{zone: now.Location()}
	for _, target := range []string{"a", "b", "c", "d"} {
		four.add(ahead.Pending{Due: now.UnixMilli(), Target: target}, now.UnixMilli())
	}
	if got := four.draw(slices.Collect(four.rows(byDay, now)), byDay, now, letterInk, 40); !strings.HasPrefix(got, "2026-11-20 Fri   4  #####=====+++++.....\n\n# a 1   = b 1   + c 1   . d 1\n") {
		t.Errorf("of four targets:\n%s", got)
	}
}

// A day ends where the next one begins, also that in which clocks are set back.
func TestDaysOfAnAgenda(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, day := range []int{24, 25, 26} {
		begin := time.Date(2026, 10, day, 0, 0, 0, 0, zone)
		if got, want := byDay.next(begin), time.Date(2026, 10, day+1, 0, 0, 0, 0, zone); !got.Equal(want) {
			t.Errorf("the day that begins at %v ends at %v", begin, got)
		}
		if got := byDay.begin(begin.Add(23*time.Hour + 30*time.Minute)); !got.Equal(begin) {
			t.Errorf("the last hours of the day that begins at %v are of that which begins at %v", begin, got)
		}
	}
}

// There are zones that set their clocks at midnight, so that a day has no midnight, or two.
func TestDaysWithoutMidnight(t *testing.T) {
	for name, day := range map[string]time.Time{
		"America/Santiago": time.Date(2027, 9, 5, 12, 0, 0, 0, time.UTC),  // forward
		"America/Havana":   time.Date(2027, 11, 7, 12, 0, 0, 0, time.UTC), // back, at one
		"Asia/Beirut":      time.Date(2027, 3, 28, 12, 0, 0, 0, time.UTC),
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		y, m, d := day.Date()
		noon := time.Date(y, m, d, 12, 0, 0, 0, zone)
		begin := byDay.begin(noon)
		if begin.Day() != d || begin.Add(-time.Millisecond).Day() == d || !byDay.begin(begin).Equal(begin) {
			t.Errorf("%s: the day of %v begins at %v", name, noon, begin)
		}
		if next := byDay.next(begin); next.Day() != d+1 || next.Add(-time.Millisecond).Day() != d {
			t.Errorf("%s: the day that begins at %v ends at %v", name, begin, next)
		}
		if before := byDay.begin(begin.Add(-time.Millisecond)); !byDay.next(before).Equal(begin) {
			t.Errorf("%s: the day before %v ends at %v", name, begin, byDay.next(before))
		}
	}
}

// Of what is due in thousands of years, as a mistyped unit has it, days are not told apart, and putting minutes together takes no time.
func TestAgendaOfThousandsOfYears(t *testing.T) {
	s := schedule{zone: lookNow.Location()}
	now := lookNow.UnixMilli()
	const many, dayMillis = mostDays + 1000, 24 * 60 * 60 * 1000
	for i := range int64(many) {
		s.add(ahead.Pending{Due: now + i*dayMillis, Size: 1, Target: "orders"}, now)
	}
	if len(s.minutes) > mostDays {
		t.Errorf("%d days are told apart", len(s.minutes))
	}
	rows := slices.Collect(s.rows(byHour, lookNow))
	last := rows[len(rows)-1]
	if last.Records != many-mostDays || last.Bytes != last.Records || last.To != now+(many-1)*dayMillis+1 {
		t.Errorf("beyond are %d records, until %d", last.Records, last.To)
	}
}

// What is beyond all days that are told apart is no day, and begins where the last of those ends, in the zone of the agenda.
func TestAgendaBeyondItsDays(t *testing.T) {
	zone, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 7, 0, 0, 0, zone) // in UTC it is the day before
	s := schedule{zone: zone}
	last := time.Date(2026, 11, 20+mostDays-1, 23, 59, 0, 0, zone)
	for _, due := range []time.Time{last, last.Add(time.Minute), now.AddDate(1000, 0, 0)} {
		s.add(ahead.Pending{Due: due.UnixMilli(), Target: "orders"}, now.UnixMilli())
	}
	rows := slices.Collect(s.rows(byDay, now))
	if len(rows) != 2 || rows[0].Records != 1 || rows[0].To != *rows[1].From || rows[1].Records != 2 {
		t.Fatalf("rows are %+v", rows)
	}
	for _, by := range []step{byMinute, byHour, byDay} {
		if got := s.draw(slices.Collect(s.rows(by, now)), by, now, letterInk, 52); !strings.Contains(got, "\nfrom 2126-11-21  2  ###") {
			t.Errorf("by %d:\n%s", by, got)
		}
	}
}

// In winter a list has times of summer, and the other way round: its zone is said by both names, since each time is that of its own day.
func TestZoneOf(t *testing.T) {
	for name, want := range map[string][2]string{"Europe/Berlin": {"CET/CEST", "CEST/CET"}, "Asia/Tokyo": {"JST", "JST"}, "UTC": {"UTC", "UTC"}, "Asia/Kathmandu": {"+0545", "+0545"}} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, month := range []time.Month{time.January, time.July} {
			if got := zoneOf(time.Date(2026, month, 1, 12, 0, 0, 0, zone)); got != want[i] {
				t.Errorf("%s in %v: %s, want %s", name, month, got, want[i])
			}
		}
	}
	if got := zoneOf(lookNow); got != "CET" {
		t.Errorf("without summer: %s", got)
	}
}

// What is due beyond the last bar is a number, which is no measure for the bars before it.
func TestAgendaLater(t *testing.T) {
	s := schedule{zone: lookNow.Location()}
	now := lookNow.UnixMilli()
	for i := range int64(mostBars) {
		s.add(ahead.Pending{Due: now + i*60_000, Size: 1, Target: "orders"}, now)
	}
	for i := range int64(2000) {
		s.add(ahead.Pending{Due: now + (mostBars+i)*60_000, Size: 1, Target: "orders"}, now)
	}
	lines := strings.Split(s.draw(slices.Collect(s.rows(byMinute, lookNow)), byMinute, lookNow, letterInk, 50), "\n")
	if want := "2026-11-20 13:59     1  " + strings.Repeat("#", 26); lines[mostBars-1] != want {
		t.Errorf("%q, want %q", lines[mostBars-1], want)
	}
	if want := "later            2,000"; lines[mostBars] != want {
		t.Errorf("%q, want %q", lines[mostBars], want)
	}
}

// Of what says how a terminal writes, LC_ALL counts most and LANG least.
func TestSpeaksUTF8(t *testing.T) {
	for _, c := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", false}, {"", "", "de_DE.UTF-8", true}, {"", "", "en_US.utf8", true}, {"", "C", "de_DE.UTF-8", false},
		{"C", "C.UTF-8", "de_DE.UTF-8", false}, {"C.UTF-8", "C", "C", true},
	} {
		said := map[string]string{"LC_ALL": c.all, "LC_CTYPE": c.ctype, "LANG": c.lang}
		if got := speaksUTF8(func(name string) string { return said[name] }); got != c.want {
			t.Errorf("%v: %v", said, got)
		}
	}
}

// What is told when all is read is of the time at which that began: where it has taken long, it is said.
func TestLookThatTakesLong(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1})
	var passed atomic.Int64
	wallClock = func() time.Time { return lookNow.Add(time.Duration(passed.Load())) }
	t.Cleanup(func() { wallClock = time.Now })
	fill(t, addr, "delays", 1, 3)
	for _, took := range []time.Duration{4 * time.Second, 19 * time.Second} {
		passed.Store(0)
		c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			passed.Store(int64(took))
			return nil, nil, false
		})
		for _, args := range [][]string{{"ls"}, {"agenda"}} {
			_, notes, err := both(t, append(args, "-b", addr, "-g", "g", "-t", "delays")...)
			const note = "note: that took 19 s; times are told from 2026-11-20 13:00:00 CET, when it began\n"
			if err != nil || strings.Contains(notes, note) != (took > 5*time.Second) || strings.Contains(notes, "that took") != (took > 5*time.Second) {
				t.Errorf("%v that takes %v: %v, with the notes\n%s", args, took, err, notes)
			}
			passed.Store(0)
		}
	}
}
