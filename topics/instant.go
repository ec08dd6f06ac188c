package topics

import "time"

var (
	errInstant = unparsable("a due time is an epoch time in s, ms, µs or ns, or a date and time with an offset like 2026-01-01T00:00:05.123Z")
	errNoZone  = unparsable("it has no offset, and what hour it is depends on where: write Z behind it for UTC, or an offset like +01:00")
	errZoneID  = unparsable("it has the name of a zone and no offset, and the rules of zones change: write Z for UTC, or an offset like +01:00, before the name")
)

// parseInstant takes RFC 3339, with any number of decimals, rounded up, and with what libraries make of it:
// a blank for the T, no seconds, an offset without a colon or without minutes, with a blank before it or the
// name of a zone behind it, or UTC for an offset. A date alone is its midnight in UTC.
func parseInstant(b []byte) (due int64, form Form, f fault) {
	const date, minutes, seconds = len("0000-00-00"), len("0000-00-00T00:00"), len("0000-00-00T00:00:00")
	if !fits(b, "0000-00-00") {
		return 0, 0, errInstant
	}
	if len(b) == date {
		return instant(b, 0, 0, 0, FormDate)
	}
	if !fits(b, "0000-00-00T00:00") {
		return 0, 0, errInstant
	}
	second, millis, rest := 0, int64(0), b[minutes:]
	if fits(b, "0000-00-00T00:00:00") {
		second = two(b[minutes+1:])
		millis, rest = fraction(b[seconds:])
	}
	offset, rest, f := zone(rest)
	if f.code != "" {
		return 0, 0, f
	}
	if !zoneName(rest) {
		return 0, 0, errInstant
	}
	hour, minute := two(b[11:]), two(b[14:])
	// Second 60 is a leap second, taken as the one that follows.
	if hour > 23 || minute > 59 || second > 60 {
		return 0, 0, errInstant
	}
	return instant(b, hour*60+minute-offset, second, millis, FormTime)
}

// instant adds minutes, seconds and ms to the date that b begins with.
func instant(b []byte, minutes, seconds int, millis int64, form Form) (due int64, _ Form, f fault) {
	year, month, day := two(b)*100+two(b[2:]), two(b[5:]), two(b[8:])
	if month < 1 || month > 12 || day < 1 {
		return 0, 0, errInstant
	}
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if date.Day() != day {
		return 0, 0, unparsable("there is no such day")
	}
	due = date.UnixMilli() + int64(minutes*60+seconds)*1000 + millis
	if due < minDueMillis || due > maxDueMillis {
		return 0, 0, outOfRange("due times lie between 1973-03-03T09:46:40Z and the year 5138")
	}
	return due, form, fault{}
}

// fits tells whether b begins as a pattern does, in which 0 is a digit and T what may stand between date and time.
func fits(b []byte, pattern string) bool {
	if len(b) < len(pattern) {
		return false
	}
	for i := range len(pattern) {
		c := b[i]
		switch pattern[i] {
		case '0':
			if c < '0' || c > '9' {
				return false
			}
		case 'T':
			if c != 'T' && c != 't' && c != ' ' { // RFC 3339 allows all three
				return false
			}
		default:
			if c != pattern[i] {
				return false
			}
		}
	}
	return true
}

// two reads two digits.
func two(b []byte) int { return int(b[0]-'0')*10 + int(b[1]-'0') }

// fraction takes [. digits], or a comma for the point as ISO 8601 has it, as milliseconds, rounded up. A point without a
// digit is left to the zone, which refuses it.
func fraction(b []byte) (millis int64, rest []byte) {
	if len(b) < 2 || b[0] != '.' && b[0] != ',' || b[1] < '0' || b[1] > '9' {
		return 0, b
	}
	i, unit, more := 1, int64(100), false
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		millis += int64(b[i]-'0') * unit
		more = more || unit == 0 && b[i] != '0'
		unit /= 10
	}
	if more {
		millis++
	}
	return millis, b[i:]
}

// zone takes Z, ±hh, ±hhmm or ±hh:mm, in minutes, with a blank before it as Go prints it, or UTC behind a blank as Ruby does.
func zone(b []byte) (minutes int, rest []byte, f fault) {
	if len(b) == 0 {
		return 0, nil, errNoZone
	}
	if b[0] == '[' {
		return 0, nil, errZoneID
	}
	if b[0]|0x20 == 'z' {
		return 0, b[1:], fault{}
	}
	if string(b) == " UTC" {
		return 0, nil, fault{}
	}
	if b[0] == ' ' {
		b = b[1:]
	}
	if !fits(b, "+00") && !fits(b, "-00") {
		return 0, nil, errInstant
	}
	hours, past := two(b[1:]), 0
	switch rest = b[3:]; {
	case fits(rest, ":00"):
		past, rest = two(rest[1:]), rest[3:]
	case fits(rest, "00"):
		past, rest = two(rest), rest[2:]
	}
	if hours > 23 || past > 59 {
		return 0, nil, errInstant
	}
	minutes = hours*60 + past
	if b[0] == '-' {
		minutes = -minutes
	}
	return minutes, rest, fault{}
}

// mostZoneName is more than any name in the database of zones has.
const mostZoneName = 64

// zoneName tells whether what stands behind an offset is the name of a zone, which says nothing more: [Europe/Paris] as Java writes
// it, or " CET" as Go does, or nothing.
func zoneName(b []byte) bool {
	switch {
	case len(b) == 0:
		return true
	case len(b) < 2 || len(b) > mostZoneName:
		return false
	case b[0] == '[' && b[len(b)-1] == ']':
		b = b[1 : len(b)-1]
	case b[0] == ' ':
		b = b[1:]
	default:
		return false
	}
	for _, c := range b {
		if !topicByte(c) && c != '/' && c != '+' {
			return false
		}
	}
	return len(b) > 0
}
