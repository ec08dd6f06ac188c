package topics

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Names of the headers that tell why a record is in a dead letter topic, in the
// manner of Kafka Connect and Kafka Streams. All values are text.
const (
	HeaderErrorTopic     = "__delay.errors.topic"
	HeaderErrorPartition = "__delay.errors.partition"
	HeaderErrorOffset    = "__delay.errors.offset"
	HeaderErrorTimestamp = "__delay.errors.timestamp"
	HeaderErrorStage     = "__delay.errors.stage"
	HeaderErrorCode      = "__delay.errors.code"
	HeaderErrorMessage   = "__delay.errors.message"
	HeaderErrorHeader    = "__delay.errors.header"
	HeaderErrorInstance  = "__delay.errors.instance"
	HeaderErrorAttempts  = "__delay.errors.attempts"
	HeaderErrorCut       = "__delay.errors.cut"
)

// errorPrefix begins the names above. Those that a record brings along, from an
// earlier trip, are replaced.
const errorPrefix = "__delay.errors."

// DeadLetter is what a dead letter says of itself.
type DeadLetter struct {
	Topic     string // the delay topic
	Partition int32
	Offset    int64
	Timestamp int64 // ms since the epoch
	Refusal   *Refusal
	Instance  string // which process wrote it
	Attempts  int    // attempts to deliver before
}

// AppendDeadLetter appends to dst the headers of a dead letter: all of in, the
// request headers too, so that writing the record to the delay topic once more
// asks for the same; and then what d says. Values are formatted into buf, as
// AppendDelivered does.
func AppendDeadLetter(dst, in []kgo.RecordHeader, d DeadLetter, buf []byte) ([]kgo.RecordHeader, []byte) {
	for i := range in {
		if !strings.HasPrefix(in[i].Key, errorPrefix) {
			dst = append(dst, in[i])
		}
	}
	w := writer{headers: dst, buf: buf}
	w.text(HeaderErrorTopic, d.Topic)
	w.number(HeaderErrorPartition, int64(d.Partition))
	w.number(HeaderErrorOffset, d.Offset)
	w.number(HeaderErrorTimestamp, d.Timestamp)
	w.text(HeaderErrorStage, string(d.Refusal.Stage))
	w.text(HeaderErrorCode, string(d.Refusal.Code))
	w.text(HeaderErrorMessage, d.Refusal.Message)
	if d.Refusal.Header != "" {
		w.text(HeaderErrorHeader, blamed(d.Refusal))
	}
	w.text(HeaderErrorInstance, d.Instance)
	w.number(HeaderErrorAttempts, int64(d.Attempts))
	return w.headers, w.buf
}

// blamed shows the offending header: name=value, the value as 0x… if it is not
// text.
func blamed(r *Refusal) string {
	value := r.Value
	if !isText(value) {
		return printable(r.Header) + "=0x" + hex.EncodeToString(value)
	}
	return printable(r.Header) + "=" + string(value)
}

// printable makes text of a header name, which may be any bytes.
func printable(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

// FitDeadLetter cuts a dead letter down to limit bytes, and says in the header
// __delay.errors.cut how large the parts were. First goes the end of the value,
// then that of the key, then the record's own headers. It tells whether
// anything was cut. The record of a topic set up as Create does always fits.
func FitDeadLetter(r *kgo.Record, limit int) bool {
	size := RecordSize(r.Key, r.Value, r.Headers)
	if size <= limit {
		return false
	}
	note := fmt.Sprintf("key=%d value=%d headers=%d size=%d", len(r.Key), len(r.Value), len(r.Headers), size)
	r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], kgo.RecordHeader{Key: HeaderErrorCut, Value: []byte(note)})
	r.Value = cut(r.Value, RecordSize(r.Key, r.Value, r.Headers)-limit)
	r.Key = cut(r.Key, RecordSize(r.Key, r.Value, r.Headers)-limit)
	if RecordSize(r.Key, r.Value, r.Headers) > limit {
		ours := r.Headers[:0:0]
		for _, h := range r.Headers {
			if strings.HasPrefix(h.Key, errorPrefix) {
				ours = append(ours, h)
			}
		}
		r.Headers = ours
	}
	return true
}

// cut takes excess bytes off the end. What was not null stays not null.
func cut(b []byte, excess int) []byte {
	if excess <= 0 {
		return b
	}
	return b[:max(len(b)-excess, 0)]
}
