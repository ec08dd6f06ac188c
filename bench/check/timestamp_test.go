package check

import (
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A route may give delivered records another timestamp than that of their delivery. That is compared, and says nothing of when they came;
// delay-fired does, and so does a broker that writes its own time.
func TestTimestampOfARoute(t *testing.T) {
	for _, tt := range []struct {
		name      string
		timestamp string
		surveyed  bool
		written   time.Time
		byBroker  bool
		fired     time.Time // zero: the record does not say
		want      map[Kind]int64
		untimed   int64
	}{
		{"due, as it is to be", "due", false, due, false, time.Time{}, nil, 1},
		{"due, and it says when it was fired", "due", false, due, false, due.Add(time.Millisecond), nil, 0},
		{"due, and fired early", "due", false, due, false, due.Add(-time.Second), map[Kind]int64{Early: 1}, 0},
		{"due, and fired late", "due", false, due, false, due.Add(time.Hour), map[Kind]int64{}, 0},
		{"due, and another timestamp", "due", false, due.Add(time.Second), false, time.Time{}, map[Kind]int64{Altered: 1}, 1},
		{"due, and before that", "due", true, due.Add(-time.Minute), false, time.Time{}, map[Kind]int64{Altered: 1}, 1},
		{"due, delivered under an earlier setting", "due", true, due.Add(time.Second), false, time.Time{}, nil, 1},
		{"due, fired late in a survey", "due", true, due, false, due.Add(time.Hour), map[Kind]int64{Late: 1}, 0},
		{"due, in a topic with LogAppendTime", "due", true, due.Add(time.Second), true, time.Time{}, nil, 0},
		{"due, early in a topic with LogAppendTime", "due", true, due.Add(-time.Second), true, time.Time{}, map[Kind]int64{Early: 1}, 0},
		{"original, as it is to be", "original", false, now, false, due.Add(time.Millisecond), nil, 0},
		{"original, and another timestamp", "original", false, now.Add(time.Second), false, due.Add(time.Millisecond), map[Kind]int64{Altered: 1}, 0},
		{"original, and the record does not say which that is", "original", true, now, false, time.Time{}, nil, 1},
		{"fired, and early", "fired", true, due.Add(-time.Second), false, time.Time{}, map[Kind]int64{Early: 1}, 0},
	} {
		for _, first := range []string{"request", "arrival"} {
			t.Run(tt.name+"/"+first+" first", func(t *testing.T) {
				w := newWorld()
				w.config.Routes[0].Timestamp, w.config.Late = tt.timestamp, time.Minute
				if tt.surveyed {
					w.config.Survey = knows{}
				}
				q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
				d := w.deliver(q, due)
				if d.Timestamp = tt.written; tt.byBroker {
					d.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1})
				}
				if set(d, "delay-fired", millis(tt.fired)); tt.fired.IsZero() {
					w.config.Routes[0].Emit = "source"
					drop(d, "delay-fired")
					drop(d, "delay-source-timestamp")
				}
				c := newChecker(t, w.config)
				if tt.surveyed {
					c.Window(q.Topic, q.Partition, 0, math.MaxInt64)
				}
				feed := func(r *kgo.Record) {
					if r == q {
						c.Requested(q)
						return
					}
					c.Delivered(d, time.Time{})
				}
				order := []*kgo.Record{q, d}
				if first == "arrival" {
					order = []*kgo.Record{d, q}
				}
				for _, r := range order {
					feed(r)
				}
				got := c.Report()
				for _, k := range Kinds() {
					if got.Count(k) != tt.want[k] {
						t.Errorf("%v: %d, want %d\n%v", k, got.Count(k), tt.want[k], got)
					}
				}
				if got.Untimed != tt.untimed {
					t.Errorf("of %d it is not known when they were delivered, want %d", got.Untimed, tt.untimed)
				}
			})
		}
	}
}
