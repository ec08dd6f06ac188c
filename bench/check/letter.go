package check

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A dead letter says of itself, besides of which request it is: where on its way that was refused and why, and which of its headers is to blame.
// What of that follows from the code, or from the record that lies there, is judged.

// stages are where on its way a request is refused, by why.
var stages = []struct {
	name  string
	codes Codes
}{
	{"PARSE", NoDue | UnparsableDue | DueOutOfRange | NoTarget | UnsupportedHeader | InvalidTarget | InvalidPartition | WrongPartition | InvalidExpiry | Expired | InvalidAttempt | InvalidID},
	{"AUTHORIZE", TargetNotAllowed | UnsupportedHeader},
	{"STORE", TooFarAhead | TooLate | UnknownHandle | Exhausted | DuplicateID},
	{"PRODUCE", UnknownTarget | ForbiddenTarget | TooLarge | Rejected | Expired | InvalidPartition},
}

// mostBlamed is how much of the name of a header a dead letter says, in bytes.
const mostBlamed = 256

// misTold is what is wrong with what a dead letter tells of its refusal.
func misTold(r *kgo.Record, p provenance) string {
	for _, h := range r.Headers {
		name, says := strings.CutPrefix(h.Key, errorPrefix)
		if !says {
			continue
		}
		switch name {
		case "topic", "partition", "offset", "timestamp", "attempts", "instance":
		case "code", "message", "stage":
			if len(h.Value) == 0 || !utf8.Valid(h.Value) || name == "stage" && !mayBeRefusedAt(string(h.Value), codeOf(p.code)) {
				return "header " + legible(h.Key) + " is " + quote(h.Value) + ", and the code " + quote(p.code)
			}
		case "header":
			if p.cut == nil && !blames(r.Headers, h.Value) {
				return "header " + legible(h.Key) + " is " + quote(h.Value) + ", and it has none of that name"
			}
		case "cut":
		default:
			return "header " + legible(h.Key) + " is not one of a dead letter"
		}
	}
	return ""
}

// mayBeRefusedAt tells whether a request is refused there for such a reason. What other releases may call other reasons is judged by those.
func mayBeRefusedAt(stage string, code Codes) bool {
	for _, s := range stages {
		if s.name == stage {
			return code == otherCode || s.codes&code != 0
		}
	}
	return false
}

// blames tells whether a dead letter has the header that it says is to blame, name=value.
func blames(headers []kgo.RecordHeader, said []byte) bool {
	for _, h := range headers {
		if strings.HasPrefix(h.Key, errorPrefix) {
			continue
		}
		name := strings.ToValidUTF8(h.Key[:min(len(h.Key), mostBlamed)], string(utf8.RuneError))
		if rest, is := bytes.CutPrefix(said, []byte(name)); is && len(rest) > 0 && rest[0] == '=' {
			return true
		}
	}
	return false
}
