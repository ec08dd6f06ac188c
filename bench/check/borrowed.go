package check

import "github.com/twmb/franz-go/pkg/kgo"

// borrowedNames are the headers of other tools that tests ask by: those of etf1's scheduler. A record that asks by one of the processor's own headers
// has them for itself.
var borrowedNames = []string{"scheduler-epoch", "scheduler-target-topic", "scheduler-target-key"}

// borrows tells whether a request asks by headers of other tools.
func (rt *route) borrows(headers []kgo.RecordHeader) bool {
	if rt.Delay > 0 || rt.Retry != nil {
		return false
	}
	says := false
	for _, h := range headers {
		says = says || h.Key == "scheduler-epoch" && len(h.Value) > 0
	}
	if !says {
		return false
	}
	a := read(headers)
	for _, own := range [][]byte{a.until, a.lasting, a.topic, a.key, a.partition, a.cancel, a.replace, a.expires, a.id} {
		if len(own) > 0 {
			return false
		}
	}
	return true
}

// borrowed reads them.
func borrowed(headers []kgo.RecordHeader) asked {
	var a asked
	for _, h := range headers {
		switch h.Key {
		case "scheduler-epoch":
			a.until = h.Value
		case "scheduler-target-topic":
			a.topic = h.Value
		case "scheduler-target-key":
			a.key = h.Value
		}
	}
	a.unsupported = read(headers).unsupported
	return a
}
