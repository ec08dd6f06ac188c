package topics

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// where reads where to deliver.
func (p *Parser) where(q *Request, headers []kgo.RecordHeader, at *[fields]int32) *Refusal {
	if raw := value(headers, at[fieldTopic]); len(bare(raw)) > 0 {
		q.Target, q.TargetBy = trim(bare(raw)), headers[at[fieldTopic]-1].Key
		if !validTopic(q.Target) {
			return refuse(CodeInvalidTarget, StageParse, HeaderTargetTopic, raw,
				"a topic name is "+whatAName)
		}
	}
	if len(p.sources) > 0 && len(bare(value(headers, at[fieldTopic]))) == 0 {
		q.source(headers, p.sources)
	}
	if raw := value(headers, at[fieldKey]); len(raw) > 0 {
		q.Key, q.HasKey = raw, true
	}
	if raw := value(headers, at[fieldPartition]); len(bare(raw)) > 0 {
		n, ok := parseCount(trim(bare(raw)))
		if !ok || n > 1<<31-1 {
			return refuse(CodeInvalidPartition, StageParse, HeaderTargetPartition, raw, "a partition is a decimal number from 0")
		}
		q.Partition = int32(n)
	}
	return nil
}

// source takes for the target what another system says of where a failed record was. The first of the names that the record has counts. Which names
// do is a matter of today's configuration, so one that can be that of no topic is refused by Route.Refuse, and not for ever.
func (q *Request) source(headers []kgo.RecordHeader, names []string) {
	for _, name := range names {
		for i := len(headers) - 1; i >= 0; i-- {
			v := bare(headers[i].Value)
			if headers[i].Key != name || len(v) == 0 {
				continue
			}
			q.Target, q.TargetBy = trim(v), name
			return
		}
	}
}

// whatAName says validTopic's rule.
const whatAName = "1 to 249 of a-z A-Z 0-9 . _ -, and neither . nor .."

// validTopic is Kafka's own rule for topic names.
func validTopic[T ~string | ~[]byte](name T) bool {
	if len(name) == 0 || len(name) > 249 || string(name) == "." || string(name) == ".." {
		return false
	}
	for i := range len(name) {
		if !topicByte(name[i]) {
			return false
		}
	}
	return true
}

// CheckTopic returns an error that says so where a name can be that of no topic.
func CheckTopic(name string) error {
	if validTopic(name) {
		return nil
	}
	return fmt.Errorf("%q is not a topic name: %s", name, whatAName)
}

func topicByte(c byte) bool { return topicBytes[c] }

var topicBytes = func() (t [256]bool) {
	for _, c := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-" {
		t[c] = true
	}
	return t
}()

// Names is the target that a record names, or else the route's own, whatever else it asks for and whether or not that can be understood: what
// a person is shown of a record that was refused. It may be no topic name.
func (r *Route) Names(rec *kgo.Record) string {
	p := r.Parser()
	var n headerMap
	var q Request
	for i := range rec.Headers {
		if f := fieldOf(rec.Headers[i].Key, p.ours()); f != other {
			n.at[f] = int32(i) + 1
		}
	}
	_ = p.substitute(&q, &n, rec.Headers) // what it has understood until it refuses counts
	if name := trim(bare(value(rec.Headers, n.at[fieldTopic]))); len(name) > 0 {
		return string(name)
	}
	q.source(rec.Headers, p.sources)
	if len(q.Target) > 0 {
		return string(q.Target)
	}
	return r.Target
}
