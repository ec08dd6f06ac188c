package check

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The forms of instants and durations that docs/requests.md and topics/doc.go name, each a function that reads it or does not. What none of
// them reads is refused in a test; a survey takes the processor's word for it.

// instants are the forms of an instant, in ms since 1970, rounded up.
var instants = []func(v []byte) (millis int64, ok bool){epoch, stamp}

// spanForm is a form of a duration, in ms from a timestamp in ms, rounded up.
type spanForm func(v []byte, from int64) (millis int64, ok bool)

var (
	written = []spanForm{goSpan, isoSpan, clockSpan} // with letters or colons
	spans   = append([]spanForm{plainMillis}, written...)
)

// parseUntil reads an instant.
func parseUntil(v []byte) (millis int64, ok bool) {
	for _, form := range instants {
		if millis, ok = form(v); ok {
			return millis, true
		}
	}
	return 0, false
}

// parseFor reads a duration that begins at a time in ms.
func parseFor(v []byte, from int64) (millis int64, ok bool) {
	for _, form := range spans {
		if millis, ok = form(v, from); ok {
			return millis, true
		}
	}
	return 0, false
}

// epoch is a number of seconds, milliseconds, microseconds or nanoseconds since 1970, by its size. One that is not text is binary, and then it
// is seconds or milliseconds.
func epoch(v []byte) (millis int64, ok bool) {
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil && n >= 1e12 && n < 1e14 {
		return n, true // as nearly all are
	}
	if n, binary := asBinary(v); binary {
		if millis, ok = bySize(new(big.Rat).SetInt64(n), true); !ok && len(v) == 8 {
			return bySize(new(big.Rat).SetInt64(turnedAround(v)), true)
		}
		return millis, ok
	}
	exact, ok := decimal(text(v))
	if !ok {
		return 0, false
	}
	return bySize(exact, false)
}

// noSeconds tells whether a value is a number, and not one of seconds since 1970: it is too large, or as binary too small.
func noSeconds(v []byte) bool {
	if n, binary := asBinary(v); binary {
		back := turnedAround(v)
		return (n < 1e8 || n >= 1e11) && (back < 1e8 || back >= 1e11)
	}
	number, is := decimal(text(v))
	return is && number.Cmp(power(11)) >= 0
}

// bySize is a number since 1970 whose unit follows from how large it is.
func bySize(exact *big.Rat, binary bool) (millis int64, ok bool) {
	for _, unit := range []struct{ below, toMillis *big.Rat }{
		{power(8), nil}, {power(11), power(3)}, {power(14), power(0)}, {power(17), power(-3)}, {power(20), power(-6)},
	} {
		if exact.Cmp(unit.below) >= 0 {
			continue
		}
		if unit.toMillis == nil || binary && unit.toMillis.Cmp(power(0)) < 0 {
			return 0, false
		}
		millis = ceil(exact.Mul(exact, unit.toMillis))
		return millis, unit.toMillis.Cmp(power(3)) == 0 || millis < 253_370_764_800 || millis > 253_402_300_800 // seconds of the year 9999
	}
	return 0, false
}

// power is ten to the n.
func power(n int) *big.Rat {
	r, _ := new(big.Rat).SetString("1e" + strconv.Itoa(n))
	return r
}

func ceil(r *big.Rat) int64 {
	q, rest := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int)) // towards minus infinity
	if rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

// decimals are digits, a part behind a point and an exponent, none of them so long that to read it costs anything.
var decimals = regexp.MustCompile(`^[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,2})?$`)

func decimal(s string) (*big.Rat, bool) {
	if !decimals.MatchString(s) {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}

// stamps are RFC 3339 and what libraries make of it: a space for the T, no seconds, a comma for the point, an offset without a colon or without
// minutes, with a space before it or the name of a zone behind it; UTC alone.
var stamps = regexp.MustCompile(`^([0-9]{4})-([0-9]{2})-([0-9]{2})` +
	`(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,100}))?)?` +
	`(?: UTC|(?:[Zz]| ?([+-])([0-9]{2})(?::?([0-9]{2}))?)(?:\[[A-Za-z0-9._/+-]{1,62}\]| [A-Za-z0-9._/+-]{1,63})?))?$`)

// stamp is one of them. A date is its midnight in UTC.
func stamp(v []byte) (millis int64, ok bool) {
	part := stamps.FindStringSubmatch(text(v))
	if part == nil {
		return 0, false
	}
	var n [11]int // of the parts that are whole numbers
	for i := range n {
		n[i], _ = strconv.Atoi(part[i])
	}
	year, month, day, hour, minute, second, hours, minutes := n[1], n[2], n[3], n[4], n[5], n[6], n[9], n[10]
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if date.Day() != day || int(date.Month()) != month || hour > 23 || minute > 59 || second > 60 || hours > 23 || minutes > 59 {
		return 0, false
	}
	zone := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if part[8] == "-" {
		zone = -zone
	}
	at := date.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second - zone)
	millis = at.UnixMilli()
	if fraction := part[7]; fraction != "" {
		exact, _ := new(big.Rat).SetString("0." + fraction)
		millis += ceil(exact.Mul(exact, power(3)))
	}
	return millis, millis >= 1e11 && millis <= 1e14
}

// plainMillis is a number of milliseconds.
func plainMillis(v []byte, _ int64) (millis int64, ok bool) {
	if n, binary := asBinary(v); binary {
		if !isSpan(n) && len(v) == 8 {
			if n = turnedAround(v); n <= 0 {
				return 0, false
			}
		}
		return n, isSpan(n) && !endedByC(v) && !inUTF16(v)
	}
	exact, ok := decimal(text(v))
	if !ok || jacksonDuration.MatchString(text(v)) || new(big.Rat).Abs(exact).Cmp(new(big.Rat).SetInt64(longestMillis)) >= 0 {
		return 0, false
	}
	return ceil(exact), true
}

// endedByC tells text that says a delay and has zeros behind it. Two digits are too few: with zeros they may as well be an hour, or ten days.
func endedByC(v []byte) bool {
	letters := bytes.TrimRight(v, "\x00")
	return len(letters) < len(v) && saysSpan(letters)
}

// inUTF16 tells text of two bytes a character that says a delay: with a byte order mark, little-endian, or big-endian and of three characters or more.
func inUTF16(v []byte) bool {
	s := string(v)
	for _, order := range []struct {
		mark  string
		most  binary.ByteOrder
		least int
	}{{"\xff\xfe", binary.LittleEndian, 1}, {"\xfe\xff", binary.BigEndian, 1}, {"", binary.LittleEndian, 2}, {"", binary.BigEndian, 3}} {
		rest, begins := strings.CutPrefix(s, order.mark)
		if !begins || len(rest)%2 != 0 || len(rest) < 2*order.least {
			continue
		}
		var letters []byte
		for i := 0; i < len(rest); i += 2 {
			if unit := order.most.Uint16([]byte(rest[i:])); unit < 0x80 {
				letters = append(letters, byte(unit))
			}
		}
		if 2*len(letters) == len(rest) && saysSpan(letters) {
			return true
		}
	}
	return false
}

// saysSpan tells what is written of a delay. One or two digits may as well be bytes of an integer.
func saysSpan(letters []byte) bool {
	if len(letters) == 0 || !isText(letters) {
		return false
	}
	if _, digits := decimal(string(letters)); digits {
		return len(letters) > 2
	}
	return slices.ContainsFunc(written, func(form spanForm) bool {
		_, says := form(letters, 0)
		return says
	})
}

// jacksonDuration is a Duration in seconds as Jackson writes it: no language ends the decimals of a floating point number with a zero, and hardly one that is
// below 100,000 has nine of them.
var jacksonDuration = regexp.MustCompile(`^[+-]?([0-9]+\.[0-9]{8}0|[0-9]{1,5}\.[0-9]{9})$`)

// longestMillis is 292 years. What is longer is no delay, and binary may then be little-endian.
const longestMillis = int64(math.MaxInt64 / int64(time.Millisecond))

func isSpan(millis int64) bool { return -longestMillis < millis && millis < longestMillis }

var (
	unitLengths = map[string]time.Duration{
		"ns": 1, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "ms": time.Millisecond,
		"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
	}
	goParts = regexp.MustCompile(`([0-9]+(?:\.[0-9]*)?|\.[0-9]+) *([a-zµμ]+)`)
	goWhole = regexp.MustCompile(`^[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+) *[a-zµμ]+ *)+$`)
	clock   = regexp.MustCompile(`^([+-]?)(?:([0-9]{1,9})(?:\.| +days?(,?) +))?([0-9]{1,9}):([0-5][0-9]):([0-5][0-9](?:\.[0-9]{0,40})?)$`)
	iso     = regexp.MustCompile(`^([+-]?)P((?:[+-]?[0-9.,]+[YMWD])*)(?:T((?:[+-]?[0-9.,]+[HMS])+))?$`)
	isoPart = regexp.MustCompile(`([+-]?)([0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)([A-Z])`)
)

// goSpan is as Go writes durations, with days and weeks, and with spaces beside units or none: 1h30m, 2d, 5 s.
func goSpan(v []byte, _ int64) (millis int64, ok bool) {
	s := text(v)
	if !goWhole.MatchString(s) {
		return 0, false
	}
	sum := new(big.Rat)
	for _, part := range goParts.FindAllStringSubmatch(s, -1) {
		unit, known := unitLengths[part[2]]
		if !known || !add(sum, part[1], unit, false) {
			return 0, false
		}
	}
	return inMillis(sum, strings.HasPrefix(s, "-"))
}

// isoUnits are the letters of an ISO 8601 duration before and behind its T, in their order. Those of the calendar have no length.
var isoUnits = [2]struct {
	letters string
	lengths map[string]time.Duration
}{
	{"YMWD", map[string]time.Duration{"W": 7 * 24 * time.Hour, "D": 24 * time.Hour}},
	{"HMS", map[string]time.Duration{"H": time.Hour, "M": time.Minute, "S": time.Second}},
}

// isoSpan is as ISO 8601 writes durations, with a sign before any number and a fraction of the last one. Months and years are those of the
// calendar, in UTC.
func isoSpan(v []byte, from int64) (millis int64, ok bool) {
	whole := iso.FindStringSubmatch(strings.ToUpper(text(v)))
	if whole == nil || whole[2]+whole[3] == "" {
		return 0, false
	}
	sum, months, fraction := new(big.Rat), 0, false
	for half, units := range isoUnits {
		said, last := whole[2+half], -1
		parts := isoPart.FindAllStringSubmatch(said, -1)
		for _, part := range parts {
			said = strings.TrimPrefix(said, part[0])
			digits := strings.TrimSuffix(strings.Replace(part[2], ",", ".", 1), ".")
			place, unit := strings.Index(units.letters, part[3]), units.lengths[part[3]]
			if place <= last || fraction {
				return 0, false
			}
			last, fraction = place, strings.Contains(digits, ".")
			if unit > 0 {
				if !add(sum, digits, unit, part[1] == "-") {
					return 0, false
				}
				continue
			}
			n, err := strconv.Atoi(part[1] + digits)
			if err != nil || n > 12*latestYear || n < -12*latestYear {
				return 0, false
			}
			if place == 0 {
				n *= 12
			}
			months += n
		}
		if said != "" {
			return 0, false
		}
	}
	negative := whole[1] == "-"
	if negative {
		months = -months
	}
	rest, ok := inMillis(sum, negative)
	return rest + monthsFrom(from, months), ok
}

// latestYear is that of the last due time: a delay may be so many years.
const latestYear = 5138

// monthsFrom is how long so many months are that begin at a time, in ms. What is no day of a month is its last one.
func monthsFrom(from int64, months int) int64 {
	begin := time.UnixMilli(from).UTC()
	end := begin.AddDate(0, months, 0)
	if end.Day() != begin.Day() {
		end = end.AddDate(0, 0, -end.Day())
	}
	return end.UnixMilli() - from
}

// clockSpan is hours:minutes:seconds, with days before it as .NET, Python and PostgreSQL write them. A sign is that of all of it, but beside a
// comma of the days alone.
func clockSpan(v []byte, _ int64) (millis int64, ok bool) {
	part := clock.FindStringSubmatch(text(v))
	if part == nil {
		return 0, false
	}
	hours, _ := strconv.Atoi(part[4])
	if part[2] != "" && hours > 23 {
		return 0, false
	}
	sum, negative := new(big.Rat), part[1] == "-"
	ok = add(sum, part[4], time.Hour, false) && add(sum, part[5], time.Minute, false) && add(sum, part[6], time.Second, false)
	if part[2] != "" {
		ok = ok && add(sum, part[2], 24*time.Hour, negative && part[3] == ",")
	}
	if !ok {
		return 0, false
	}
	return inMillis(sum, negative && part[3] != ",")
}

// add adds so many of a unit, in ns.
func add(sum *big.Rat, digits string, unit time.Duration, negative bool) bool {
	if strings.HasPrefix(digits, ".") {
		digits = "0" + digits
	}
	n, ok := decimal(strings.TrimSuffix(digits, "."))
	if negative {
		unit = -unit
	}
	if ok {
		sum.Add(sum, n.Mul(n, new(big.Rat).SetInt64(int64(unit))))
	}
	return ok
}

// inMillis rounds up. What is longer than 292 years is not read.
func inMillis(nanos *big.Rat, negative bool) (millis int64, ok bool) {
	if new(big.Rat).Abs(nanos).Cmp(new(big.Rat).SetInt64(math.MaxInt64)) >= 0 {
		return 0, false
	}
	if negative {
		nanos.Neg(nanos)
	}
	return ceil(nanos.Mul(nanos, power(-6))), true
}

// text is a value without the white space of JSON around it. Any other is part of the value.
func text(v []byte) string { return strings.Trim(string(v), " \t\r\n") }

// asBinary reads up to eight bytes big-endian, as Java's LongSerializer and BigInteger write them, where they cannot be text.
func asBinary(v []byte) (n int64, ok bool) {
	if len(v) == 0 || len(v) > 8 || isText(v) {
		return 0, false
	}
	n = int64(int8(v[0]))
	for _, c := range v[1:] {
		n = n<<8 | int64(c)
	}
	return n, true
}

// turnedAround reads eight bytes little-endian, as .NET writes them. It is 0 where there are not eight.
func turnedAround(v []byte) int64 {
	if len(v) != 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(v))
}

func ceilMillis(d time.Duration) int64 { return ceilDiv(int64(d), 1e6) }

func ceilDiv(n, by int64) int64 {
	q := n / by
	if n%by > 0 {
		q++
	}
	return q
}
