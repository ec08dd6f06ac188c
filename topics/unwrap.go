package topics

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
)

// content is what a header says once it is out of what converters put around it: the quotes of a
// JSON string, and the envelope of Connect's JsonConverter with schemas, which tells the unit of a number.
type content struct {
	b    []byte // empty: the header is absent
	wrap Wrap
	unit unit
	is   meaning
}

// Wrap is what was around the value of a header.
type Wrap uint8

// What may be around a value.
const (
	Unwrapped  Wrap = iota
	InQuotes        // it is a JSON string
	InEnvelope      // it is a JSON object with a schema and a payload, as Connect's JsonConverter writes
)

var wrapNames = [...]string{"", "in JSON quotes", "in an envelope of Connect's JsonConverter"}

func (w Wrap) String() string { return wrapNames[w] }

// unit is that of an epoch time, where it is known. It is the power of ten from it to ms, and one more.
type unit int8

const (
	unitBySize  unit = 0
	unitSeconds unit = 4
	unitMillis  unit = 1
	unitMicros  unit = -2
	unitNanos   unit = -5
)

func (u unit) shift() int { return int(u) - 1 }

// meaning is what a schema says a number is.
type meaning uint8

const (
	meansAny meaning = iota
	meansInstant
	meansSpan
)

// mostEnvelope bounds what is read as an envelope: with the longest names there are, it has some 400 bytes.
const mostEnvelope = 4096

// open takes a value out of what is around it. Text without quotes or braces, and what is not text, is
// given back as it is, and so is what is no proper JSON.
func open(raw []byte) content {
	if len(raw) == 0 {
		return content{}
	}
	switch raw[0] {
	case '"', '{', 'n', ' ', '\t', '\r', '\n':
		return unwrap(raw)
	}
	return content{b: raw}
}

// bare is open for a value that is no time.
func bare(raw []byte) []byte { return open(raw).b }

// Bare is the value of a header that is no time, out of quotes and envelope: an id or a handle; empty when it is absent.
func Bare(raw []byte) []byte { return bare(raw) }

func unwrap(raw []byte) content {
	c := content{b: raw}
	if !isText(raw) {
		return c
	}
	for v := trim(raw); ; v = c.b {
		switch {
		case len(v) == 0:
			return c // nothing in quotes, or else white space, which is for the reader to judge
		case v[0] == '"':
			text, ok := unquote(v)
			if !ok {
				return c
			}
			if c.b = text; c.wrap == Unwrapped {
				c.wrap = InQuotes
			}
		case v[0] == '{' && c.wrap == Unwrapped:
			return openEnvelope(raw, v)
		case string(v) == "null":
			c.b = nil
			return c
		default:
			return c
		}
	}
}

// unquote reads a JSON string. One without escapes is not copied. In quotes again, as a string of a string, it
// is shorter each time.
func unquote(v []byte) ([]byte, bool) {
	if len(v) < 2 || v[len(v)-1] != '"' {
		return nil, false
	}
	plain := v[1 : len(v)-1]
	for _, c := range plain {
		if c != '\\' && c != '"' && c >= ' ' {
			continue
		}
		var text string
		if json.Unmarshal(v, &text) != nil {
			return nil, false
		}
		return trim([]byte(text)), true
	}
	return trim(plain), true
}

// openEnvelope reads v, which is raw without white space, as an envelope: what JsonConverter writes with schemas.enable.
func openEnvelope(raw, v []byte) content {
	as := content{b: raw}
	var schema, payload []byte
	if len(v) > mostEnvelope || !members(v, func(key, value []byte) {
		switch string(key) {
		case "schema":
			schema = value
		case "payload":
			payload = value
		}
	}) || len(payload) == 0 || payload[0] == '{' || payload[0] == '[' {
		return as
	}
	c := content{b: payload, wrap: InEnvelope}
	if string(c.b) == "null" {
		c.b = nil
		return c
	}
	if payload[0] == '"' {
		text, ok := unquote(payload)
		if !ok {
			return as
		}
		c.b = text
	}
	return c.by(schema)
}

// members calls each with the members of a JSON object, keys without their quotes and values as they are. It reports whether v is one, as far as
// that needs to be known: what is in a value is for its reader to judge. Its time is linear.
func members(v []byte, each func(key, value []byte)) bool {
	if len(v) == 0 || v[0] != '{' {
		return false
	}
	for v = trim(v[1:]); ; v = trim(v[1:]) {
		n := valueEnd(v)
		if n < 2 || v[0] != '"' {
			return false
		}
		key := v[1 : n-1]
		if v = trim(v[n:]); len(v) == 0 || v[0] != ':' {
			return false
		}
		v = trim(v[1:])
		if n = valueEnd(v); n == 0 {
			return false
		}
		each(key, v[:n])
		if v = trim(v[n:]); len(v) == 1 && v[0] == '}' {
			return true
		}
		if len(v) == 0 || v[0] != ',' {
			return false
		}
	}
}

// valueEnd is the length of the JSON value that v begins with; 0 where it does not end.
func valueEnd(v []byte) int {
	depth := 0
	for i := 0; i < len(v); i++ {
		switch marks[v[i]] {
		case markNone:
			continue
		case markQuote:
			n := stringEnd(v[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case markOpen:
			depth++
		case markClose:
			if depth == 0 {
				return i
			}
			depth--
		case markBetween:
			if depth == 0 {
				return i
			}
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return 0
}

// stringEnd is the length of the JSON string that v begins with; 0 where it does not end.
func stringEnd(v []byte) int {
	for i := 1; i < len(v); i++ {
		switch v[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return 0
}

// mark is what a byte of JSON is that is no part of a string, number or word.
type mark uint8

const (
	markNone mark = iota
	markQuote
	markOpen
	markClose
	markBetween // values
)

var marks = [256]mark{'"': markQuote, '{': markOpen, '[': markOpen, '}': markClose, ']': markClose, ',': markBetween, ':': markBetween,
	' ': markBetween, '\t': markBetween, '\r': markBetween, '\n': markBetween}

// by applies what a schema says of the payload.
func (c content) by(schema []byte) content {
	var name, scale []byte
	members(schema, func(key, value []byte) {
		switch string(key) {
		case "name":
			name, _ = unquote(value)
		case "parameters":
			members(value, func(key, value []byte) {
				if string(key) == "scale" {
					scale, _ = unquote(value)
				}
			})
		}
	})
	instant := func(u unit) content { c.is, c.unit = meansInstant, u; return c }
	span := func(exponent string) content { c.is, c.b = meansSpan, join(c.b, exponent); return c }
	switch string(name) {
	case "org.apache.kafka.connect.data.Timestamp", "io.debezium.time.Timestamp":
		return instant(unitMillis)
	case "io.debezium.time.MicroTimestamp":
		return instant(unitMicros)
	case "io.debezium.time.NanoTimestamp":
		return instant(unitNanos)
	case "org.apache.kafka.connect.data.Date", "io.debezium.time.Date":
		days, err := strconv.ParseInt(string(c.b), 10, 32)
		if err != nil {
			return c
		}
		c.b = strconv.AppendInt(nil, days*24*60*60, 10)
		return instant(unitSeconds)
	case "org.apache.kafka.connect.data.Time", "io.debezium.time.Time":
		return span("")
	case "io.debezium.time.MicroTime", "io.debezium.time.MicroDuration":
		return span("e-3")
	case "io.debezium.time.NanoTime", "io.debezium.time.NanoDuration":
		return span("e-6")
	case "org.apache.kafka.connect.data.Decimal":
		if n, ok := unscaled(c.b); ok {
			if digits, err := strconv.ParseInt(string(scale), 10, 16); err == nil {
				c.b = strconv.AppendInt(append(strconv.AppendInt(nil, n, 10), 'e'), -digits, 10)
			}
		}
	}
	return c
}

// join is b with text behind it, in memory of its own.
func join(b []byte, text string) []byte { return append(b[:len(b):len(b)], text...) }

// unscaled reads the integer of a Connect Decimal: base64 of a big-endian integer in two's complement.
func unscaled(text []byte) (int64, bool) {
	var b [12]byte
	if len(text) > base64.StdEncoding.EncodedLen(8) {
		return 0, false
	}
	n, err := base64.StdEncoding.Decode(b[:], text)
	if err != nil || n < 1 || n > 8 {
		return 0, false
	}
	return bigEndian(b[:n]), true
}
