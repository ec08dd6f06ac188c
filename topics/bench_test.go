package topics

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// usual are headers as most records have them: a due time, a target, and four
// of the user's.
func usual(due, value string) []kgo.RecordHeader {
	return headers("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", due, value,
		"content-type", "application/json", "delay-target-topic", "billing.invoices", "tenant", "42", "id", "8c7a")
}

var ordinary = []struct {
	name    string
	spec    string
	headers []kgo.RecordHeader
}{
	{"millis", "p1", usual("delay-until", "1767225605123")},
	{"envelope", "p1", usual("delay-until", `{"schema":{"type":"int64","optional":false,"name":"io.debezium.time.Timestamp","version":1},"payload":1767225605123}`)},
	{"seconds", "p1", usual("delay-until", "1767225605.123")},
	{"rfc3339", "p1", usual("delay-until", "2026-01-01T00:00:05.123Z")},
	{"binary", "p1", usual("delay-until", "\x00\x00\x01\x9b\x76\xda\xbc\x03")},
	{"go", "p1", usual("delay-for", "1h30m")},
	{"micros", "p1", usual("delay-for", "100µs")},
	{"iso8601", "p1", usual("delay-for", "P1DT2H")},
	{"month", "p1", usual("delay-for", "P1M")},
	{"fixed", "p1+300000", headers("tenant", "42")},
	{"partition", "p1", headers("delay-for", "5m", "delay-target-topic", "o", "delay-target-key", "k", "delay-target-partition", "3")},
	{"retry", "p1", headers("a", "b", "delay-until", "1767225605123", "delay-retry", "a8098c1a:billing:3:41:1767225600000:1767225601000:3:1767225605123")},
	{"resolve", "p1", Resolve(ours, 41, T, 41)},
}

// TestNoAllocations: what each record passes through costs the collector
// nothing.
func TestNoAllocations(t *testing.T) {
	r := route(t, Route{Target: "orders", Allow: []string{"o", "billing.*"}, MaxDelay: 1 << 62})
	dst, buf := make([]kgo.RecordHeader, 0, 32), make([]byte, 0, 512)
	d := Delivered{Topic: "delay-requests", Fired: T, Attempt: 1}
	for _, tt := range ordinary {
		p, err := r.ParserFor(tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() {
			q, err := p.Parse(tt.headers, Stamp{Millis: T}, 42, ours)
			if err != nil || r.Refuse(&q, T) != nil {
				t.Fatal(err, r.Refuse(&q, T))
			}
			if err := p.Again(&q, tt.headers, Stamp{}, q.Due, 42, &ours); err != nil {
				t.Fatal(err)
			}
			d.Origin = q.First(42, T)
			AppendDelivered(dst, tt.headers, &d, buf)
			AppendRetry(dst, tt.headers, ours, Retry{Due: T, Attempt: 1, Origin: q.First(42, T)}, buf)
			RecordSize(nil, nil, tt.headers)
		}); n != 0 {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, tt := range ordinary {
		b.Run(tt.name, func(b *testing.B) {
			p := parser(b, tt.spec)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Parse(tt.headers, Stamp{Millis: T}, 42, ours); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRefuse(b *testing.B) {
	r := route(b, Route{Allow: []string{"orders", "billing.*"}, MaxDelay: 1 << 62}, Route{Topic: "delay-5m", DeadLetter: "dead", Target: "x"})
	for _, target := range []string{"orders", "billing.invoices"} {
		b.Run(target, func(b *testing.B) {
			q := Request{Target: []byte(target), Due: T}
			b.ReportAllocs()
			for b.Loop() {
				if r.Refuse(&q, T) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkAppendDelivered(b *testing.B) {
	hs := usual("delay-until", "1767225605123")
	dst, buf := make([]kgo.RecordHeader, 0, 32), make([]byte, 0, 512)
	d := Delivered{Topic: "delay-requests", Partition: 3, Origin: Origin{Offset: 123456789, Timestamp: T, Due: T}, Fired: T}
	b.ReportAllocs()
	for b.Loop() {
		AppendDelivered(dst, hs, &d, buf)
	}
}

func BenchmarkRecordSize(b *testing.B) {
	hs := usual("delay-until", "1767225605123")
	key, value := make([]byte, 10), make([]byte, 100)
	for b.Loop() {
		RecordSize(key, value, hs)
	}
}
