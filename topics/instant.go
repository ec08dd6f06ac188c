package topics

import "time"

var errInstant = unparsable("a due time is an epoch time in s, ms, µs or ns, or RFC 3339 like 2026-01-01T00:00:05.123Z")

// parseInstant takes RFC 3339, with any number of decimals, rounded up.
func parseInstant(b []byte) (due int64, f fault) {
	// 2006-01-02T15:04:05, and Z or a decimal at least.
	const pattern = "0000-00-00T00:00:00"
	if len(b) <= len(pattern) {
		return 0, errInstant
	}
	for i := range len(pattern) {
		switch c := b[i]; pattern[i] {
		case '0':
			if c < '0' || c > '9' {
				return 0, errInstant
			}
		case 'T':
			if c != 'T' && c != 't' && c != ' ' { // RFC 3339 allows all three
				return 0, errInstant
			}
		default:
			if c != pattern[i] {
				return 0, errInstant
			}
		}
	}
	year, month, day := two(b)*100+two(b[2:]), two(b[5:]), two(b[8:])
	hour, minute, second := two(b[11:]), two(b[14:]), two(b[17:])
	millis, rest := fraction(b[len(pattern):])
	offset, ok := zone(rest)
	// Second 60 is a leap second, taken as the one that follows.
	if !ok || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 60 {
		return 0, errInstant
	}
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if date.Day() != day {
		return 0, unparsable("there is no such day")
	}
	due = date.UnixMilli() + int64((hour*60+minute-offset)*60+second)*1000 + millis
	if due < minDueMillis || due > maxDueMillis {
		return 0, outOfRange("due times lie between 1973-03-03T09:46:40Z and the year 5138")
	}
	return due, fault{}
}

// two reads two digits.
func two(b []byte) int { return int(b[0]-'0')*10 + int(b[1]-'0') }

// fraction takes [. digits] as milliseconds, rounded up. A point without a
// digit is left to the zone, which refuses it.
func fraction(b []byte) (millis int64, rest []byte) {
	if len(b) < 2 || b[0] != '.' || b[1] < '0' || b[1] > '9' {
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

// zone takes Z or ±hh:mm, in minutes.
func zone(b []byte) (minutes int, ok bool) {
	if len(b) == 1 && b[0]|0x20 == 'z' {
		return 0, true
	}
	if len(b) != 6 || b[0] != '+' && b[0] != '-' || b[3] != ':' {
		return 0, false
	}
	for _, i := range [...]int{1, 2, 4, 5} {
		if b[i] < '0' || b[i] > '9' {
			return 0, false
		}
	}
	hours, rest := two(b[1:]), two(b[4:])
	minutes = hours*60 + rest
	if b[0] == '-' {
		minutes = -minutes
	}
	return minutes, hours < 24 && rest < 60
}
