package check

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// borrowable are the headers of other tools by which a request may ask: where they are understood unless a route says otherwise. A record
// that asks by one of the processor's own headers has them for itself.
var borrowable = []struct {
	tool, name string
	says       bool // when the request is due
	stays      bool // on what is delivered
	in         func(*asked) *[]byte
}{
	{"plain", "deliver-at", true, false, func(a *asked) *[]byte { return &a.until }},
	{"plain", "deliver-after", true, false, func(a *asked) *[]byte { return &a.lasting }},
	{"plain", "x-delay", true, false, func(a *asked) *[]byte { return &a.lasting }},
	{"etf1", "scheduler-epoch", true, false, func(a *asked) *[]byte { return &a.until }},
	{"etf1", "scheduler-target-topic", false, false, func(a *asked) *[]byte { return &a.topic }},
	{"etf1", "scheduler-target-key", false, false, func(a *asked) *[]byte { return &a.key }},
	{"karafka", "schedule_target_epoch", true, false, func(a *asked) *[]byte { return &a.until }},
	{"karafka", "schedule_target_topic", false, false, func(a *asked) *[]byte { return &a.topic }},
	{"karafka", "schedule_target_key", false, false, func(a *asked) *[]byte { return &a.key }},
	{"karafka", "schedule_target_partition", false, false, func(a *asked) *[]byte { return &a.partition }},
	{"karafka", "schedule_source_type", false, false, nil},
	{"karafka", "schedule_schema_version", false, false, nil},
	{"cloudevents", "ce_deliverat", true, false, func(a *asked) *[]byte { return &a.until }},
	{"cloudevents", "ce_deliverafter", true, false, func(a *asked) *[]byte { return &a.lasting }},
	{"cloudevents", "ce_expirytime", false, true, func(a *asked) *[]byte { return &a.expires }},
}

// borrows is the tool by whose headers a request asks; "": by none.
func (rt *route) borrows(headers []kgo.RecordHeader) string {
	if rt.Delay > 0 || rt.Retry != nil {
		return ""
	}
	tool := ""
	for _, b := range borrowable {
		if b.says && len(lastOf(headers, b.name)) > 0 {
			tool = b.tool
			break
		}
	}
	if tool == "" {
		return ""
	}
	a := read(headers)
	for _, own := range [][]byte{a.until, a.lasting, a.topic, a.key, a.partition, a.cancel, a.replace, a.expires, a.id} {
		if len(own) > 0 {
			return ""
		}
	}
	return tool
}

// lastOf is the value of the last header of a name.
func lastOf(headers []kgo.RecordHeader, name string) (v []byte) {
	for i := range headers {
		if headers[i].Key == name {
			v = headers[i].Value
		}
	}
	return v
}

// borrowed reads what the headers of a tool ask for. Of those that mean the same the first one counts.
func borrowed(headers []kgo.RecordHeader, tool string) asked {
	var a asked
	for _, b := range borrowable {
		if b.tool != tool || b.in == nil {
			continue
		}
		if at := b.in(&a); len(*at) == 0 {
			*at = lastOf(headers, b.name)
		}
	}
	a.unsupported = read(headers).unsupported
	return a
}

// returned are the headers of a request that asks by a tool's, without those that are not delivered.
func returned(headers []kgo.RecordHeader, tool string) []kgo.RecordHeader {
	return slices.DeleteFunc(slices.Clone(headers), func(h kgo.RecordHeader) bool {
		for _, b := range borrowable {
			if b.tool == tool && b.name == h.Key {
				return !b.stays
			}
		}
		return false
	})
}
