package check

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// prefix begins the names that a processor keeps for itself: none of them passes from a request to the delivered record.
const prefix = "delay-"

// errorPrefix begins the names of the headers that a dead letter carries besides the request's own.
const errorPrefix = "__delay.errors."

// emitted tells whether a header is one of those that the processor writes; in a request it means nothing.
func emitted(name string) bool {
	switch name {
	case "delay-due", "delay-fired", "delay-source-topic", "delay-source-partition", "delay-source-offset",
		"delay-source-timestamp", "delay-attempt", "delay-hops", "delay-origin", "delay-seq", "delay-from":
		return true
	}
	return false
}

// provenance is what the processor says of a record that it delivered or dead-lettered. Invariant: a number that was absent,
// twice there or no number is -1, and topic then nil; problem says so.
type provenance struct {
	topic                        []byte
	partition, offset, timestamp int64
	due, fired, attempt          int64  // delivered records
	code, cut, origin            []byte // dead letters
	problem                      string
}

func (p *provenance) named() bool {
	return p.topic != nil && p.partition >= 0 && p.offset >= 0
}

// once sets a number from a header that must be there once.
func (p *provenance) once(n *int64, h kgo.RecordHeader) {
	v, err := strconv.ParseInt(string(h.Value), 10, 64)
	switch {
	case *n != -1:
		p.problem = "header " + h.Key + " twice"
	case err != nil || v < 0 || h.Value[0] == '+' || h.Value[0] == '0' && len(h.Value) > 1:
		p.problem = "header " + h.Key + " is " + quote(h.Value)
	default:
		*n = v
	}
}

// fromDelivered reads the emitted headers of a delivered record.
func fromDelivered(headers []kgo.RecordHeader) provenance {
	p := provenance{partition: -1, offset: -1, timestamp: -1, due: -1, fired: -1, attempt: -1}
	for _, h := range headers {
		if !strings.HasPrefix(h.Key, prefix) {
			continue
		}
		switch h.Key {
		case "delay-due":
			p.once(&p.due, h)
		case "delay-fired":
			p.once(&p.fired, h)
		case "delay-attempt":
			p.once(&p.attempt, h)
		case "delay-source-topic":
			if p.topic != nil {
				p.problem = "header " + h.Key + " twice"
			}
			p.topic = h.Value
		case "delay-source-partition":
			p.once(&p.partition, h)
		case "delay-source-offset":
			p.once(&p.offset, h)
		case "delay-source-timestamp":
			p.once(&p.timestamp, h)
		default:
			p.problem = "header " + h.Key + " was delivered"
		}
	}
	if p.problem == "" && (p.due < 0 || p.fired < 0 || p.timestamp < 0) {
		p.problem = "delay-due, delay-fired or delay-source-timestamp is absent"
	}
	return p
}

// fromDeadLetter reads the error headers of a dead letter.
func fromDeadLetter(headers []kgo.RecordHeader) provenance {
	p := provenance{partition: -1, offset: -1, timestamp: -1}
	var seen []string
	for _, h := range headers {
		name, ok := strings.CutPrefix(h.Key, errorPrefix)
		if !ok {
			if h.Key == "delay-origin" {
				p.origin = h.Value
			}
			continue
		}
		if slices.Contains(seen, name) {
			p.problem = "header " + h.Key + " twice"
			continue
		}
		seen = append(seen, name)
		switch name {
		case "topic":
			p.topic = h.Value
		case "partition":
			p.once(&p.partition, h)
		case "offset":
			p.once(&p.offset, h)
		case "timestamp":
			p.once(&p.timestamp, h)
		case "code":
			p.code = h.Value
		case "cut":
			p.cut = h.Value
		}
	}
	for _, name := range []string{"timestamp", "stage", "code", "message"} {
		if p.problem == "" && !slices.Contains(seen, name) {
			p.problem = "header " + errorPrefix + name + " is absent"
		}
	}
	return p
}

// cutDown reads what a dead letter says of what it had to leave out, "key=1 value=2 headers=3 size=4", or returns nil. Only
// values are large in tests, so nothing else may be cut.
func (c *Checker) cutDown(r *kgo.Record, p provenance) *large {
	if p.cut == nil {
		return nil
	}
	var key, value int
	_, err := fmt.Sscanf(string(p.cut), "key=%d value=%d", &key, &value)
	if err != nil || key != len(r.Key) || value <= len(r.Value) || len(r.Value) < headBytes {
		return &large{}
	}
	return &large{value, c.hash.bytes(r.Value[:headBytes])}
}

// ours reads a header that a processor writes into a delay topic for itself: <4 bytes of the topic id in hex>:<a>:<b>:<c>. It
// is believed only where it was written, and only if it looks back.
func (s *source) ours(v []byte, offset int64) (a, b, c int64, ok bool) {
	parts := bytes.Split(v, []byte{':'})
	if len(parts) != 4 {
		return 0, 0, 0, false
	}
	id, err := hex.DecodeString(string(parts[0]))
	if err != nil || len(id) != 4 {
		return 0, 0, 0, false
	}
	if s.route.TopicID != [16]byte{} && !bytes.Equal(id, s.route.TopicID[:4]) {
		return 0, 0, 0, false
	}
	var n [3]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(string(parts[i+1]), 10, 64); err != nil || n[i] < 0 {
			return 0, 0, 0, false
		}
	}
	return n[0], n[1], n[2], n[0] < offset
}

// resolves tells whether a record is a resolve record: nothing but one header.
func (s *source) resolves(r *kgo.Record) bool {
	if r.Key != nil || r.Value != nil || len(r.Headers) != 1 || r.Headers[0].Key != "delay-resolve" {
		return false
	}
	offset, _, seq, ok := s.ours(r.Headers[0].Value, r.Offset)
	return ok && seq <= offset
}

// retryOf tells whether a record is a retry, of which origin, and for when.
func (s *source) retryOf(r *kgo.Record) (origin, due int64, ok bool) {
	var mark, until []byte
	for _, h := range r.Headers {
		switch h.Key {
		case "delay-origin":
			mark = h.Value
		case "delay-until":
			until = h.Value
		}
	}
	if mark == nil {
		return 0, 0, false
	}
	if origin, _, _, ok = s.ours(mark, r.Offset); !ok {
		return 0, 0, false
	}
	due, ok = parseUntil(until)
	return origin, due, ok
}

// hasher makes fingerprints.
type hasher struct{ seed maphash.Seed }

// asDelivered is the fingerprint of a record as it must be delivered.
func (x hasher) asDelivered(key, value []byte, headers []kgo.RecordHeader, due, timestamp int64) print {
	return print{
		due: due, key: x.bytes(key), value: uint32(x.bytes(value)),
		headers: x.headers(headers, timestamp, func(name string) bool { return !strings.HasPrefix(name, prefix) }),
	}
}

// asSpared is the fingerprint of a dead letter as if it had been delivered, for requests of which either may become.
func (x hasher) asSpared(letter *kgo.Record, timestamp int64) print {
	key := letter.Key
	if a := read(letter.Headers); len(a.key) > 0 {
		key = a.key
	}
	return print{
		key: x.bytes(key), value: uint32(x.bytes(letter.Value)),
		headers: x.headers(letter.Headers, timestamp, func(name string) bool {
			return !strings.HasPrefix(name, prefix) && !strings.HasPrefix(name, errorPrefix)
		}),
	}
}

// asDead is the fingerprint of a record as it must be dead-lettered.
func (x hasher) asDead(r *kgo.Record, due, timestamp int64) print {
	return print{
		due: due, key: x.bytes(r.Key), value: uint32(x.bytes(r.Value)),
		headers: x.headers(r.Headers, timestamp, func(name string) bool { return !strings.HasPrefix(name, errorPrefix) }),
	}
}

// bytes tells null from empty.
func (x hasher) bytes(v []byte) uint64 {
	if v == nil {
		return 1
	}
	return maphash.Bytes(x.seed, v)
}

func (x hasher) headers(headers []kgo.RecordHeader, timestamp int64, keep func(name string) bool) uint32 {
	sum := uint64(timestamp)
	for i := range headers {
		if keep(headers[i].Key) {
			sum = mix(sum, maphash.String(x.seed, headers[i].Key))
			sum = mix(sum, x.bytes(headers[i].Value))
		}
	}
	return uint32(mix(sum, 0))
}

// mix depends on the order of what is mixed in.
func mix(sum, next uint64) uint64 {
	sum = (sum ^ next) * 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio: spreads any bit over all above it
	return sum ^ sum>>29
}
