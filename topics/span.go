package topics

import (
	"bytes"
	"math"
	"math/bits"
	"time"
)

// span is a length of time as text states it: months, which depend on where
// they begin, and nanoseconds. more: a little above that.
type span struct {
	months int64
	nanos  int64
	more   bool
}

const whySpan = "a delay is a number of milliseconds, or like 5m, 1h30m, 1.5s, 2d, PT5M, P1DT2H or 0:05:00"

var (
	errSpan      = unparsable(whySpan)
	errSpanRange = outOfRange("the delay is more than 292 years")
)

// parseSpan takes ISO 8601 (PT5M, P1DT2H, P1M) when the text begins with P, a clock (0:05:00, 1.02:03:04,
// 2 days, 0:00:05) when it has a colon, and else Go's form with days and weeks, and with blanks (1h30m, 1.5s, 2d, 5 s). All may have a sign.
func parseSpan(b []byte) (span, Form, fault) {
	neg := false
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		neg = b[0] == '-'
		b = b[1:]
	}
	var s span
	var form Form
	var f fault
	switch {
	case len(b) > 0 && b[0]|0x20 == 'p':
		form = FormISO
		s, f = parseISO(b[1:])
	case bytes.IndexByte(b, ':') >= 0:
		s, f = parseClock(b, neg)
		return s, FormClock, f
	default:
		form = FormUnits
		s, f = parseUnits(b)
	}
	if neg {
		s.months, s.nanos = -s.months, -s.nanos
	}
	return s, form, f
}

// parseUnits takes one or more of a number and a unit, with blanks between them or none.
func parseUnits(b []byte) (s span, f fault) {
	if len(b) == 0 {
		return s, errSpan
	}
	for len(b) > 0 {
		var a amount
		var ok bool
		if a, b, ok = parseAmount(b, false); !ok {
			return s, errSpan
		}
		b = skipBlanks(b)
		unit, n := unitOf(b)
		if n == 0 {
			return s, errSpan
		}
		if b = skipBlanks(b[n:]); !s.add(a, unit) {
			return s, errSpanRange
		}
	}
	return s, fault{}
}

func skipBlanks(b []byte) []byte {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	return b
}

var (
	errClock       = unparsable("whether that is hours and minutes or minutes and seconds cannot be told: write 0:12:30 or 12m30s")
	errClockMillis = unparsable("whether its last number is seconds or milliseconds cannot be told: write seconds with two digits, and milliseconds behind a point, like 0:05:00.500")
)

// parseClock takes hours:mm:ss with decimals, and days before it as Python (2 days, 0:00:05), PostgreSQL (2 days 00:00:05) and
// .NET (2.00:00:05) write them. A sign is that of all of it, but in Python's form of the days alone.
func parseClock(b []byte, neg bool) (s span, f fault) {
	first, rest, ok := digitsOf(b)
	days, has, ofDays := uint64(0), false, false
	switch {
	case !ok:
		return s, errSpan
	case rest[0] == '.':
		days, has, rest = first, true, rest[1:]
	case rest[0] == ' ':
		days, has, ofDays = first, true, true
		rest = bytes.TrimPrefix(bytes.TrimPrefix(skipBlanks(rest), []byte("day")), []byte("s"))
		comma := len(rest) > 0 && rest[0] == ','
		if comma {
			rest = rest[1:]
		}
		if ofDays = comma; len(rest) == 0 || rest[0] != ' ' {
			return s, errSpan
		}
		rest = skipBlanks(rest)
	}
	hours := first
	if has {
		if hours, rest, ok = digitsOf(rest); !ok || hours > 23 {
			return s, errSpan
		}
	}
	if !fits(rest, ":00") || two(rest[1:]) > 59 {
		return s, errSpan
	}
	if len(rest) == 3 && !has {
		return s, errClock
	}
	minutes, rest := two(rest[1:]), rest[3:]
	if !fits(rest, ":00") || two(rest[1:]) > 59 {
		return s, errSpan
	}
	if len(rest) > 3 && rest[3] >= '0' && rest[3] <= '9' {
		return s, errClockMillis
	}
	a, left, ok := parseAmount(rest[1:], false)
	if !ok || len(left) > 0 {
		return s, errSpan
	}
	if !s.addSigned(amount{whole: days}, 24*time.Hour, neg) || !s.addSigned(amount{whole: hours}, time.Hour, neg && !ofDays) ||
		!s.addSigned(amount{whole: uint64(minutes)}, time.Minute, neg && !ofDays) || !s.addSigned(a, time.Second, neg && !ofDays) {
		return s, errSpanRange
	}
	return s, fault{}
}

// digitsOf reads a whole number with something behind it.
func digitsOf(b []byte) (n uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		n = min(n*10+uint64(b[i]-'0'), math.MaxInt64/100)
	}
	return n, b[i:], i > 0 && i < len(b)
}

// unitOf returns the unit that b begins with and the length of its name, or 0.
func unitOf(b []byte) (time.Duration, int) {
	n := 0
	for n < len(b) && b[n] != '.' && b[n] != ' ' && (b[n] < '0' || b[n] > '9') {
		n++
	}
	switch string(b[:n]) {
	case "ns":
		return time.Nanosecond, n
	case "us", "µs", "μs": // U+00B5 and U+03BC
		return time.Microsecond, n
	case "ms":
		return time.Millisecond, n
	case "s":
		return time.Second, n
	case "m":
		return time.Minute, n
	case "h":
		return time.Hour, n
	case "d":
		return 24 * time.Hour, n
	case "w":
		return 7 * 24 * time.Hour, n
	}
	return 0, 0
}

// parseISO takes what follows the P: nY nM nW nD, then T and nH nM nS, each at
// most once, in this order, at least one of them. As Java does, letters may be
// small and each number may have a sign; the last one may have a fraction.
func parseISO(b []byte) (s span, f fault) {
	const year, month = 1, 2
	last, inTime, fraction := 0, false, false
	for len(b) > 0 {
		if !inTime && b[0]|0x20 == 't' {
			inTime, b = true, b[1:]
			if len(b) == 0 {
				return s, errSpan
			}
		}
		neg := b[0] == '-'
		if neg || b[0] == '+' {
			b = b[1:]
		}
		a, rest, ok := parseAmount(b, true)
		if !ok || len(rest) == 0 || fraction {
			return s, errSpan
		}
		place, unit := designator(rest[0]|0x20, inTime)
		if place <= last {
			return s, errSpan
		}
		last, b, fraction = place, rest[1:], a.digits > 0
		if place > month {
			if !s.addSigned(a, unit, neg) {
				return s, errSpanRange
			}
			continue
		}
		if fraction {
			return s, unparsable("a part of a month or of a year has no fixed length")
		}
		if a.whole > 12*maxYears {
			return s, errSpanRange
		}
		n := int64(a.whole)
		if place == year {
			n *= 12
		}
		if neg {
			n = -n
		}
		s.months += n
	}
	if last == 0 {
		return s, errSpan
	}
	return s, fault{}
}

// maxYears keeps the arithmetic small; due times end in 5138.
const maxYears = 5138

// designator returns the place of a letter in its order, 0 for no such letter.
func designator(c byte, inTime bool) (place int, unit time.Duration) {
	if inTime {
		switch c {
		case 'h':
			return 5, time.Hour
		case 'm':
			return 6, time.Minute
		case 's':
			return 7, time.Second
		}
		return 0, 0
	}
	switch c {
	case 'y':
		return 1, 0
	case 'm':
		return 2, 0
	case 'w':
		return 3, 7 * 24 * time.Hour
	case 'd':
		return 4, 24 * time.Hour
	}
	return 0, 0
}

// amount is a number without sign or exponent: whole + part/10^digits, and a
// little above that when more is set.
type amount struct {
	whole, part uint64
	digits      int // of part, at most 18
	more        bool
}

// parseAmount takes digits [. digits], with a digit on at least one side.
func parseAmount(b []byte, comma bool) (a amount, rest []byte, ok bool) {
	i, seen := 0, false
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		seen = true
		if a.whole >= math.MaxInt64/10 {
			a.whole = math.MaxUint64 // out of range whatever the unit
			continue
		}
		a.whole = a.whole*10 + uint64(b[i]-'0')
	}
	if i == len(b) || b[i] != '.' && (!comma || b[i] != ',') {
		return a, b[i:], seen
	}
	for i++; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		seen = true
		if a.digits == 18 {
			a.more = a.more || b[i] != '0'
			continue
		}
		a.part = a.part*10 + uint64(b[i]-'0')
		a.digits++
	}
	return a, b[i:], seen
}

func (s *span) add(a amount, unit time.Duration) bool { return s.addSigned(a, unit, false) }

// addSigned adds an amount of units; false when it is beyond 292 years.
func (s *span) addSigned(a amount, unit time.Duration, neg bool) bool {
	high, low := bits.Mul64(a.whole, uint64(unit))
	if high != 0 || low > math.MaxInt64 {
		return false
	}
	high, part := bits.Mul64(a.part, uint64(unit))
	part, left := bits.Div64(high, part, powers[a.digits])
	if low += part; low > math.MaxInt64 {
		return false
	}
	n := int64(low)
	if neg {
		n = -n
	} else if left > 0 || a.more {
		s.more = true
	}
	sum := s.nanos + n
	if (sum < s.nanos) != (n < 0) {
		return false
	}
	s.nanos = sum
	return true
}

// after returns the due time of a span that begins at a record's timestamp,
// rounded up. Months go by the calendar in UTC, and end with a shorter month.
func (s span) after(base int64) (int64, fault) {
	millis := s.nanos / int64(time.Millisecond)
	if left := s.nanos % int64(time.Millisecond); left > 0 || left == 0 && s.more {
		millis++
	}
	if s.months != 0 {
		millis += addMonths(base, s.months) - base
	}
	return after(base, millis)
}

// addMonths: 31 January and one month is 28 or 29 February.
func addMonths(millis, months int64) int64 {
	year, month, day := time.UnixMilli(millis).UTC().Date()
	month += time.Month(months) // time.Date takes any
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	date := time.Date(year, month, min(day, last), 0, 0, 0, 0, time.UTC)
	const dayMillis = 24 * 60 * 60 * 1000
	return date.UnixMilli() + millis%dayMillis
}
