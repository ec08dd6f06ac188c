package topics

import "strconv"

// reference is the value of an internal header: a topic id, so that nothing of
// ours is believed in another topic, and three numbers. As text:
//
//	<first 4 bytes of the topic id, 8 hex>:<a>:<b>:<c>
//
// Invariant: a, b and c are not negative.
type reference struct {
	topicID [4]byte
	a, b, c int64
}

func (r reference) appendTo(b []byte) []byte {
	const hex = "0123456789abcdef"
	for _, x := range r.topicID {
		b = append(b, hex[x>>4], hex[x&15])
	}
	for _, n := range [...]int64{r.a, r.b, r.c} {
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
	for _, n := range [...]*int64{&r.a, &r.b, &r.c} {
		if len(rest) == 0 || rest[0] != ':' {
			return reference{}, false
		}
		end := 1
		for end < len(rest) && rest[end] != ':' {
			end++
		}
		if *n, ok = parseCount(rest[1:end]); !ok || rest[1] == '0' && end > 2 {
			return reference{}, false
		}
		rest = rest[end:]
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
