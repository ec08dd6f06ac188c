package topics

import "bytes"

var errZeros = unparsable("it is text with a zero byte behind it, as C ends a string: leave that out")

// endsInZeros tells text that reads as a delay, and has zero bytes behind it, from an integer, which it would be as well: of days or years. An
// integer of which the same is true is a rare one, and one of less than three digits is taken for what it is.
func endsInZeros(b []byte) bool {
	text := bytes.TrimRight(b, "\x00")
	return len(text) < len(b) && isText(text) && saysSpan(text)
}

// saysSpan tells text that reads as a delay from bytes that happen to be letters: one or two digits are taken for such.
func saysSpan(text []byte) bool {
	if _, ok := parseDecimal(text); ok {
		return len(text) > 2
	}
	_, _, f := parseSpan(text)
	return f.code == ""
}

var errWide = unparsable("it is text in UTF-16, two bytes a character: write it in UTF-8")

// isWide tells text in UTF-16 that reads as a delay from an integer, which it would be as well: one below 0, so due at once, where it begins with a byte
// order mark, and else of days or years. Big-endian without a mark, two characters are not told apart: there an integer of about an hour looks the same.
func isWide(b []byte) bool {
	high, least := 1, 2 // where the zero bytes are, little-endian as Windows has it
	marked := bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff"))
	switch {
	case marked && b[0] == 0xfe, !marked && len(b) > 0 && b[0] == 0:
		high, least = 0, 3
	}
	if marked {
		b, least = b[2:], 1
	}
	if len(b)%2 != 0 || len(b) < 2*least {
		return false
	}
	for i := high; i < len(b); i += 2 {
		if b[i] != 0 {
			return false
		}
	}
	text := make([]byte, 0, len(b)/2)
	for i := 1 - high; i < len(b); i += 2 {
		text = append(text, b[i])
	}
	return isText(text) && saysSpan(text)
}
