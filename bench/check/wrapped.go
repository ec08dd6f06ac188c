package check

import (
	"bytes"
	"encoding/json"
	"strings"
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

// unwrapped is plain, and the name of the schema in an envelope that has one: then the payload alone does not say what it is.
func unwrapped(v []byte) (inside []byte, schema string) {
	if len(v) == 0 || !strings.ContainsRune("\"{n \t\r\n", rune(v[0])) || !isText(v) {
		return v, ""
	}
	inside = v
	for quoted := false; ; quoted = true {
		s := strings.Trim(string(inside), " \t\r\n")
		var text string
		switch {
		case s == "null":
			return nil, ""
		case strings.HasPrefix(s, `"`) && json.Unmarshal([]byte(s), &text) == nil:
			inside = []byte(strings.Trim(text, " \t\r\n"))
		case strings.HasPrefix(s, "{") && !quoted:
			return enveloped(v, s)
		default:
			return inside, ""
		}
	}
}

// enveloped reads what Connect's JsonConverter writes with schemas; what is none is as it is.
func enveloped(v []byte, s string) (inside []byte, schema string) {
	var e struct {
		Schema  *struct{ Name string }
		Payload json.RawMessage
	}
	if json.Unmarshal([]byte(s), &e) != nil || len(e.Payload) == 0 && !strings.Contains(s, `"payload"`) {
		return v, ""
	}
	if e.Schema != nil {
		schema = e.Schema.Name
	}
	var text string
	switch payload := bytes.TrimSpace(e.Payload); {
	case len(payload) == 0, string(payload) == "null":
		return nil, ""
	case payload[0] == '{', payload[0] == '[':
		return v, ""
	case json.Unmarshal(payload, &text) == nil:
		return []byte(strings.Trim(text, " \t\r\n")), schema
	default:
		return payload, schema
	}
}

// isText tells text from binary.
func isText(v []byte) bool {
	return utf8.Valid(v) && !strings.ContainsFunc(string(v), func(r rune) bool {
		return r <= unicode.MaxASCII && unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r)
	})
}
