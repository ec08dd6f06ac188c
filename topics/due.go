package topics

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Due times and delays outside these are refused: they are units mixed up, or
// fields that were never set, and to clamp them would hide it.
const (
	minDueMillis = 1e11 // 1973-03-03T09:46:40Z; smaller numbers are epoch days and the like
	maxDueMillis = 1e14 // 5138-11-16T09:46:40Z; 1e11 s, where seconds end and milliseconds begin

	maxDelayMillis = math.MaxInt64/int64(time.Millisecond) + 1 // 292 years: what a time.Duration rounds up to
)

// parseUntil reads an absolute due time.
func parseUntil(c content) (due int64, form Form, f fault) {
	if c.is == meansSpan {
		return 0, 0, unparsable("its schema says that it is a length of time, and no instant")
	}
	if !isText(c.b) {
		if c.wrap != Unwrapped {
			return 0, 0, errInstant
		}
		return untilBinary(c.b, c.unit)
	}
	text := trim(c.b)
	if len(text) == 13 {
		if due, ok := millisOf(text); ok && c.unit == unitBySize {
			return due, FormMillis, fault{}
		}
	}
	if d, ok := parseDecimal(text); ok {
		due, form, f = d.until(c.unit)
		if f.code == "" && c.is == meansInstant {
			form = FormSchema
		}
		return due, form, f
	}
	return parseInstant(text)
}

// ReadInstant reads an instant as delay-until has it, in ms since the epoch, rounded up. The error is a *Refusal.
func ReadInstant(raw []byte) (int64, error) {
	millis, _, f := parseUntil(open(raw))
	if f.code != "" {
		return 0, refuse(f.code, StageParse, "", raw, "%s%s", f.why, hintOfText(true, raw))
	}
	return millis, nil
}

// millisOf reads what nearly all due times are: thirteen digits, which are ms from 2001 to 2286.
func millisOf(text []byte) (n int64, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n >= 1e12
}

// parseFor reads a delay that counts from base, the record's timestamp.
func parseFor(c content, base int64) (due int64, form Form, f fault) {
	if c.is == meansInstant {
		return 0, 0, unparsable("its schema says that it is an instant, and no length of time")
	}
	if !isText(c.b) {
		if c.wrap != Unwrapped {
			return 0, 0, errSpan
		}
		n, form, f := forBinary(c.b)
		if f.code == "" {
			due, f = after(base, n)
		}
		return due, form, f
	}
	text := trim(c.b)
	if d, ok := parseDecimal(text); ok {
		if c.is != meansSpan && isJacksonDuration(text) {
			return 0, 0, errJackson
		}
		n, ok := d.ceil(0)
		if !ok || n > maxDelayMillis {
			return 0, 0, errSpanRange
		}
		if form = FormDelayMillis; c.is == meansSpan {
			form = FormSchema
		}
		if d.neg {
			n = 0
		}
		due, f = after(base, n)
		return due, form, f
	}
	span, form, f := parseSpan(text)
	if f.code != "" {
		return 0, 0, f
	}
	due, f = span.after(base)
	return due, form, f
}

var errJackson = unparsable("with nine decimals it is how Jackson writes a Duration, in seconds, and a number here is milliseconds: write whole milliseconds, as toMillis() has them, or toString() like PT5M")

// isJacksonDuration tells a Duration as Jackson writes it, and so Spring: seconds with nine decimals. No language writes a floating point number with a
// zero at its end. Of other ends hardly any floating point number has just nine decimals as long as five digits stand before them: at most one of 70 that
// are random, and with four one of 700. With six it is one of nine, so that is taken for milliseconds.
func isJacksonDuration(number []byte) bool {
	const decimals, most = 9, 5
	point := len(number) - 1 - decimals
	if point <= 0 || number[point] != '.' || bytes.ContainsAny(number[point:], "eE") {
		return false
	}
	digits := len(bytes.TrimLeft(number[:point], "+-"))
	return digits > 0 && (digits <= most || number[len(number)-1] == '0')
}

// after adds a delay to a record's timestamp. A negative one is no delay.
func after(base, delay int64) (int64, fault) {
	if base < 0 || base > maxDueMillis {
		return 0, outOfRange("a delay counts from the record's timestamp, and this record's is missing or beyond the year 5138")
	}
	// 1 at least: a key of zeros is below every record.
	due := max(base+max(delay, 0), 1)
	if due > maxDueMillis {
		return 0, outOfRange("the due time is beyond the year 5138")
	}
	return due, fault{}
}

// isText tells text from binary. The eight bytes of an epoch in seconds or
// milliseconds always hold a zero byte, so such a number never passes for text;
// and digits never fail.
func isText(b []byte) bool {
	high := false
	for _, c := range b {
		switch {
		case c >= utf8.RuneSelf:
			high = true
		case c < ' ' && c != '\t' && c != '\n' && c != '\r', c == 0x7f:
			return false
		}
	}
	return !high || utf8.Valid(b)
}

// trim takes white space off both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && space(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && space(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

var errBinary = unparsable("the value is not text, and not an integer of 1 to 8 bytes either")

// bigEndian reads an integer of up to 8 bytes in two's complement, as serializers of integers and Java's BigInteger write it.
func bigEndian(b []byte) (n int64) {
	n = int64(int8(b[0]))
	for _, c := range b[1:] {
		n = n<<8 | int64(c)
	}
	return n
}

// littleEndian reads eight bytes as .NET and C write them on most machines; 0 when there are not eight.
func littleEndian(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(b))
}

// untilBinary takes binary seconds and milliseconds only. A little-endian
// number reads as a huge big-endian one, so among microseconds and nanoseconds
// it could not be told apart, and might be due in the past: those must be text.
func untilBinary(b []byte, u unit) (int64, Form, fault) {
	if len(b) < 1 || len(b) > 8 {
		return 0, 0, errBinary
	}
	if u == unitBySize && (isYear9999(bigEndian(b)) || isYear9999(littleEndian(b))) {
		return 0, 0, errYear9999
	}
	if due, ok := untilInteger(bigEndian(b), u); ok {
		return due, FormBinary, fault{}
	}
	if due, ok := untilInteger(littleEndian(b), u); ok {
		return due, FormLittleEndian, fault{}
	}
	return 0, 0, outOfRange("as an integer the value is no epoch time in seconds or milliseconds, neither big-endian nor little-endian")
}

func untilInteger(n int64, u unit) (int64, bool) {
	seconds := n < maxDueMillis/1000 && u != unitMillis || u == unitSeconds
	switch {
	case n < minDueMillis/1000 || n >= maxDueMillis:
		return 0, false
	case seconds && n > maxDueMillis/1000, !seconds && n < minDueMillis:
		return 0, false
	case seconds:
		return n * 1000, true
	}
	return n, true
}

// forBinary reads a delay in ms.
func forBinary(b []byte) (int64, Form, fault) {
	if isWide(b) {
		return 0, 0, errWide
	}
	if len(b) < 1 || len(b) > 8 {
		return 0, 0, errBinary
	}
	if endsInZeros(b) {
		return 0, 0, errZeros
	}
	if n := bigEndian(b); n <= maxDelayMillis && n >= -maxDelayMillis {
		return n, FormDelayBinary, fault{}
	}
	if n := littleEndian(b); n > 0 && n <= maxDelayMillis {
		return n, FormDelayLittleEndian, fault{}
	}
	return 0, 0, errSpanRange
}

// hint adds to a refusal what the bytes of a header may have been meant to be. It is called for refused records only.
func hint(until bool, raw []byte) string {
	meant := hintOfText(until, raw)
	if meant == "" && isFourLetters(raw) {
		return "; where it is an integer in binary, write eight bytes: four that are letters are text"
	}
	return meant
}

// isFourLetters tells an integer of four bytes that is text, as it seems: it begins as no number does, and is no word.
func isFourLetters(raw []byte) bool {
	return len(raw) == 4 && isText(raw) && !bytes.ContainsAny(raw[:1], "0123456789") && bytes.ContainsFunc(raw, func(r rune) bool { return !unicode.IsLetter(r) })
}

// hintOfText says what may have been meant, in a header or on a command line.
func hintOfText(until bool, raw []byte) string {
	c := open(raw)
	if !isText(c.b) {
		return floating(until, c.b)
	}
	text := trim(c.b)
	if d, ok := parseDecimal(text); ok && until {
		return d.readings()
	}
	if _, _, f := parseSpan(text); until && f.code == "" {
		return "; it is a length of time, such as delay-for takes, and here an instant is needed"
	}
	if _, _, f := parseInstant(text); !until && f.code == "" {
		return "; it is an instant, such as delay-until takes, and here a length of time is needed"
	}
	return looksLike(string(text[:min(len(text), maxShown)]))
}

// floating tells of eight bytes that are an instant if they are a floating point number.
func floating(until bool, b []byte) string {
	if len(b) != 8 || !until {
		return ""
	}
	for _, bits := range []uint64{binary.BigEndian.Uint64(b), binary.LittleEndian.Uint64(b)} {
		if f := math.Float64frombits(bits); f >= minDueMillis/1000 && f < maxDueMillis {
			return fmt.Sprintf("; it is the floating point number %.3f in binary: write an integer, or text", f)
		}
	}
	return ""
}

// looksLike names the usual wrong forms of a time.
func looksLike(text string) string {
	bracket := strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
	switch {
	case looksBase64(text):
		return "; it looks like base64, which Connect makes of bytes: give it text or a number"
	case strings.HasPrefix(text, "java."):
		return "; it is the name of a Java object: give the converter text or a number"
	case javaDate(text):
		return "; it is how Java and JavaScript print a date: use their ISO form or epoch milliseconds"
	case strings.Contains(text, " m=+"), strings.Contains(text, " m=-"):
		return "; it is how Go prints what has a reading of its monotonic clock: write UnixMilli(), or Round(0) before String()"
	case strings.HasPrefix(text, `"`):
		return "; it begins with a quote, and is no JSON string"
	case strings.HasPrefix(text, "[object "):
		return "; it is what JavaScript makes of an object as text: write a number or text"
	case bracket && json.Valid([]byte(text)):
		return "; it is JSON, and no envelope with schema and payload: write the bare value"
	case bracket:
		return "; it begins as JSON does, and is none, as what Java prints of a map or a list: write the bare value"
	}
	return ""
}

// looksBase64: four letters, digits, + or / at a time, of both cases and with a digit, or with = at its end.
func looksBase64(s string) bool {
	bare := strings.TrimRight(s, "=")
	if len(s) < 8 || len(s)%4 != 0 || len(s)-len(bare) > 2 {
		return false
	}
	var low, high, digit bool
	for i := range len(bare) {
		switch c := bare[i]; {
		case c >= 'a' && c <= 'z':
			low = true
		case c >= 'A' && c <= 'Z':
			high = true
		case c >= '0' && c <= '9', c == '+', c == '/':
			digit = true
		default:
			return false
		}
	}
	return len(bare) < len(s) || low && high && digit
}

// javaDate: "Thu Jan 01 00:00:05 UTC 2026", "Thu Jan 01 2026 00:00:05 GMT…" and "Thu, 01 Jan 2026 00:00:05 GMT".
func javaDate(s string) bool {
	if len(s) > 12 && s[3] == ',' {
		_, err := time.Parse("Mon, 02 Jan", s[:11])
		return err == nil
	}
	if len(s) < 8 || s[3] != ' ' || s[7] != ' ' {
		return false
	}
	_, err := time.Parse("Mon Jan", s[:7])
	return err == nil
}

// format prints an instant in a message.
func format(millis int64) string {
	return time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z")
}

// ceilMillis rounds a duration up to whole milliseconds.
func ceilMillis(d time.Duration) int64 {
	n := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		n++
	}
	return n
}
