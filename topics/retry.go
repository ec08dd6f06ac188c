package topics

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Origin names the request as its producer wrote it, in the same partition. A retry carries it
// along, so that the delivered record names the first offset, however often it was tried.
type Origin struct {
	Offset    int64
	Timestamp int64 // ms since the epoch, -1 when the record has none
	Due       int64 // ms since the epoch
}

// Retry is what a retry record carries for us.
type Retry struct {
	Due     int64  // the next attempt, ms since the epoch
	Attempt int    // attempts so far
	Origin  Origin // Request.First of the record that was tried
	Names   string // NamesOf the parser of the request
}

// AppendRetry appends to dst the headers of a retry record: in, which is the request as it was
// written (Mark.Written), and one header of ours behind it. It belongs in the partition that the
// record came from. There is no id among what counts: with one it would replace a later request of
// the user.
func AppendRetry(dst, in []kgo.RecordHeader, m Mark, r Retry, buf []byte) ([]kgo.RecordHeader, []byte) {
	w := writer{headers: append(dst, in...), buf: buf}
	start := len(w.buf)
	w.buf = m.appendTo(w.buf, r.Origin.Offset, max(r.Origin.Timestamp, -1), r.Origin.Due, int64(r.Attempt), r.Due)
	w.names(r.Names)
	w.take(HeaderRetry, start)
	return w.headers, w.buf
}

// names appends what is said of names behind numbers.
func (w *writer) names(names string) {
	if names != "" {
		w.buf = append(append(w.buf, ':'), names...)
	}
}

// Written returns what a record at an offset was tried as before, if it is a retry of ours, and
// its headers as the producer of the request, or of a cancel that was forwarded, wrote them.
func (m Mark) Written(headers []kgo.RecordHeader, offset int64) (written []kgo.RecordHeader, r Retry, retried bool) {
	last := len(headers) - 1
	if last < 0 || headers[last].Key != HeaderRetry && headers[last].Key != HeaderForwarded {
		return headers, Retry{}, false
	}
	if headers[last].Key == HeaderForwarded {
		if who, _ := m.author(headers[last].Value); who == thisGroup {
			headers = headers[:last]
		}
		return headers, Retry{}, false
	}
	r, who := m.retry(headers[last].Value, offset)
	if who != thisGroup {
		return headers, Retry{}, false
	}
	return headers[:last], r, true
}

// retry reads the value of a retry header.
func (m Mark) retry(value []byte, offset int64) (Retry, author) {
	who, rest := m.author(value)
	if who != thisGroup {
		return Retry{}, who
	}
	var n [5]int64
	numbers, names := cutNames(rest)
	if !parseNumbers(numbers, n[:]) {
		return Retry{}, elsewhere
	}
	r := Retry{Origin: Origin{Offset: n[0], Timestamp: n[1], Due: n[2]}, Attempt: int(n[3]), Due: n[4], Names: names}
	if n[0] < 0 || n[0] >= offset || n[2] < 0 || n[3] < 0 || n[3] > 1<<30 || n[4] < 1 || n[4] > maxDueMillis {
		return Retry{}, elsewhere // made up: it does not look back, or at no instant
	}
	return r, thisGroup
}

// cutNames takes off what AppendRetry says of names, behind the mark.
func cutNames(b []byte) (numbers []byte, names string) {
	at := bytes.LastIndexByte(b, ':') + 1
	if at == 0 || at == len(b) || strings.IndexByte("!^~/"+forRetry, b[at]) < 0 {
		return b, ""
	}
	return b[:at-1], string(b[at:])
}

// forRetry begins what a retry says of names where its request came to a retry route.
const forRetry = "+"

// NamesOf is what a request must be read by for its headers to mean what they do for a parser: which aliases hold, and the prefix of ours, as a spec says it
// where records say when they are due; before them whether the key is the id, the jitter that is in its due time, and first whether it came to a retry route, which passes over what it
// says of time. What a route is by the time that a retry is read, and what is usual there, says nothing of its request.
func NamesOf(p *Parser) string {
	names := aliasSpec(usualAliases, p.aliases, p.ours())
	if p.keyed {
		names = keyIsID + names
	}
	if p.jitter > 0 {
		names = "~" + strconv.FormatInt(p.jitter, 10) + names
	}
	if p.retries() {
		names = forRetry + names
	}
	return names
}

// keyIsID is how a spec says that.
const keyIsID = "/k"

// former is a parser by which requests are read whose names another one may have written.
type former struct {
	aliases presetSet
	prefix  string
	jitter  int64
	keyed   bool
	retries bool
}

func formerOf(p *Parser) former {
	return former{p.aliases, p.ours(), p.jitter, p.keyed, p.retries()}
}

// readNames is the inverse of NamesOf; false when it says something else.
func readNames(names string) (f former, ok bool) {
	names, f.retries = strings.CutPrefix(names, forRetry)
	rest, aliases, prefix, ok := cutAliases(Spec(0) + names)
	f.aliases, f.prefix = aliases, prefix
	rest, f.keyed = strings.CutSuffix(rest, keyIsID)
	f.jitter, _ = parseCount([]byte(strings.TrimPrefix(rest, Spec(0)+"~")))
	return f, ok
}

// ParserOf is the parser by which the request of a record is read where p reads: a retry has the headers that it was written with, whatever their names are
// today, the jitter that was its route's, and whether that was one for retries. Of all others it is p.
func ParserOf(p *Parser, headers []kgo.RecordHeader, offset int64, m *Mark) *Parser {
	last := len(headers) - 1
	if last < 0 || headers[last].Key != HeaderRetry {
		return p
	}
	r, who := m.retry(headers[last].Value, offset)
	if who != thisGroup {
		return p
	}
	f, ok := readNames(r.Names)
	if !ok || f == formerOf(p) {
		return p
	}
	as := *p
	as.aliases, as.prefix, as.jitter, as.keyed = f.aliases, f.prefix, f.jitter, f.keyed
	if f.retries != p.retries() {
		as.backoff = backoff{} // a retry says itself when it is due
		if f.retries {
			as.backoff.initial = 1
		}
	}
	return &as
}
