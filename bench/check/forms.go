package check

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The forms of instants and durations that docs/requests.md and topics/doc.go name, each a function that reads it or does not. What none of
// them reads is refused in a test; a survey takes the processor's word for it.

// instants are the forms of an instant, in ms since 1970, rounded up.
var instants = []func(v []byte) (millis int64, ok bool){epoch, stamp}

// spans are the forms of a duration, in ms from a timestamp in ms, rounded up.
var spans = []func(v []byte, from int64) (millis int64, ok bool){plainMillis, goSpan, isoSpan, clockSpan}

// parseUntil reads an instant.
func parseUntil(v []byte) (millis int64, ok bool) {
	v = unquoted(v)
	for _, form := range instants {
		if millis, ok = form(v); ok {
			return millis, true
		}
	}
	return 0, false
}

// parseFor reads a duration that begins at a time in ms.
func parseFor(v []byte, from int64) (millis int64, ok bool) {
	v = unquoted(v)
	for _, form := range spans {
		if millis, ok = form(v, from); ok {
			return millis, true
		}
	}
	return 0, false
}

// unquoted takes the quotes of a JSON string off.
func unquoted(v []byte) []byte {
	var inside string
	if s := text(v); strings.HasPrefix(s, `"`) && json.Unmarshal([]byte(s), &inside) == nil {
		return []byte(inside)
	}
	return v
}

// epoch is a number of seconds, milliseconds, microseconds or nanoseconds since 1970, by its size. One that is not text is binary, and then it
// is seconds or milliseconds.
func epoch(v []byte) (millis int64, ok bool) {
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil && n >= 1e11 && n < 1e14 {
		return n, true // as nearly all are
	}
	n, binary := asBinary(v)
	exact := new(big.Rat).SetInt64(n)
	if !binary {
		if exact, ok = decimal(text(v)); !ok {
			return 0, false
		}
	}
	for _, unit := range []struct{ below, toMillis *big.Rat }{
		{power(8), nil}, {power(11), power(3)}, {power(14), power(0)}, {power(17), power(-3)}, {power(20), power(-6)},
	} {
		if exact.Cmp(unit.below) >= 0 {
			continue
		}
		if unit.toMillis == nil || binary && unit.toMillis.Cmp(power(0)) < 0 {
			return 0, false
		}
		return ceil(exact.Mul(exact, unit.toMillis)), true
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
var decimals = regexp.MustCompile(`^[+-]?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?$`)

func decimal(s string) (*big.Rat, bool) {
	if !decimals.MatchString(s) {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}

// stamps are the layouts of a date and time: RFC 3339, with a space for the T, without seconds, or with an offset without a colon.
var stamps = []string{
	time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999Z0700", "2006-01-02 15:04:05.999999999Z0700", "2006-01-02T15:04Z07:00",
	time.DateOnly,
}

// offset is where a date and time ends, and what is behind the point of its seconds: of more digits than these time.Parse takes the first ones.
var offset = regexp.MustCompile(`^[^.,]*([.,][0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])$`)

// zoneName is how Java writes the name of a zone behind an offset.
var zoneName = regexp.MustCompile(`^(.*(?:[Zz]|[+-][0-9:]{2,5}))\[[A-Za-z0-9._/+-]{1,62}\]$`)

// stamp is one of them. A date is its midnight in UTC.
func stamp(v []byte) (millis int64, ok bool) {
	said := text(v)
	if named := zoneName.FindStringSubmatch(said); named != nil {
		said = named[1]
	}
	for _, layout := range stamps {
		if t, err := time.Parse(layout, said); err == nil {
			millis = t.Add(time.Millisecond - 1).UnixMilli()
			return millis, millis >= 1e11 && millis < 1e14 && (layout == time.DateOnly || offset.MatchString(said))
		}
	}
	return 0, false
}

// plainMillis is a number of milliseconds.
func plainMillis(v []byte, _ int64) (millis int64, ok bool) {
	if n, binary := asBinary(v); binary {
		letters := bytes.TrimRight(v, "\x00")
		return n, max(n, -n) < longestMillis && (len(letters) == len(v) || len(letters) < 2 || !isText(letters)) // else it may be text that C has ended
	}
	exact, ok := decimal(text(v))
	if !ok || new(big.Rat).Abs(exact).Cmp(new(big.Rat).SetInt64(longestMillis)) >= 0 {
		return 0, false
	}
	return ceil(exact), true
}

// longestMillis is 292 years. What is longer is no delay, and binary may then be little-endian.
const longestMillis = int64(math.MaxInt64 / int64(time.Millisecond))

var (
	unitLengths = map[string]time.Duration{
		"ns": 1, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "ms": time.Millisecond,
		"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
	}
	goParts  = regexp.MustCompile(`([0-9]+(?:\.[0-9]*)?)([a-zµμ]+)`)
	goWhole  = regexp.MustCompile(`^-?([0-9]+(\.[0-9]*)?[a-zµμ]+)+$`)
	goSpaces = regexp.MustCompile(`([0-9]) +([a-zµμ])|([a-zµμ]) +([0-9])`)
	clock    = regexp.MustCompile(`^(-?)([0-9]{1,9}):([0-5][0-9]):([0-5][0-9](?:\.[0-9]{1,40})?)$`)
	isoWhole = regexp.MustCompile(`^(-?)P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$`)
)

// goSpan is as Go writes durations, with days and weeks, and with spaces beside units or none: 1h30m, 2d, 5 s.
func goSpan(v []byte, _ int64) (millis int64, ok bool) {
	s := goSpaces.ReplaceAllString(text(v), "$1$3$2$4")
	if !goWhole.MatchString(s) {
		return 0, false
	}
	sum := new(big.Rat)
	for _, part := range goParts.FindAllStringSubmatch(s, -1) {
		unit, known := unitLengths[part[2]]
		if !known || !add(sum, part[1], unit) {
			return 0, false
		}
	}
	return inMillis(sum, strings.HasPrefix(s, "-"))
}

// isoSpan is as ISO 8601 writes durations. Months and years are those of the calendar, in UTC.
func isoSpan(v []byte, from int64) (millis int64, ok bool) {
	s := strings.ToUpper(text(v))
	part := isoWhole.FindStringSubmatch(s)
	if part == nil || strings.HasSuffix(s, "T") || strings.HasSuffix(s, "P") {
		return 0, false
	}
	sum := new(big.Rat)
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if digits := part[4+i]; digits != "" && !add(sum, digits, unit) {
			return 0, false
		}
	}
	years, _ := strconv.Atoi(part[2])
	months, _ := strconv.Atoi(part[3])
	if years+months > 0 {
		if part[1] == "-" || years > 290 || months > 290*12 {
			return 0, false
		}
		begin := time.UnixMilli(from).UTC()
		sum.Add(sum, new(big.Rat).SetInt64(begin.AddDate(years, months, 0).Sub(begin).Nanoseconds()))
	}
	return inMillis(sum, part[1] == "-")
}

// clockSpan is hours:minutes:seconds.
func clockSpan(v []byte, _ int64) (millis int64, ok bool) {
	part := clock.FindStringSubmatch(text(v))
	if part == nil {
		return 0, false
	}
	sum := new(big.Rat)
	ok = add(sum, part[2], time.Hour) && add(sum, part[3], time.Minute) && add(sum, part[4], time.Second)
	if !ok {
		return 0, false
	}
	return inMillis(sum, part[1] == "-")
}

// add adds so many of a unit, in ns.
func add(sum *big.Rat, digits string, unit time.Duration) bool {
	n, ok := decimal(strings.TrimSuffix(digits, "."))
	if ok {
		sum.Add(sum, n.Mul(n, new(big.Rat).SetInt64(int64(unit))))
	}
	return ok
}

// inMillis rounds up. What is longer than 292 years is not read.
func inMillis(nanos *big.Rat, negative bool) (millis int64, ok bool) {
	if nanos.Cmp(new(big.Rat).SetInt64(math.MaxInt64)) >= 0 {
		return 0, false
	}
	if negative {
		nanos.Neg(nanos)
	}
	return ceil(nanos.Mul(nanos, power(-6))), true
}

// text is a value without the spaces around it.
func text(v []byte) string { return strings.TrimSpace(string(v)) }

// asBinary reads up to eight bytes big-endian, as Java's LongSerializer and BigInteger write them, where they cannot be text.
func asBinary(v []byte) (n int64, ok bool) {
	if len(v) == 0 || len(v) > 8 || utf8.Valid(v) && !strings.ContainsFunc(string(v), unicode.IsControl) {
		return 0, false
	}
	n = int64(int8(v[0]))
	for _, c := range v[1:] {
		n = n<<8 | int64(c)
	}
	return n, true
}

func ceilMillis(d time.Duration) int64 { return ceilDiv(int64(d), 1e6) }

func ceilDiv(n, by int64) int64 {
	q := n / by
	if n%by > 0 {
		q++
	}
	return q
}
