package check

import (
	"bytes"
	"encoding/hex"
	"hash/maphash"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// prefix begins, in whatever case, the names that a processor keeps for itself.
const prefix = "delay-"

// errorPrefix begins the names of the headers that a dead letter carries besides the request's own.
const errorPrefix = "__delay.errors."

// belongs tells whether a name begins with prefix.
func belongs(name string) bool {
	return len(name) >= len(prefix) && name[0]|0x20 == prefix[0] && strings.EqualFold(name[:len(prefix)], prefix)
}

// passes tells whether a header of the request is also one of the delivered record.
func passes(name string) bool { return !belongs(name) && !strings.HasPrefix(name, errorPrefix) }

// emitted tells whether a header is one of those that the processor writes; in a request it means nothing.
func emitted(name string) bool {
	switch name {
	case "delay-due", "delay-source", "delay-source-timestamp", "delay-fired", "delay-tries", "delay-attempt", "delay-hops", "delay-retry", "delay-seq", "delay-from":
		return true
	}
	return false
}

// provenance is what the processor says of a record that it delivered or dead-lettered. Invariant: a number that was absent,
// twice there or no number is -1, and topic then nil; problem says so.
type provenance struct {
	topic                        []byte
	partition, offset, timestamp int64
	due, fired, attempt, round   int64
	undated                      bool   // it says that the request had no timestamp
	code, cut                    []byte // dead letters
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
		p.problem = "header " + legible(h.Key) + " twice"
	case err != nil || v < 0 || h.Value[0] == '+' || h.Value[0] == '0' && len(h.Value) > 1:
		p.problem = "header " + legible(h.Key) + " is " + quote(h.Value)
	default:
		*n = v
	}
}

// dated sets the timestamp of the request, of which -1 says that it had none.
func (p *provenance) dated(h kgo.RecordHeader) {
	if string(h.Value) == "-1" && p.timestamp == -1 && !p.undated {
		p.undated = true
		return
	}
	p.once(&p.timestamp, h)
}

// fromDelivered reads the emitted headers of a delivered record.
func fromDelivered(headers []kgo.RecordHeader) provenance {
	p := provenance{partition: -1, offset: -1, timestamp: -1, due: -1, fired: -1, attempt: -1, round: -1}
	for _, h := range headers {
		if passes(h.Key) {
			continue
		}
		switch h.Key {
		case "delay-due":
			p.once(&p.due, h)
		case "delay-fired":
			p.once(&p.fired, h)
		case "delay-tries":
			if p.once(&p.attempt, h); p.attempt == 0 {
				p.problem = "header delay-tries is 0"
			}
		case "delay-attempt":
			p.once(&p.round, h)
		case "delay-source":
			p.source(h)
		case "delay-source-timestamp":
			p.dated(h)
		default:
			p.problem = "header " + legible(h.Key) + " was delivered"
		}
	}
	return p
}

// source reads topic/partition/offset.
func (p *provenance) source(h kgo.RecordHeader) {
	if p.topic != nil {
		p.problem = "header " + legible(h.Key) + " twice"
		return
	}
	parts := bytes.Split(h.Value, []byte("/"))
	if len(parts) > 1 {
		p.topic = parts[0]
	}
	if len(parts) != 3 {
		p.problem = "header " + legible(h.Key) + " is " + quote(h.Value)
		return
	}
	p.once(&p.partition, kgo.RecordHeader{Key: h.Key, Value: parts[1]})
	p.once(&p.offset, kgo.RecordHeader{Key: h.Key, Value: parts[2]})
}

// fromDeadLetter reads the error headers of a dead letter.
func fromDeadLetter(headers []kgo.RecordHeader) provenance {
	p := provenance{partition: -1, offset: -1, timestamp: -1, attempt: -1}
	var seen []string
	for _, h := range headers {
		name, ok := strings.CutPrefix(h.Key, errorPrefix)
		if !ok {
			continue
		}
		if slices.Contains(seen, name) {
			p.problem = "header " + legible(h.Key) + " twice"
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
			p.dated(h)
		case "attempts":
			p.once(&p.attempt, h)
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

// author is what has written a record that looks like one that a processor writes into a delay topic for itself.
type author uint8

const (
	elsewhere author = iota // it is believed only in the partition for which it was written
	thisGroup
	anotherGroup
)

// author reads a header that a processor writes into a delay topic for itself:
//
//	<4 bytes of the topic id in hex>:<group, escaped as in a query>:<partition>:<number>…
//
// The first number is an offset or a partition, and as an offset it must look back from that of the record. Of the others -1 may stand for a timestamp
// that is missing.
func (s *source) author(v []byte, offset int64, numbers []int64) author {
	parts := strings.Split(string(v), ":")
	if len(parts) < 3 {
		return elsewhere
	}
	id, err := hex.DecodeString(parts[0])
	group, escape := url.QueryUnescape(parts[1])
	switch {
	case err != nil || escape != nil || len(id) != 4 || group == "" || parts[2] != strconv.Itoa(int(s.partition)):
		return elsewhere
	case s.route.TopicID != [16]byte{} && !bytes.Equal(id, s.route.TopicID[:4]):
		return elsewhere
	case s.route.Group != "" && s.route.Group != group:
		return anotherGroup
	case len(parts) != 3+len(numbers):
		return elsewhere
	}
	for i := range numbers {
		if numbers[i], err = strconv.ParseInt(parts[3+i], 10, 64); err != nil || numbers[i] < -1 {
			return elsewhere
		}
	}
	if len(numbers) > 0 && (numbers[0] < 0 || numbers[0] >= offset) {
		return elsewhere
	}
	return thisGroup
}

// passedOver tells whether another group has written a record for itself.
func (s *source) passedOver(r *kgo.Record) bool {
	for i, h := range r.Headers {
		switch {
		case h.Key == "delay-forwarded" && i == len(r.Headers)-1 && s.author(h.Value, 1<<62, nil) == anotherGroup:
			return true
		case h.Key == "delay-retry" && i < len(r.Headers)-1, h.Key == "delay-resolve" && len(r.Headers) > 1:
		case h.Key == "delay-retry", h.Key == "delay-resolve", h.Key == "delay-seq":
			if s.author(h.Value, r.Offset, nil) == anotherGroup {
				return true
			}
		}
	}
	return false
}

// resolution is of what a resolve record tells: a record at an offset, and of what key that was.
type resolution struct{ offset, due, seq int64 }

// resolved tells whether a record is a resolve record, nothing but one header, and of what it tells.
func (s *source) resolved(r *kgo.Record) (of resolution, is bool) {
	if r.Key != nil || r.Value != nil || len(r.Headers) != 1 || r.Headers[0].Key != "delay-resolve" {
		return of, false
	}
	v, by, ok := cutLast(r.Headers[0].Value) // by whom it was taken away
	var n [3]int64
	is = ok && s.author(v, r.Offset, n[:]) == thisGroup && min(n[1], n[2]) >= 0 && n[2] <= n[0] && by < r.Offset
	return resolution{n[0], n[1], n[2]}, is
}

// isInternal tells whether a record asks for nothing that was not asked for before: it tells what was resolved, or stands for an earlier record.
func (s *source) isInternal(r *kgo.Record) bool {
	_, resolved := s.resolved(r)
	_, copied := s.copyOf(r)
	return resolved || copied
}

// copyOf tells whether a record is a carried copy, which is no request of its own, and what it is a copy of, as that was first written: the last two
// headers say where that was, and from where it was copied.
func (s *source) copyOf(r *kgo.Record) (was *kgo.Record, is bool) {
	last := len(r.Headers) - 1
	if last < 1 || r.Headers[last].Key != "delay-from" || r.Headers[last-1].Key != "delay-seq" {
		return nil, false
	}
	v, timestamp, ok := cutLast(r.Headers[last-1].Value)
	from, err := strconv.ParseInt(string(r.Headers[last].Value), 10, 64)
	var n [2]int64 // seq and due
	if !ok || err != nil || s.author(v, r.Offset, n[:]) != thisGroup || n[1] < 1 || n[0] > from || from >= r.Offset {
		return nil, false
	}
	return asWritten(r, n[0], timestamp), true
}

// asWritten is a record as it was first written, of which another one tells by the last of its headers, or the last two.
func asWritten(r *kgo.Record, offset, timestamp int64) *kgo.Record {
	was := *r
	was.Offset, was.Timestamp = offset, time.UnixMilli(timestamp)
	was.Headers = r.Headers[:len(r.Headers)-1]
	if n := len(was.Headers); n > 0 && was.Headers[n-1].Key == "delay-seq" {
		was.Headers = was.Headers[:n-1]
	}
	return &was
}

// cutLast takes off the last number of a header that a processor writes for itself. What it is of has none where it is -1.
func cutLast(v []byte) (before []byte, last int64, ok bool) {
	i := bytes.LastIndexByte(v, ':')
	if i < 0 {
		return v, 0, false
	}
	last, err := strconv.ParseInt(string(v[i+1:]), 10, 64)
	return v[:i], last, err == nil && last >= -1
}

// retryOf tells whether a record is a retry, of what, as that was first written, and what it says of the next attempt: that is its last header.
func (s *source) retryOf(r *kgo.Record) (origin *kgo.Record, again retry, ok bool) {
	last := len(r.Headers) - 1
	if last < 0 || r.Headers[last].Key != "delay-retry" {
		return nil, retry{}, false
	}
	var n [5]int64 // first offset, its timestamp and due time, attempts, next due time
	if s.author(unnamed(r.Headers[last].Value), r.Offset, n[:]) != thisGroup || min(n[2], n[3], n[4]) < 0 {
		return nil, retry{}, false
	}
	return asWritten(r, n[0], n[1]), retry{due: n[4], offset: r.Offset, attempt: n[3], first: n[2]}, true
}

// unnamed leaves out, of what a retry record says of itself, which names its headers had: they stand behind all numbers, and begin with !, ^, ~, / or +.
func unnamed(v []byte) []byte {
	if at := bytes.LastIndexByte(v, ':') + 1; at > 0 && at < len(v) && strings.IndexByte("!^~/+", v[at]) >= 0 {
		return v[:at-1]
	}
	return v
}

// hasher makes fingerprints.
type hasher struct{ seed maphash.Seed }

// asDelivered is the fingerprint of a record as it must be delivered.
func (x hasher) asDelivered(key, value []byte, headers []kgo.RecordHeader, due, timestamp int64) print {
	return print{
		due: due, key: x.bytes(key), value: uint32(x.bytes(value)),
		headers: x.headers(headers, timestamp, passes),
	}
}

// asSpared is the fingerprint of a dead letter as if it had been delivered, for requests of which either may become.
func (x hasher) asSpared(letter *kgo.Record, rt *route, timestamp int64) print {
	key := letter.Key
	if a := rt.read(letter.Headers); len(a.key) > 0 {
		key = a.key
	}
	return print{
		key: x.bytes(key), value: uint32(x.bytes(letter.Value)),
		headers: x.headers(rt.kept(letter.Headers), timestamp, passes),
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
