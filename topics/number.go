package topics

import (
	"fmt"
	"math/bits"
	"strings"
)

// decimal is a number as people and libraries write it: digits, a point, an
// exponent. No float64, which would lose milliseconds of nanoseconds.
//
// The magnitude is mant × 10^exp, and a little above that when more is set:
// digits beyond the nineteenth only count for rounding up.
type decimal struct {
	mant uint64 // below 1e19
	exp  int
	neg  bool
	more bool
}

// parseDecimal takes [+-] digits [. digits] [e [+-] digits], with a digit on at
// least one side of the point. Its time is linear in the length and the
// exponent saturates, so 1e999999999 is merely large.
func parseDecimal(b []byte) (d decimal, ok bool) {
	i := 0
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		d.neg = b[0] == '-'
		i = 1
	}
	digits, point := false, false
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case c >= '0' && c <= '9':
			digits = true
			if d.mant < 1e18 {
				d.mant = d.mant*10 + uint64(c-'0')
				if point {
					d.exp--
				}
				continue
			}
			d.more = d.more || c != '0'
			if !point {
				d.exp++
			}
			continue
		case c == '.' && !point:
			point = true
			continue
		}
		break
	}
	if !digits {
		return decimal{}, false
	}
	if i == len(b) {
		return d, true
	}
	e, ok := parseExponent(b[i:])
	d.exp += e
	return d, ok
}

// maxExponent is far beyond any number that is in range.
const maxExponent = 1 << 20

// parseExponent takes e [+-] digits.
func parseExponent(b []byte) (e int, ok bool) {
	if b[0] != 'e' && b[0] != 'E' {
		return 0, false
	}
	b = b[1:]
	neg := false
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		neg = b[0] == '-'
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		e = min(e*10+int(c-'0'), maxExponent)
	}
	if neg {
		e = -e
	}
	return e, true
}

// size counts the digits before the point: the magnitude is at least
// 10^(size-1) and below 10^size. It is 0 for zero and below one.
func (d decimal) size() int {
	if d.mant == 0 {
		return 0
	}
	n := bits.Len64(d.mant) * 1233 >> 12 // log10(2) is 1233/4096 nearly, so that it is the number of digits or one less
	if d.mant >= powers[n] {
		n++
	}
	return max(n+d.exp, 0)
}

// ceil returns the magnitude times 10^shift, rounded up to an integer, and
// false when it has more than 18 digits.
func (d decimal) ceil(shift int) (int64, bool) {
	if d.mant == 0 {
		return 0, true
	}
	if d.size()+shift > 18 {
		return 0, false
	}
	e := d.exp + shift
	if e >= 0 {
		return int64(d.mant * powers[e]), true
	}
	if -e >= len(powers) {
		return 1, true
	}
	n := d.mant / powers[-e]
	if d.more || d.mant%powers[-e] != 0 {
		n++
	}
	return int64(n), true
}

// until reads an epoch time. Where nothing tells its unit that follows from its size, and no instant of
// this century is ambiguous: 1e11 s is the year 5138, and 1e11 ms is 1973.
func (d decimal) until(u unit) (due int64, form Form, f fault) {
	n, bySize := d.size(), u == unitBySize
	switch {
	case !bySize:
		n -= 3 - u.shift() // as many digits as it has in seconds
		if d.neg || n < 9 || n > 11 {
			return 0, 0, outOfRange("in the unit that belongs to it the due time is not between 1973 and the year 5138")
		}
	case d.neg || n < 9:
		return 0, 0, outOfRange("epoch times begin at 1e8 s, in 1973, and a delay belongs in delay-for")
	case n < 12:
		u = unitSeconds
	case n < 15:
		u = unitMillis
	case n < 18:
		u = unitMicros
	case n < 21:
		u = unitNanos
	default:
		return 0, 0, outOfRange("the due time is beyond the year 5138")
	}
	due, _ = d.ceil(u.shift()) // below 1e14, or 1e14 by rounding
	if bySize && u != unitSeconds && isYear9999(due) {
		return 0, 0, errYear9999
	}
	return due, formOf(u), fault{}
}

// isYear9999 tells whether ms since 1970 are a time of the year 9999 if they are seconds. Programs write that for "never"; its ms look like µs of January 1978,
// and so on, so what was meant never to be due would be due at once.
func isYear9999(n int64) bool {
	const begins, ends = 253_370_764_800, 253_402_300_800 // in seconds
	return begins <= n && n <= ends                       // rounded up
}

var errYear9999 = outOfRange("it is a time of the year 9999, as programs write never, or in a smaller unit of January 1978: due times end in 5138, and what is to expire never does not say when")

// readings lists what the digits would be in each unit, for a message.
func (d decimal) readings() string {
	if d.neg {
		return ""
	}
	var s strings.Builder
	for _, u := range [...]struct {
		name  string
		shift int // from the unit to ms
		times int64
	}{{"days", 5, 864}, {"s", 3, 1}, {"ms", 0, 1}, {"µs", -3, 1}, {"ns", -6, 1}} {
		if n, ok := d.ceil(u.shift); ok && n <= maxDueMillis/u.times {
			fmt.Fprintf(&s, "; in %s it is %s", u.name, format(n*u.times))
		}
	}
	return s.String()
}

// powers of ten that fit in a uint64.
var powers = [...]uint64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
	1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
}
