package check

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Retry is what a retry route promises: a record that a consumer has failed to process waits, counted from when it came, and is delivered
// again, with the number of that delivery in delay-attempt.
type Retry struct {
	// Initial is the first pause, each further one is Factor times as long, and Max the longest. Jitter is by what part of it a pause may be
	// longer or shorter.
	Initial, Max   time.Duration
	Factor, Jitter float64
	// MaxAttempts is how often a record is delivered again before it is parked.
	MaxAttempts int64
	// Parking is where it goes then. Empty: to the dead-letter topic.
	Parking string
	// FromHeaders says that the headers of other systems name the target, too.
	FromHeaders bool
	// Behind is by how much the clock by which a processor notes when it reads a record may be behind that of who has written it.
	Behind time.Duration
	// Strip are the names of headers that a delivered record loses; * stands for any run of characters.
	Strip []string
}

// sources are the headers by which other systems say where a record was.
var sources = []struct{ tool, header string }{
	{"connect-dlq", "__connect.errors.topic"}, {"spring-dlt", "kafka_dlt-original-topic"}, {"spring-dlt", "kafka_original-topic"},
	{"streams-dlq", "__streams.errors.topic"}, {"share-dlq", "__dlq.errors.topic"},
}

// mostRounds is the largest delay-attempt that is understood.
const mostRounds = 1_000_000

// pause is how long the record at an offset waits that was delivered so often before, in ms. It is worked out in whole milliseconds, with
// factors in thousandths. The share of the jitter follows from the offset, and from how many of the rounds have made the pause no longer.
func (r *Retry) pause(rounds, offset int64) int64 {
	pause, longest := ceilMillis(r.Initial), ceilMillis(r.Max)
	factor, jitter := thousandths(r.Factor), thousandths(r.Jitter)
	for ; rounds > 0 && pause < longest && factor > 1000; rounds-- {
		pause = max(part(pause, factor), pause+1)
	}
	pause = min(pause, longest)
	away := part(pause, jitter)
	if away == 0 {
		return pause
	}
	share := int64(scatter(uint64(offset)<<20+uint64(rounds)) >> 1)
	return max(pause-away+share%(2*away+1), 1)
}

func thousandths(f float64) int64 { return int64(math.Round(f * 1000)) }

// part is so many thousandths of n, rounded down.
func part(n, thousandths int64) int64 { return n/1000*thousandths + n%1000*thousandths/1000 }

// scatter is SplitMix64, by which a processor makes shares of offsets.
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// jitter is what a route adds to the due time of a request, in ms.
func (rt *route) jitter(partition int32, offset int64) int64 {
	most := ceilMillis(rt.Jitter)
	if most <= 0 {
		return 0
	}
	place := uint64(binary.BigEndian.Uint32(rt.TopicID[:4]))<<32 | uint64(uint32(partition))
	return int64(scatter(place^scatter(uint64(offset)))>>1) % (most + 1)
}

// asked is the due time that a request asks for, which a handle has: without the jitter.
func (rt *route) asked(name Source, s *slot) int64 {
	return s.due - rt.jitter(name.Partition, name.Offset)
}

// kept are the headers of a request that its route does not take off.
func (rt *route) kept(headers []kgo.RecordHeader) []kgo.RecordHeader {
	if a := read(headers); !a.asks() {
		if tool, _ := rt.borrows(headers, &a); tool != "" {
			return returned(headers, tool)
		}
	}
	if rt.Retry == nil || len(rt.Retry.Strip) == 0 {
		return headers
	}
	return slices.DeleteFunc(slices.Clone(headers), func(h kgo.RecordHeader) bool {
		return slices.ContainsFunc(rt.Retry.Strip, func(pattern string) bool { return match(pattern, strings.TrimPrefix(h.Key, ofUsers)) })
	})
}

// letterBox is the topic for what is dead-lettered for a reason.
func (rt *route) letterBox(code Codes) string {
	if code == Exhausted && rt.Retry != nil && rt.Retry.Parking != "" {
		return rt.Retry.Parking
	}
	return rt.DeadLetter
}

// round is how often a record of a retry route was delivered before.
func round(headers []kgo.RecordHeader) (n int64, ok bool) {
	v := plain(lastOf(headers, "delay-attempt"))
	if len(v) == 0 {
		return 0, true
	}
	u, err := strconv.ParseUint(text(v), 10, 63)
	return int64(u), err == nil && u <= mostRounds
}

// expectAgain works out when a record of a retry route is delivered again. When it came is known where the broker has written it down. Else
// the processor appends it once more when it has read it, and that says when it is due.
func (rt *route) expectAgain(e *Expectation, r *kgo.Record) {
	n, ok := round(r.Headers)
	switch {
	case !ok:
		e.refuse(InvalidAttempt)
	case n >= rt.Retry.MaxAttempts:
		e.refuse(Exhausted)
	}
	if e.Due, e.OrLater = atOnce, true; byBroker(r) {
		e.Due, e.OrLater = max(r.Timestamp.UnixMilli()+rt.Retry.pause(n, r.Offset), atOnce+1), false
	}
}

// atOnce is the due time of what came at a time that is not known, in ms.
const atOnce = 1

// byBroker tells whether a broker has written down when it took a record.
func byBroker(r *kgo.Record) bool { return r.Attrs.TimestampType() == 1 }

// returnsTo is the topic that headers of other systems name.
func (rt *route) returnsTo(headers []kgo.RecordHeader) []byte {
	for _, source := range sources {
		usual := rt.Tools == nil && rt.Retry != nil && rt.Retry.FromHeaders
		if !usual && !slices.Contains(rt.Tools, source.tool) {
			continue
		}
		for _, h := range slices.Backward(headers) {
			if v := plain(h.Value); h.Key == source.header && len(v) > 0 {
				return []byte(text(v))
			}
		}
	}
	return nil
}
