package check

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Converters put quotes around a value, or an envelope with its schema, and write null for none.

// plain is a value without what is around it: empty if the header is as good as absent. What has nothing around it is as it is, white space
// included.
func plain(v []byte) []byte {
	inside, _ := unwrapped(v)
	return inside
}

// schema says of the payload of an envelope what it is.
type schema struct{ name, scale string }

// member is one of a JSON object; its name is as it is written, where encoding/json takes it in any case.
func member(object []byte, name string) json.RawMessage {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(object, &all) // what is none has none
	return all[name]
}

// textOf is a JSON string; empty where it is none.
func textOf(v json.RawMessage) (text string) {
	_ = json.Unmarshal(v, &text)
	return text
}

// unwrapped is plain, and the schema in an envelope that has one: then the payload alone does not say what it is.
func unwrapped(v []byte) (inside []byte, is schema) {
	if len(v) == 0 || !strings.ContainsRune("\"{n \t\r\n", rune(v[0])) || !isText(v) {
		return v, is
	}
	inside = v
	for quoted := false; ; quoted = true {
		s := strings.Trim(string(inside), " \t\r\n")
		var text string
		switch {
		case s == "null":
			return nil, is
		case strings.HasPrefix(s, `"`) && json.Unmarshal([]byte(s), &text) == nil:
			inside = []byte(strings.Trim(text, " \t\r\n"))
		case strings.HasPrefix(s, "{") && !quoted:
			return enveloped(v, s)
		default:
			return inside, is
		}
	}
}

// enveloped reads what Connect's JsonConverter writes with schemas; what is none is as it is.
func enveloped(v []byte, s string) (inside []byte, is schema) {
	var e map[string]json.RawMessage
	if json.Unmarshal([]byte(s), &e) != nil || len(e["payload"]) == 0 {
		return v, is
	}
	is = schema{textOf(member(e["schema"], "name")), textOf(member(member(e["schema"], "parameters"), "scale"))}
	var text string
	switch payload := bytes.TrimSpace(e["payload"]); {
	case string(payload) == "null":
		return nil, is
	case payload[0] == '{', payload[0] == '[':
		return v, schema{}
	case json.Unmarshal(payload, &text) == nil:
		return []byte(strings.Trim(text, " \t\r\n")), is
	default:
		return payload, is
	}
}

// Powers of ten from the numbers of a schema to ms.
var (
	instantsOf = map[string]int{"org.apache.kafka.connect.data.Timestamp": 0, "io.debezium.time.Timestamp": 0, "io.debezium.time.MicroTimestamp": -3, "io.debezium.time.NanoTimestamp": -6}
	spansOf    = map[string]int{"org.apache.kafka.connect.data.Time": 0, "io.debezium.time.Time": 0, "io.debezium.time.MicroTime": -3, "io.debezium.time.MicroDuration": -3,
		"io.debezium.time.NanoTime": -6, "io.debezium.time.NanoDuration": -6}
)

// inTime is plain for an instant, or for a length of time: a number whose schema says what it is in ms. One that is of the other kind, or out of
// range, is left in its envelope, which no form reads.
func inTime(v []byte, span bool) []byte {
	inside, is := unwrapped(v)
	if isText(v) && !isText(inside) { // what is written as text is no binary number
		return v
	}
	if len(inside) == 0 || is.name == "" {
		return inside
	}
	if is.name == "org.apache.kafka.connect.data.Decimal" {
		if n, ok := unscaled(inside, is.scale); ok {
			return n
		}
		return inside
	}
	exponent, instant := instantsOf[is.name]
	shift, length := spansOf[is.name]
	number, ok := decimal(string(inside))
	switch {
	case is.date():
		instant, exponent = true, 0
		if ok {
			number.Mul(number, new(big.Rat).SetInt64(24*time.Hour.Milliseconds()))
		}
	case length:
		exponent = shift
	case !instant:
		return inside
	}
	switch {
	case !ok && (is.date() || instant && !span || length && span && shift == 0):
		return inside // it is written out, and has no unit
	case !ok, instant == span:
		return v
	}
	number.Mul(number, power(exponent))
	if instant && (number.Cmp(power(11)) < 0 || number.Cmp(power(14)) >= 0) {
		return v
	}
	return []byte(number.FloatString(18))
}

// date tells whether it is a number of days since 1970, and instant, whether it is a number that says its unit.
func (is schema) date() bool {
	return is.name == "org.apache.kafka.connect.data.Date" || is.name == "io.debezium.time.Date"
}

func (is schema) instant() bool {
	_, dated := instantsOf[is.name]
	return dated || is.date()
}

// unscaled is the number of a Connect Decimal, whose payload is the base64 of a big-endian integer.
func unscaled(payload []byte, scale string) ([]byte, bool) {
	b, err := base64.StdEncoding.DecodeString(string(payload))
	digits, noScale := strconv.Atoi(scale)
	if err != nil || noScale != nil || len(b) == 0 || len(b) > 8 || digits < -18 || digits > 18 {
		return nil, false
	}
	n := int64(int8(b[0]))
	for _, c := range b[1:] {
		n = n<<8 | int64(c)
	}
	exact := new(big.Rat).SetInt64(n)
	return []byte(exact.Mul(exact, power(-digits)).FloatString(18)), true
}

// isText tells text from binary.
func isText(v []byte) bool {
	return utf8.Valid(v) && !strings.ContainsFunc(string(v), func(r rune) bool {
		return r <= unicode.MaxASCII && unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r)
	})
}
