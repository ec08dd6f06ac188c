package topics

import "strconv"

// reference is the value of an internal header: a topic id, so that nothing of
// ours is believed in another topic, an offset there, and two more numbers. As
// text:
//
//	<first 4 bytes of the topic id, 8 hex>:<offset>:<b>:<c>
//
// Invariant: no number is negative, but for -1 in b, which is how Kafka writes
// a timestamp that is missing.
type reference struct {
	topicID      [4]byte
	offset, b, c int64
}

func (r reference) appendTo(b []byte) []byte {
	const hex = "0123456789abcdef"
	for _, x := range r.topicID {
		b = append(b, hex[x>>4], hex[x&15])
	}
	for _, n := range [...]int64{r.offset, r.b, r.c} {
		b = append(b, ':')
		b = strconv.AppendInt(b, n, 10)
	}
	return b
}

// parseReference takes exactly what appendTo writes.
func parseReference(b []byte) (r reference, ok bool) {
	if len(b) < 8 {
		return reference{}, false
	}
	for i := range r.topicID {
		high, low := unhex(b[2*i]), unhex(b[2*i+1])
		if high > 15 || low > 15 {
			return reference{}, false
		}
		r.topicID[i] = high<<4 | low
	}
	rest := b[8:]
	for i, n := range [...]*int64{&r.offset, &r.b, &r.c} {
		if len(rest) == 0 || rest[0] != ':' {
			return reference{}, false
		}
		end := 1
		for end < len(rest) && rest[end] != ':' {
			end++
		}
		digits := rest[1:end]
		rest = rest[end:]
		if i == 1 && string(digits) == "-1" {
			*n = -1
			continue
		}
		if *n, ok = parseCount(digits); !ok || digits[0] == '0' && len(digits) > 1 {
			return reference{}, false
		}
	}
	return r, len(rest) == 0
}

// unhex returns the value of a lower-case digit, or more than 15.
func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 16
}

// parseCount reads a decimal number that is not negative: digits only.
func parseCount(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
		if n < 0 {
			return 0, false // 19 digits overflow into the sign
		}
	}
	return n, true
}
