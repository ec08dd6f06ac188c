package verify

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
)

// deliveries knows the records that a processor writes, by their headers.
type deliveries struct {
	prefixes []string        // of the headers of the routes
	untimed  map[string]bool // delay topics whose deliveries have another timestamp than that of their delivery
}

func (d *deliveries) know(r *check.Route) {
	if prefix := cmp.Or(r.Prefix, "delay-"); !slices.Contains(d.prefixes, prefix) {
		d.prefixes = append(d.prefixes, prefix)
	}
	if r.Timestamp != "" && r.Timestamp != "fired" {
		if d.untimed == nil {
			d.untimed = make(map[string]bool)
		}
		d.untimed[r.Topic] = true
	}
}

// writtenAt is when a processor has written a record, in ms: such times rise with the log. It is false where another program has written it, or
// nothing says when that was.
func (d *deliveries) writtenAt(r *kgo.Record) (millis int64, ok bool) {
	ours, fired := false, int64(-1)
	for _, h := range r.Headers {
		if h.Key == "__delay.errors.code" {
			return r.Timestamp.UnixMilli(), true
		}
		for _, prefix := range d.prefixes {
			switch name, of := strings.CutPrefix(h.Key, prefix); {
			case !of:
			case name == "source":
				topic, _, _ := bytes.Cut(h.Value, []byte("/"))
				if ours, fired = true, r.Timestamp.UnixMilli(); d.untimed[string(topic)] { // the last one counts: others are of routes before
					fired = -1
				}
			case name == "fired" && fired < 0:
				if n, err := strconv.ParseInt(string(h.Value), 10, 64); err == nil {
					fired = n
				}
			}
		}
	}
	const byBroker = 1
	if ours && r.Attrs.TimestampType() == byBroker {
		return r.Timestamp.UnixMilli(), true
	}
	return fired, ours && fired >= 0
}

// anyUntimed tells whether the timestamps of targets need not rise with the log.
func (d *deliveries) anyUntimed() bool { return len(d.untimed) > 0 }
