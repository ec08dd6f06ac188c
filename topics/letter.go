package topics

import (
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Letter is what the headers of a dead letter tell, as AppendDeadLetter and FitDeadLetter have written
// them. The refusal has a code, a stage and a message; the header to blame is in Blamed.
type Letter struct {
	DeadLetter
	Blamed string // name=value of the header to blame, as it was written down; "" when there is none
	Cut    string // how large the parts were before it was cut; "": it is whole
}

// ReadLetter reads the headers of a dead letter; false when they are not those of one: nothing says
// which request it was, or why it was refused. Any program may have written them, so nothing but topic
// and partition is checked.
func ReadLetter(headers []kgo.RecordHeader) (l Letter, ok bool) {
	l.Refusal = &Refusal{}
	partition := int64(-1)
	l.Offset, l.Timestamp = -1, -1
	for i := range headers {
		if !strings.HasPrefix(headers[i].Key, errorPrefix) {
			continue
		}
		text := string(headers[i].Value)
		switch headers[i].Key {
		case HeaderErrorTopic:
			l.Topic = text
		case HeaderErrorPartition:
			partition = countOr(headers[i].Value, -1)
		case HeaderErrorOffset:
			l.Offset = countOr(headers[i].Value, -1)
		case HeaderErrorTimestamp:
			l.Timestamp = countOr(headers[i].Value, -1)
		case HeaderErrorStage:
			l.Refusal.Stage = Stage(text)
		case HeaderErrorCode:
			l.Refusal.Code = Code(text)
		case HeaderErrorMessage:
			l.Refusal.Message = text
		case HeaderErrorHeader:
			l.Blamed = text
		case HeaderErrorInstance:
			l.Instance = text
		case HeaderErrorAttempts:
			l.Attempts = int(min(countOr(headers[i].Value, 0), math.MaxInt32))
		case HeaderErrorCut:
			l.Cut = text
		}
	}
	if l.Refusal.Code == "" || !validTopic(l.Topic) || partition < 0 || partition > math.MaxInt32 {
		return Letter{}, false
	}
	l.Partition = int32(partition)
	return l, true
}

// countOr reads a decimal number that is not negative, or returns what stands for none.
func countOr(b []byte, none int64) int64 {
	if n, ok := parseCount(b); ok {
		return n
	}
	return none
}

// AppendReplayed appends to dst the headers of a dead letter that is written to its delay topic again:
// those of the request as it was written. One that was given up because it was delivered too often loses its
// delay-attempt, since it would be given up again at once: its count starts anew. prefix is that of its route; "" is not known, and
// then the dead letter says what it is called.
func AppendReplayed(dst, in []kgo.RecordHeader, code Code, prefix string) []kgo.RecordHeader {
	attempt := withPrefix(HeaderAttempt, prefix)
	if blamed, _, has := strings.Cut(string(Last(in, HeaderErrorHeader)), "="); has && prefix == "" {
		attempt = blamed
	}
	for i := range in {
		if strings.HasPrefix(in[i].Key, errorPrefix) || code == CodeExhausted && in[i].Key == attempt {
			continue
		}
		dst = append(dst, in[i])
	}
	return dst
}

// IsRequest tells whether headers may be those of a request. A resolve record that was refused, because
// it belongs elsewhere, never was one.
func IsRequest(headers []kgo.RecordHeader) bool {
	for i := range headers {
		if headers[i].Key == HeaderResolve && len(headers[i].Value) > 0 {
			return false
		}
	}
	return true
}
