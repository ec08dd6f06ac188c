package main

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/ahead"
)

// step is how long one bar is.
type step int

const (
	byMinute step = iota
	byHour
	byDay
)

var stepNames = map[string]step{"minute": byMinute, "hour": byHour, "day": byDay}

// begin is the beginning of the minute, hour or day around a time, where that is.
func (s step) begin(t time.Time) time.Time {
	y, m, d := t.Date()
	switch s {
	case byMinute:
		return t.Truncate(time.Minute)
	case byHour: // a zone may be off by half an hour
		return t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	}
	return dayBegin(y, m, d, t.Location())
}

// next is the beginning of the one behind it.
func (s step) next(t time.Time) time.Time {
	switch s {
	case byMinute:
		return t.Add(time.Minute)
	case byHour:
		return t.Add(time.Hour)
	}
	y, m, d := t.Date()
	return dayBegin(y, m, d+1, t.Location())
}

// dayBegin is the first instant of a day. There are zones that set their clocks at midnight: a day may have none, or two.
func dayBegin(y int, m time.Month, d int, zone *time.Location) time.Time {
	const least = 15 * time.Minute // by which clocks are set
	day := time.Date(y, m, d, 12, 0, 0, 0, zone).YearDay()
	at := time.Date(y, m, d, 0, 0, 0, 0, zone)
	for at.YearDay() != day {
		at = at.Add(least)
	}
	for at.Add(-least).YearDay() == day {
		at = at.Add(-least)
	}
	return at
}

// label says which minute, hour or day it is.
func (s step) label(t time.Time) string {
	if s == byDay {
		return t.Format("2006-01-02 Mon")
	}
	return t.Format("2006-01-02 15:04")
}

// dueMinute is what is due in one minute, by target.
type dueMinute struct {
	records, bytes int64
	targets        map[string]int64
}

func (d *dueMinute) add(target string, records, bytes int64) {
	if d.targets == nil {
		d.targets = map[string]int64{}
	}
	d.records, d.bytes = d.records+records, d.bytes+bytes
	d.targets[target] += records
}

// schedule is how much is due when: by minute, so that what it holds does not depend on how much there is; and by day where that would be too many.
type schedule struct {
	zone     *time.Location       // whose days are meant
	minutes  map[int64]*dueMinute // since 1970
	days     int64                // not 0: from this minute on, which a day begins with, all of a day is at its beginning
	farthest int64                // farthestDay; 0: it was not asked for
	overdue  dueMinute
	beyond   dueMinute // what is due after farthestDay
	total    dueMinute
	last     int64  // ms: when the last one is due
	part     string // partOf
}

const (
	mostMinutes = 150_000 // are told apart; beyond them days are
	mostDays    = 36_525  // of which no more are
)

func (s *schedule) add(p ahead.Pending, now int64) {
	target := cmp.Or(p.Target, "(of the route)")
	s.total.add(target, 1, int64(p.Size))
	s.last = max(s.last, p.Due)
	switch {
	case p.Due < now:
		s.overdue.add(target, 1, int64(p.Size))
		return
	case p.Due >= s.farthestDay(now):
		s.beyond.add(target, 1, int64(p.Size))
		return
	}
	minute := p.Due / 60_000
	if s.days > 0 && minute >= s.days {
		minute = s.dayOf(minute)
	}
	s.at(minute).add(target, 1, int64(p.Size))
	s.thin()
}

// farthestDay is from when on days are not told apart, in ms: a day begins there.
func (s *schedule) farthestDay(now int64) int64 {
	if s.farthest == 0 {
		y, m, d := time.UnixMilli(now).In(s.zone).Date()
		s.farthest = dayBegin(y, m, d+mostDays, s.zone).UnixMilli()
	}
	return s.farthest
}

// at is what is due in a minute.
func (s *schedule) at(minute int64) *dueMinute {
	if s.minutes == nil {
		s.minutes = map[int64]*dueMinute{}
	}
	m := s.minutes[minute]
	if m == nil {
		m = &dueMinute{}
		s.minutes[minute] = m
	}
	return m
}

// dayOf is the minute with which the day of a minute begins.
func (s *schedule) dayOf(minute int64) int64 {
	return byDay.begin(time.UnixMilli(minute*60_000).In(s.zone)).UnixMilli() / 60_000
}

// thin puts the minutes of days together, whole days and the farthest first, when there are too many of them.
func (s *schedule) thin() {
	if len(s.minutes) <= mostMinutes {
		return
	}
	for _, minute := range slices.Backward(slices.Sorted(maps.Keys(s.minutes))) {
		if s.days > 0 && minute >= s.days {
			continue // this day is together
		}
		if len(s.minutes) <= mostMinutes/2 {
			return
		}
		s.days = s.dayOf(minute)
		s.joinDay()
	}
}

// joinDay puts together all minutes of the day that days begin with.
func (s *schedule) joinDay() {
	end := byDay.next(time.UnixMilli(s.days*60_000).In(s.zone)).UnixMilli() / 60_000
	for minute := s.days + 1; minute < end; minute++ {
		m := s.minutes[minute]
		if m == nil {
			continue
		}
		into := s.at(s.days)
		for target, n := range m.targets {
			into.add(target, n, 0)
		}
		into.bytes += m.bytes
		delete(s.minutes, minute)
	}
}

// fitting is the shortest step that needs no more bars than a person looks at for nine of ten records: a few that are due in a year leave
// those of today apart.
func (s *schedule) fitting(now time.Time) step {
	n, last := s.overdue.records, now.UnixMilli()
	for _, minute := range slices.Sorted(maps.Keys(s.minutes)) {
		if 10*n >= 9*s.total.records {
			break
		}
		n, last = n+s.minutes[minute].records, minute*60_000
	}
	switch ahead := time.UnixMilli(last).Sub(now); {
	case ahead <= 45*time.Minute:
		return byMinute
	case ahead <= 48*time.Hour:
		return byHour
	}
	return byDay
}

// agendaRow is what is due in one step, as -o json prints it. Times are ms since the epoch.
type agendaRow struct {
	From    *int64           `json:"from"` // null: what is overdue
	To      int64            `json:"to"`   // not included
	Records int64            `json:"records"`
	Bytes   int64            `json:"bytes"`
	Targets map[string]int64 `json:"targets"`

	at     time.Time
	step   step
	beyond bool // it is all that is due from there on
}

// label says which minute, hour or day it is.
func (r *agendaRow) label() string {
	if r.beyond {
		return r.at.Format("from 2006-01-02")
	}
	return r.step.label(r.at)
}

// rows are the steps in which anything is due, what is overdue first. Where only days are known a row is a day, and the last may be all that is beyond.
// They are made one after the other: by minute there may be very many.
func (s *schedule) rows(by step, now time.Time) iter.Seq[agendaRow] {
	return func(yield func(agendaRow) bool) {
		if s.overdue.records > 0 && !yield(s.overdue.row(nil, now.UnixMilli())) {
			return
		}
		var r agendaRow
		for _, minute := range slices.Sorted(maps.Keys(s.minutes)) {
			m, step := s.minutes[minute], by
			if s.days > 0 && minute >= s.days {
				step = byDay
			}
			at := step.begin(time.UnixMilli(minute * 60_000).In(now.Location()))
			if r.From != nil && r.at.Equal(at) {
				r.Records, r.Bytes = r.Records+m.records, r.Bytes+m.bytes
				for target, n := range m.targets {
					r.Targets[target] += n
				}
				continue
			}
			if r.From != nil && !yield(r) {
				return
			}
			from := at.UnixMilli()
			r = m.row(&from, step.next(at).UnixMilli())
			r.at, r.step = at, step
		}
		if r.From != nil && !yield(r) {
			return
		}
		if s.beyond.records > 0 {
			from := s.farthestDay(now.UnixMilli())
			r := s.beyond.row(&from, s.last+1)
			r.at, r.beyond = time.UnixMilli(from).In(now.Location()), true
			yield(r)
		}
	}
}

// row is what is due from one time to another.
func (d *dueMinute) row(from *int64, to int64) agendaRow {
	return agendaRow{From: from, To: to, Records: d.records, Bytes: d.bytes, Targets: maps.Clone(d.targets)}
}
