package topics

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Renew returns the headers of a record that takes the place of another one, to be due at another time: those of the other one that ask for
// nothing, in their order, and before them what it asks for, in the names that the parser p has for it. p is the one that will read the new
// record. by is the one that has read the other as q, from headers; name is what it is called (its id or its handle), and due says when
// the new one is due, in HeaderUntil or HeaderFor.
func (p *Parser) Renew(by *Parser, q *Request, headers []kgo.RecordHeader, name string, due kgo.RecordHeader) []kgo.RecordHeader {
	var all []kgo.RecordHeader
	ask := func(header string, value []byte) {
		all = append(all, kgo.RecordHeader{Key: p.Name(header), Value: value})
	}
	ask(HeaderReplace, inQuotes(name, p.keyed))
	ask(due.Key, due.Value)
	if q.TargetBy != "" {
		ask(HeaderTargetTopic, slices.Clone(q.Target))
	}
	if q.HasKey {
		ask(HeaderTargetKey, slices.Clone(q.Key))
	}
	if q.Partition >= 0 {
		ask(HeaderTargetPartition, strconv.AppendInt(nil, int64(q.Partition), 10))
	}
	if q.ID != nil && !p.keyed {
		ask(HeaderID, inQuotes(string(q.ID), false))
	}
	if q.Expires > 0 {
		ask(HeaderExpires, strconv.AppendInt(nil, q.Expires, 10))
	}
	for _, h := range headers {
		if f := fieldOf(h.Key, by.ours()); ownRequest>>f&1 == 0 && !q.Preset.strips(h.Key) {
			all = append(all, h)
		}
	}
	return all
}

// DueNow asks a parser for a record at once, ms being the time that it is: what its route may add is over by then, too.
func DueNow(p *Parser, ms int64) kgo.RecordHeader {
	return kgo.RecordHeader{Key: HeaderUntil, Value: strconv.AppendInt(nil, ms-p.jitter, 10)}
}

// NameOf is an id as delay-cancel has it for a parser, so that it is read as the same id again.
func NameOf(p *Parser, id []byte) []byte { return inQuotes(string(id), p.keyed) }

// inQuotes is an id or a handle as a header has it: as it is, or where something of it would be taken off, in quotes, or an envelope. Where ids are keys
// they are bytes.
func inQuotes(name string, key bool) []byte {
	if key || string(bare([]byte(name))) == name {
		return []byte(name)
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		panic("topics: BUG: " + err.Error())
	}
	if string(bare(quoted)) == name {
		return quoted
	}
	return fmt.Appendf(nil, `{"payload":%s}`, quoted) // of quotes in quotes all are taken off
}
