package topics

import "github.com/twmb/franz-go/pkg/kgo"

// where reads where to deliver.
func (p *Parser) where(q *Request, headers []kgo.RecordHeader, at *[fields]int32) *Refusal {
	if raw := value(headers, at[fieldTopic]); len(raw) > 0 {
		q.Target, q.TargetBy = trim(raw), HeaderTargetTopic
		if !validTopic(q.Target) {
			return refuse(CodeInvalidTarget, StageParse, HeaderTargetTopic, raw,
				"a topic name has 1 to 249 of a-z A-Z 0-9 . _ - and is neither . nor ..")
		}
	}
	if len(p.sources) > 0 && len(value(headers, at[fieldTopic])) == 0 {
		if r := q.source(headers, p.sources); r != nil {
			return r
		}
	}
	if raw := value(headers, at[fieldKey]); len(raw) > 0 {
		q.Key, q.HasKey = raw, true
	}
	if raw := value(headers, at[fieldPartition]); len(raw) > 0 {
		n, ok := parseCount(trim(raw))
		if !ok || n > 1<<31-1 {
			return refuse(CodeInvalidPartition, StageParse, HeaderTargetPartition, raw, "a partition is a decimal number from 0")
		}
		q.Partition = int32(n)
	}
	return nil
}

// source takes for the target what another system says of where a failed record was. The first of the names that the record has counts.
func (q *Request) source(headers []kgo.RecordHeader, names []string) *Refusal {
	for _, name := range names {
		for i := len(headers) - 1; i >= 0; i-- {
			if headers[i].Key != name || len(headers[i].Value) == 0 {
				continue
			}
			q.TargetBy = name
			if q.Target = trim(headers[i].Value); !validTopic(q.Target) {
				return refuse(CodeInvalidTarget, StageParse, name, headers[i].Value,
					"a topic name has 1 to 249 of a-z A-Z 0-9 . _ - and is neither . nor ..")
			}
			return nil
		}
	}
	return nil
}

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

func topicByte(c byte) bool { return topicBytes[c] }

var topicBytes = func() (t [256]bool) {
	for _, c := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-" {
		t[c] = true
	}
	return t
}()
