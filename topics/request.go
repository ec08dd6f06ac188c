package topics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Kind is what a record of a delay topic is.
type Kind uint8

// The kinds of records.
const (
	KindRequest Kind = iota
	KindResolve
	KindOfAnotherGroup // which wrote it for itself, or for another partition: it is passed over
	KindCancel         // of the request that Handle names
)

// Request is what a record of a delay topic asks for. Its slices point into
// the record's headers and live as long as they do.
type Request struct {
	Kind Kind

	Due       int64  // ms since the epoch, rounded up, above zero
	Jitter    int64  // ms of it that the route has added
	Target    []byte // topic; the route's fixed one when the record names none, nil when there is neither
	TargetBy  string // the header that names it; "": none does
	Key       []byte // of the delivered record, when HasKey
	HasKey    bool   // false: the record's own key
	Partition int32  // of the target topic; -1: by key
	Preset    Preset // whose headers it asks by, and delivered records lose; NoPreset: ours
	Expires   int64  // ms since the epoch: not delivered any more after that; 0: always
	Round     int    // of a retry route: how often it has delivered the record before
	AtOnce    bool   // of a retry route: when it came is not known, so its turn appends it again, to be due
	Pause     int64  // so many ms later

	ID      []byte // at most one pending record of a partition has it; nil: none
	KeyIsID bool   // of the record
	IDAt    int32  // one more than the index of the header that has the ID, where that has not its usual name; 0: it has

	OnDuplicate OnDuplicate // what becomes of it if another one with its ID is pending

	Handle    Handle // of a cancel: what it cancels; with Replaces: what the request takes the place of, if that is still pending
	Here      bool   // Handle is of this partition
	NamedID   []byte // the id of what it is, in the place of Handle; nil: Handle says it
	Replaces  bool
	Forwarded bool  // of a cancel: another partition has passed it on
	WrittenBy int64 // with Forwarded and Named: ms since the epoch, it takes nothing that was written after that; 0: anything

	Retry     bool   // appended by us after an attempt to deliver: Attempt and Origin hold
	Attempt   int    // attempts so far
	Origin    Origin // the request that the retry stands for
	ByBackoff bool   // which came to a retry route: when that is due nobody has asked for

	// Of KindResolve: the record at ResolveOffset, whose key is (ResolveDue,
	// ResolveSeq), is resolved.
	ResolveOffset int64
	ResolveDue    int64
	ResolveSeq    int64
	ResolveBy     int64 // where that lies which has cancelled or replaced it, if that is not resolved yet; else -1
}

// First returns the origin of a request that was read at an offset: the one it
// carries, or else itself.
func (q *Request) First(offset, timestampMillis int64) Origin {
	if q.Retry {
		return q.Origin
	}
	return Origin{Offset: offset, Timestamp: timestampMillis, Due: q.Due}
}

// AskedFor is the due time that a request asks for, and that its handle has: less the jitter of the route.
func (q *Request) AskedFor() int64 { return q.Due - q.Jitter }

// ErrUnknownParser means that a checkpoint names a parser that this version
// does not have. Nothing else gives the same keys, so the partition must stop.
var ErrUnknownParser = errors.New("topics: unknown parser")

// Parser reads requests. It is a pure function of the record and of its spec:
// what it says of a record it says for ever (design rule 10), because a replay
// must find the keys that the first reading found. A change of what any
// header means is therefore a new spec. It may be used by many goroutines.
type Parser struct {
	delay   int64    // ms of a fixed-delay route, 0: by header
	jitter  int64    // ms: up to so much is added to a due time
	backoff backoff  // of a retry route; zero: it is none
	target  []byte   // the route's fixed target
	sources []string // headers of other tools that name the target

	prefix  string    // of our headers
	aliases presetSet // of headers that may stand for ours

	keyed       bool        // the id of a record is its key, and one without a value cancels
	onDuplicate OnDuplicate // what a record does whose id is pending
	remember    int64       // ms: an id is remembered for so long once its record is due
}

// retries tells whether it is the parser of a retry route.
func (p *Parser) retries() bool { return p.backoff.initial > 0 }

// Stamp is what a parser looks at beside the headers: when a record was written, and where the key is the id, that.
type Stamp struct {
	Millis   int64 // its timestamp
	ByBroker bool  // it is the time at which it was appended (LogAppendTime); else the producer has set it
	Key      []byte
	NoValue  bool // the value is null
}

// StampOf is a record's own.
func StampOf(r *kgo.Record) Stamp {
	return Stamp{Millis: r.Timestamp.UnixMilli(), ByBroker: r.Attrs.TimestampType() == logAppendTime, Key: r.Key, NoValue: r.Value == nil}
}

const logAppendTime = 1 // of kgo.RecordAttrs.TimestampType

// Spec names the parser of a route without retries: "p1", "p1+300000" with a fixed delay of
// five minutes, or "p1~300000" with a jitter of as much. That of a retry route is "r1+" and its backoff in whole numbers. Behind a slash
// follows what is not the usual of ids: "p1/kr"; behind ! and ^ what is not of aliases and the prefix. None has a ';', ':' or space, so they fit in commit metadata.
func Spec(delay time.Duration) string {
	if delay <= 0 {
		return "p1"
	}
	return "p1+" + strconv.FormatInt(ceilMillis(delay), 10)
}

// FixedDelay tells whether a spec is one with a fixed delay.
func FixedDelay(spec string) bool { return strings.HasPrefix(spec, "p1+") }

// ParserFor returns the parser that Spec named, without a fixed target, or
// ErrUnknownParser.
func ParserFor(spec string) (*Parser, error) {
	if rest, aliases, prefix, ok := cutAliases(spec); ok {
		if p, ok := parserOf(rest); ok {
			p.aliases, p.prefix = aliases, prefix
			return p, nil
		}
	}
	return nil, fmt.Errorf("%w %q, and this release knows p1 and r1; a newer one wrote it: run one that knows it, and the partition goes on where it is assigned to one",
		ErrUnknownParser, spec)
}

// parserOf is the parser of a spec that says nothing of aliases and prefix.
func parserOf(spec string) (*Parser, bool) {
	if b, ok := backoffOf(spec); ok {
		return &Parser{backoff: b}, true
	}
	if digits, fixed := strings.CutPrefix(spec, "p1+"); fixed {
		if delay, ok := parseCount([]byte(digits)); ok && delay > 0 && delay <= maxDelayMillis {
			return &Parser{delay: delay}, true
		}
	}
	return parserOfIDs(spec)
}

// ours is what our headers begin with. A parser that was not made by ParserFor or NewRoutes knows the usual prefix.
func (p *Parser) ours() string {
	if p.prefix == "" {
		return HeaderPrefix
	}
	return p.prefix
}

// Name is what a header of ours is called by this parser: HeaderUntil, say.
func (p *Parser) Name(header string) string { return withPrefix(header, p.ours()) }

// Parse reads one record; m tells what is ours in its partition. The error is a
// *Refusal; it depends on the record alone, and the record is then resolved
// without a resolve record. What depends on the configuration of today is
// Route.Refuse's to say.
func (p *Parser) Parse(headers []kgo.RecordHeader, written Stamp, offset int64, m Mark) (q Request, err error) {
	err = p.ParseInto(&q, headers, written, offset, &m)
	return q, err
}

// ParseInto is Parse into q, whatever that holds: a request is large, and most are looked at once.
func (p *Parser) ParseInto(q *Request, headers []kgo.RecordHeader, written Stamp, offset int64, m *Mark) error {
	return q.parse(p, headers, written, offset, m, 0)
}

// Again reads into q a request once more that Parse of the same parser has found due at dueMillis: the
// same answer, without working out the due time. Of written only key and value are looked at.
func (p *Parser) Again(q *Request, headers []kgo.RecordHeader, written Stamp, dueMillis, offset int64, m *Mark) error {
	return q.parse(p, headers, written, offset, m, max(dueMillis, 1))
}

// parse is ParseInto; due is above zero when it is known already.
func (q *Request) parse(p *Parser, headers []kgo.RecordHeader, written Stamp, offset int64, m *Mark, due int64) error {
	*q = Request{Partition: -1, Target: p.target}
	p = ParserOf(p, headers, offset, m)
	var n headerMap
	if r := p.understand(q, &n, headers, written, offset, m, due); r != nil {
		r.Header = n.writtenAs(r.Header, headers)
		if due == 0 {
			r.Due = n.dueOfRefused(p, r.Code, headers, written, offset)
		}
		*q = Request{}
		return r
	}
	return nil
}

// writtenAs is the name by which a record has a header that is to blame.
func (n *headerMap) writtenAs(name string, headers []kgo.RecordHeader) string {
	if f := fieldOf(name, HeaderPrefix); f != other && f != fieldUnknown && n.at[f] != 0 {
		name = strings.Clone(headers[n.at[f]-1].Key)
	}
	return name
}

// understand works out what a record asks for.
func (p *Parser) understand(q *Request, n *headerMap, headers []kgo.RecordHeader, written Stamp, offset int64, m *Mark, due int64) *Refusal {
	at := &n.at
	var seen uint32 // by field
	aliased, prefix := false, p.ours()
	for i := range headers {
		f := fieldOf(headers[i].Key, prefix)
		if f != other {
			at[f] = int32(i) + 1
			seen |= 1 << f
		} else if p.aliases != 0 && p.isAlias(headers[i].Key) {
			aliased = true
		}
	}
	if prefix != HeaderPrefix {
		seen |= n.cancelOfOurs(headers)
	}
	if at[fieldForwarded] != 0 {
		n.cancelOfFormerNames(headers, m)
	}
	if aliased {
		if r := p.substitute(q, n, headers); r != nil {
			return r
		}
	}
	if seen>>fieldRetry != 0 || p.keyed && (written.NoValue || n.cancels) {
		written.NoValue = written.NoValue || n.cancels
		if r := p.special(q, headers, at, written, offset, *m); r != nil || q.Kind != KindRequest {
			return r
		}
		if since, is := m.firstWritten(headers, at); is && p.delay == 0 && !p.retries() {
			written.Millis = since
		}
	}
	if p.keyed || at[fieldID] != 0 || q.NamedID != nil {
		if r := p.identify(q, n, value(headers, at[fieldID]), written.Key); r != nil {
			return r
		}
	}
	if p.retries() {
		if r := q.round(bare(value(headers, at[fieldAttempt]))); r != nil {
			return r
		}
	}
	if due != 0 {
		q.Due = due
	}
	if q.Due == 0 {
		if r := p.due(q, n, headers, written, offset); r != nil {
			return r
		}
	}
	if q.AtOnce = p.retries() && !q.Retry && q.Due == AtOnce; q.AtOnce {
		q.Pause = p.backoff.pause(q.Round, offset)
	}
	if r := p.where(q, headers, at); r != nil {
		return r
	}
	if raw := value(headers, at[fieldExpires]); len(raw) > 0 && !p.retries() {
		if r := q.expiry(raw, due != 0); r != nil {
			return r
		}
	}
	if q.Retry {
		q.ByBackoff = p.retries()
		return nil
	}
	if q.Jitter = p.Jitter(*m, offset); due == 0 {
		q.Jitter = min(q.Jitter, maxDueMillis-q.Due)
		q.Due += q.Jitter
	}
	return nil
}

// cancelOfOurs finds a cancel as it is forwarded: a record of delay-cancel, whatever the prefix is, and our mark behind it. Without that it is a
// header of its producer's.
func (n *headerMap) cancelOfOurs(headers []kgo.RecordHeader) (seen uint32) {
	if len(headers) != 2 || headers[0].Key != HeaderCancel || headers[1].Key != HeaderForwarded {
		return 0
	}
	n.at[fieldCancel] = 1
	return 1 << fieldCancel
}

// Pauses are the shortest and the longest pause that the backoff of a retry route gives a request, in ms: which one of those follows from its offset.
func Pauses(p *Parser, q *Request) (least, most int64) { return p.backoff.bounds(q.Round) }

// Jitter is what is added to the due time of the request at an offset of a partition, in ms.
func (p *Parser) Jitter(m Mark, offset int64) int64 {
	if p.jitter == 0 {
		return 0
	}
	seed := uint64(binary.BigEndian.Uint32(m.id[:]))<<32 | uint64(uint32(m.number))
	return int64((spread(seed^spread(uint64(offset))) >> 1) % uint64(p.jitter+1))
}

// spread spreads every bit over all others (splitmix64).
func spread(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// AtOnce is the due time of a record of a retry route that came at a time that is not known: the earliest that there is, in ms.
const AtOnce = 1

// round reads which delivery of a retry route has failed.
func (q *Request) round(raw []byte) *Refusal {
	if len(raw) == 0 {
		return nil
	}
	n, ok := parseCount(trim(raw))
	if !ok || n > mostRounds {
		return refuse(CodeInvalidAttempt, StageParse, HeaderAttempt, raw, "the number of an attempt is 0 to %d; it goes back as it came with the delivered record", mostRounds)
	}
	q.Round = int(n)
	return nil
}

// expiry reads after what time the record is of no use.
func (q *Request) expiry(raw []byte, again bool) *Refusal {
	c := open(raw)
	if len(c.b) == 0 {
		return nil
	}
	n, _, f := parseUntil(c)
	switch {
	case f.code != "":
		return refuse(CodeInvalidExpiry, StageParse, HeaderExpires, raw, "%s%s", f.why, hint(true, raw))
	case !q.Retry && !again && n < q.Due:
		return refuse(CodeExpired, StageParse, HeaderExpires, raw, "it expires at %s, before it is due at %s", format(n), format(q.Due))
	}
	q.Expires = n
	return nil
}

// value returns the value of a header by what Parse noted of it. An empty value
// is an absent header (kcat -H name, an outbox column that is null).
func value(headers []kgo.RecordHeader, at int32) []byte {
	if at == 0 {
		return nil
	}
	return headers[at-1].Value
}
