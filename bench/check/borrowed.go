package check

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// borrowable are the headers of other tools by which a request may ask. A record that asks by one of the processor's own headers has them
// for itself.
var borrowable = []struct {
	tool, name string
	says       bool // when the request is due
	stays      bool // on what is delivered
	seconds    bool // a number is one of seconds
	in         func(*asked) *[]byte
}{
	{"plain", "deliver-at", true, false, false, func(a *asked) *[]byte { return &a.until }},
	{"plain", "deliver-after", true, false, false, func(a *asked) *[]byte { return &a.lasting }},
	{"plain", "x-delay", true, false, false, func(a *asked) *[]byte { return &a.lasting }},
	{"etf1", "scheduler-epoch", true, false, true, func(a *asked) *[]byte { return &a.until }},
	{"etf1", "scheduler-target-topic", false, false, false, func(a *asked) *[]byte { return &a.topic }},
	{"etf1", "scheduler-target-key", false, false, false, func(a *asked) *[]byte { return &a.key }},
	{"karafka", "schedule_target_epoch", true, false, true, func(a *asked) *[]byte { return &a.until }},
	{"karafka", "schedule_target_topic", false, false, false, func(a *asked) *[]byte { return &a.topic }},
	{"karafka", "schedule_target_key", false, false, false, func(a *asked) *[]byte { return &a.key }},
	{"karafka", "schedule_target_partition", false, false, false, func(a *asked) *[]byte { return &a.partition }},
	{"karafka", "schedule_target_partition_key", false, false, false, nil},
	{"karafka", "schedule_source_type", false, false, false, nil},
	{"karafka", "schedule_schema_version", false, false, false, nil},
	{"cloudevents", "ce_deliverat", true, false, false, func(a *asked) *[]byte { return &a.until }},
	{"cloudevents", "ce_deliverafter", true, false, false, func(a *asked) *[]byte { return &a.lasting }},
	{"cloudevents", "ce_expirytime", false, true, false, func(a *asked) *[]byte { return &a.expires }},
	{"spring-retry", "retry_topic-backoff-timestamp", true, false, false, func(a *asked) *[]byte { return &a.until }},
	{"spring-retry", "kafka_original-topic", false, true, false, func(a *asked) *[]byte { return &a.topic }},
}

// usualTools are those whose headers are understood where a route says nothing of them.
var usualTools = []string{"plain", "etf1", "karafka", "cloudevents"}

// knows tells whether the headers of a tool may say when a request is due.
func (rt *route) knows(tool string) bool {
	if rt.Tools != nil {
		return slices.Contains(rt.Tools, tool)
	}
	return slices.Contains(usualTools, tool)
}

// borrows is the tool by whose headers a request asks that asks for a by the processor's own, and whether there are several, which
// contradict each other; "": by none.
func (rt *route) borrows(headers []kgo.RecordHeader, a *asked) (tool string, several bool) {
	if rt.Delay > 0 || rt.Retry != nil || a.asks() {
		return "", false
	}
	for _, b := range borrowable {
		v := plain(lastOf(headers, b.name))
		cancels := b.name == "schedule_source_type" && string(v) != "schedule"
		if len(v) == 0 || !rt.knows(b.tool) || !b.says && !cancels {
			continue
		}
		several = several || tool != "" && tool != b.tool
		tool = cmp.Or(tool, b.tool)
	}
	return tool, several
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
func borrowed(a *asked, headers []kgo.RecordHeader, tool string, keyed bool) {
	for _, b := range borrowable {
		v := lastOf(headers, b.name)
		switch {
		case b.tool != tool:
		case b.name == "schedule_target_partition_key":
			a.refused = a.refused || len(plain(v)) > 0
		case b.name == "schedule_source_type":
			switch text(plain(v)) {
			case "", "schedule":
			case "cancel", "tombstone":
				a.byKey = keyed
				a.refused = a.refused || !keyed
			default:
				a.refused = true
			}
		case b.in == nil, len(v) == 0:
		default:
			at := b.in(a)
			if len(plain(*at)) > 0 {
				continue
			}
			said := inTime(v, at == &a.lasting)
			if at == &a.key {
				said = v
			}
			_, is := unwrapped(v)
			a.seconds = a.seconds || b.seconds && len(said) > 0 && !is.instant()
			*at = said
		}
	}
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
