package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// readForms are headers that say when in one form each: what most producers write first, and then whatever other forms there are.
var readForms = []kgo.RecordHeader{
	asked(topics.HeaderUntil, "1767225605123"),
	asked(topics.HeaderUntil, "1767225605"),
	asked(topics.HeaderUntil, "1.767225605123E9"),
	asked(topics.HeaderUntil, "1767225605123456789"),
	asked(topics.HeaderUntil, "2026-01-01T00:00:05.123Z"),
	asked(topics.HeaderUntil, "2026-01-01T01:00+01:00[Europe/Paris]"),
	asked(topics.HeaderUntil, "2026-01-01"),
	asked(topics.HeaderUntil, `"2026-01-01T00:00:05.123Z"`),
	asked(topics.HeaderUntil, `"\"2026-01-01T00:00:05.123Z\""`),
	asked(topics.HeaderUntil, "\x00\x00\x01\x9b\x76\xda\xbc\x03"),
	asked(topics.HeaderUntil, "\x01\x9b\x76\xda\xbc\x03"),
	asked(topics.HeaderUntil, `{"schema":{"type":"int64","optional":false},"payload":1767225605123}`),
	asked(topics.HeaderUntil, `{"schema":{"type":"int64","optional":false,"name":"io.debezium.time.MicroTimestamp","version":1},"payload":1767225605123456}`),
	asked(topics.HeaderUntil, `{"schema":{"type":"bytes","optional":false,"name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"3"}},"payload":"AZt22rwD"}`),
	asked(topics.HeaderFor, "300000"),
	asked(topics.HeaderFor, "1h30m"),
	asked(topics.HeaderFor, "PT5M"),
	asked(topics.HeaderFor, "P1M"),
	asked(topics.HeaderFor, "2 days, 0:00:05"),
	asked(topics.HeaderFor, "\x00\x04\x93\xe0"),
	asked(topics.HeaderFor, `{"schema":{"type":"int64","optional":false,"name":"io.debezium.time.MicroDuration","version":1},"payload":300000000}`),
}

func asked(name, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: name, Value: []byte(value)}
}

const (
	formRounds = 300 // the quickest of so many counts: in the others the machine has done something else, too
	formReads  = 200 // in a round
)

// forms measures what it costs to read when a record is due.
func forms(_ context.Context, r *runner) ([]Result, error) {
	parser, err := topics.ParserFor(topics.Spec(0))
	if err != nil {
		return nil, err
	}
	f := Figures{"other_ns": 0}
	slowest := ""
	for i, h := range readForms {
		ns, allocations, err := readForm(parser, h)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", h.Key, h.Value, err)
		}
		r.progress("forms: %s %q: %.0f ns, %.0f allocations", h.Key, h.Value, ns, allocations)
		if i == 0 {
			f["millis_ns"], f["millis_allocations"] = ns, allocations
		} else if ns > f["other_ns"] {
			f["other_ns"], slowest = ns, string(h.Value)
		}
	}
	return []Result{{
		Case: "forms",
		What: fmt.Sprintf("how long it takes to understand a record whose one header says when it is due: in decimal milliseconds, and in the slowest of %d other forms, which is `%s`. The quickest of %d rounds of %d.",
			len(readForms)-1, slowest, formRounds, formReads),
		Measured: fmt.Sprintf("%.0f ns, %.0f allocations; other forms ≤ %.0f ns", f["millis_ns"], f["millis_allocations"], f["other_ns"]),
		Figures:  f, Checked: "each one is understood",
	}}, nil
}

// readForm is how long it takes to understand a record with a header, and what it allocates.
func readForm(parser *topics.Parser, h kgo.RecordHeader) (ns, allocations float64, err error) {
	headers, written, mark := []kgo.RecordHeader{h}, topics.Stamp{Millis: time.Now().UnixMilli()}, topics.Mark{}
	quickest := time.Duration(math.MaxInt64)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range formRounds {
		began := time.Now()
		for range formReads {
			if _, err := parser.Parse(headers, written, 0, mark); err != nil {
				return 0, 0, err
			}
		}
		quickest = min(quickest, time.Since(began))
	}
	runtime.ReadMemStats(&after)
	return float64(quickest) / formReads, math.Floor(float64(after.Mallocs-before.Mallocs) / (formRounds * formReads)), nil
}
