package topics

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"
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
func parseUntil(raw []byte) (due int64, f fault) {
	if !isText(raw) {
		n, f := parseBinary(raw)
		if f.code != "" {
			return 0, f
		}
		return untilInteger(n)
	}
	text := trim(raw)
	if d, ok := parseDecimal(text); ok {
		return d.until()
	}
	return parseInstant(text)
}

// parseFor reads a delay that counts from base, the record's timestamp.
func parseFor(raw []byte, base int64) (due int64, f fault) {
	if !isText(raw) {
		n, f := parseBinary(raw)
		if f.code != "" {
			return 0, f
		}
		if n > maxDelayMillis || n < -maxDelayMillis {
			return 0, outOfRange("the delay is more than 292 years")
		}
		return after(base, n)
	}
	text := trim(raw)
	if d, ok := parseDecimal(text); ok {
		n, ok := d.ceil(0)
		if !ok || n > maxDelayMillis {
			return 0, outOfRange("the delay is more than 292 years")
		}
		if d.neg {
			n = 0
		}
		return after(base, n)
	}
	span, f := parseSpan(text)
	if f.code != "" {
		return 0, f
	}
	return span.after(base)
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

// parseBinary reads what serializers of long integers write.
func parseBinary(b []byte) (int64, fault) {
	if len(b) != 8 {
		return 0, unparsable("the value is not text, and not an integer of 8 bytes, big-endian, either")
	}
	return int64(binary.BigEndian.Uint64(b)), fault{}
}

// untilInteger takes binary seconds and milliseconds only. A little-endian
// number reads as a huge big-endian one, so among microseconds and nanoseconds
// it could not be told apart, and might be due in the past: those must be text.
func untilInteger(n int64) (int64, fault) {
	switch {
	case n < minDueMillis/1000 || n >= maxDueMillis:
		return 0, outOfRange("as a big-endian integer the value is no epoch time in seconds or milliseconds")
	case n < maxDueMillis/1000:
		return n * 1000, fault{}
	}
	return n, fault{}
}

// hint adds to a refusal what the bytes may have been meant to be. It is called
// for refused records only.
func hint(header string, raw []byte) string {
	if !isText(raw) {
		if len(raw) != 8 {
			return ""
		}
		little := int64(binary.LittleEndian.Uint64(raw))
		if header == HeaderFor && little > 0 && little < maxDelayMillis {
			return fmt.Sprintf("; as a little-endian one it is %d ms", little)
		}
		if due, f := untilInteger(little); header == HeaderUntil && f.code == "" {
			return "; as a little-endian one it is " + format(due)
		}
		return ""
	}
	text := trim(raw)
	if d, ok := parseDecimal(text); ok && header == HeaderUntil {
		return d.readings()
	}
	return looksLike(string(text[:min(len(text), maxShown)]))
}

// looksLike names the usual wrong forms of a time.
func looksLike(text string) string {
	bare := strings.Trim(text, `"`)
	switch {
	case len(bare) == 12 && bare[11] == '=' && base64Bytes(bare[:11]):
		return "; it looks like base64, which Connect makes of bytes: give it text or a number"
	case strings.HasPrefix(text, "java."):
		return "; it is the name of a Java object: give the converter text or a number"
	case javaDate(text):
		return "; it is how Java and JavaScript print a date: use their ISO form or epoch milliseconds"
	case bare != text:
		return "; it is quoted: write it without the quotes"
	case strings.HasPrefix(text, "{"):
		return "; it is JSON: write the bare value"
	}
	return ""
}

func base64Bytes(s string) bool {
	for i := range len(s) {
		if c := s[i]; !topicByte(c) && c != '+' && c != '/' {
			return false
		}
	}
	return true
}

// javaDate: "Thu Jan 01 00:00:05 UTC 2026" and "Thu Jan 01 2026 00:00:05 GMT…".
func javaDate(s string) bool {
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
