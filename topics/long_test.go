package topics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// long are values of about n bytes, each of the shape that costs some reader most.
func long(n int) map[string][]byte {
	nested := []byte("x")
	for len(nested) < n {
		nested, _ = json.Marshal(string(nested))
	}
	return map[string][]byte{
		"digits":          bytes.Repeat([]byte("9"), n),
		"zeros":           append(bytes.Repeat([]byte("0"), n), '1'),
		"decimals":        append([]byte("1767225605."), bytes.Repeat([]byte("1"), n)...),
		"exponent":        append([]byte("1e"), bytes.Repeat([]byte("9"), n)...),
		"units":           bytes.Repeat([]byte("1s"), n/2),
		"blanks":          append(bytes.Repeat([]byte(" "), n), "5s"...),
		"blanks between":  append(append([]byte("5"), bytes.Repeat([]byte(" "), n)...), 's'),
		"iso":             append([]byte("P"), bytes.Repeat([]byte("1D"), n/2)...),
		"clock":           append(bytes.Repeat([]byte("9"), n), ":00:00"...),
		"days":            append(append([]byte("1"), bytes.Repeat([]byte(" "), n)...), "day, 0:00:05"...),
		"colons":          bytes.Repeat([]byte("0:"), n/2),
		"instant":         append(append([]byte("2026-01-01T00:00:05."), bytes.Repeat([]byte("1"), n)...), 'Z'),
		"zone":            append(append([]byte("2026-01-01T00:00Z["), bytes.Repeat([]byte("x"), n)...), ']'),
		"quotes":          bytes.Repeat([]byte(`"`), n),
		"quoted":          append(append([]byte(`"`), bytes.Repeat([]byte("x"), n)...), '"'),
		"escapes":         append(append([]byte(`"`), bytes.Repeat([]byte(`\u0031`), n/6)...), '"'),
		"quoted in turns": nested,
		"braces":          bytes.Repeat([]byte("{"), n),
		"brackets":        append([]byte(`{"payload":`), bytes.Repeat([]byte("["), n)...),
		"envelope":        append(append([]byte(`{"schema":{"type":"int64"},"payload":`), bytes.Repeat([]byte("1"), n)...), '}'),
		"nulls":           bytes.Repeat([]byte("null"), n/4),
		"text":            bytes.Repeat([]byte("é"), n/2),
		"binary":          bytes.Repeat([]byte{0}, n),
	}
}

// A header of any length is read in time linear in it, and in memory bounded by it.
func TestLongValues(t *testing.T) {
	names := []string{"delay-until", "delay-for", "delay-expires", "delay-target-topic", "delay-target-partition", "delay-id", "delay-cancel", "deliver-at", "scheduler-epoch", "schedule_source_type"}
	p := parser(t, "p1!pekcs")
	const size, times = 1 << 14, 16
	small, large := long(size), long(size*times)
	for shape := range small {
		for _, name := range names {
			took := func(value []byte) time.Duration {
				hs := []kgo.RecordHeader{{Key: name, Value: value}, {Key: "delay-for", Value: []byte("5s")}}
				if name != "delay-for" && strings.HasPrefix(name, "delay-") {
					hs = hs[:2]
				} else {
					hs = hs[:1]
				}
				start := time.Now()
				_, _ = p.Parse(hs, Stamp{Millis: T}, 42, ours)
				return time.Since(start)
			}
			a, b := time.Hour, time.Hour
			for range 50 { // a machine that is busy makes any of them slow, and not all
				a, b = min(a, took(small[shape])), min(b, took(large[shape]))
				if b <= times*8*max(a, 50*time.Microsecond) {
					break
				}
			}
			if b > times*8*max(a, 50*time.Microsecond) {
				t.Errorf("%s in %s: %v for %d bytes, and %v for %d", shape, name, a, len(small[shape]), b, len(large[shape]))
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = p.Parse([]kgo.RecordHeader{{Key: "delay-until", Value: large[shape]}}, Stamp{Millis: T}, 42, ours)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > uint64(12*len(large[shape])+1<<16) {
			t.Errorf("%s: %d bytes of memory for %d", shape, used, len(large[shape]))
		}
	}
}

// FuzzForms: any bytes are a time in range, a delay, absent, or refused, and as a JSON string they are what they are without quotes.
func FuzzForms(f *testing.F) {
	for _, s := range []string{
		"1767225605123", "1.767225605123E9", "2026-01-01T01:00+01:00[Europe/Paris]", "2026-01-01", "2026-01-01 00:00:05.123 +0000 UTC", "0:05:00", "2 days, 0:00:05", "-2.00:00:05",
		"5 s", "PT5M", `"\"PT5M\""`, `{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"3"}},"payload":"AZt22rwD"}`, "null", "\x01\x9b\x76\xda\xbc\x03", "\x00\x04\x93\xe0",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := open(b)
		if len(c.b) == 0 {
			return
		}
		due, form, bad := parseUntil(c)
		if bad.code == "" && (due < minDueMillis || due > maxDueMillis || form < FormMillis || form > FormLittleEndian) {
			t.Errorf("until %d as %d", due, form)
		}
		later, form2, bad2 := parseFor(c, T)
		if bad2.code == "" && (later < T || later > maxDueMillis || form2 < FormDelayMillis) {
			t.Errorf("for %d as %d", later, form2)
		}
		if again := open(c.b); c.wrap == InQuotes && !bytes.Equal(again.b, c.b) && again.wrap != InEnvelope && len(again.b) > 0 {
			t.Errorf("taken out of quotes it is %q, and then %q", c.b, again.b)
		}
		if !isText(b) || len(trim(b)) == 0 || b[0] == '{' {
			return
		}
		quoted, err := json.Marshal(string(b))
		if err != nil {
			t.Fatal(err)
		}
		q := open(quoted)
		dueQuoted, formQuoted, badQuoted := parseUntil(q)
		if len(q.b) > 0 && (dueQuoted != due || formQuoted != form || badQuoted != bad) {
			t.Errorf("until %d, %s, and in quotes %d, %s", due, bad.why, dueQuoted, badQuoted.why)
		}
	})
}

// BenchmarkForms is what one header costs, without the rest of its record.
func BenchmarkForms(b *testing.B) {
	for _, text := range []string{
		"1767225605123", "1767225605", "1767225605.123", "1.767225605123E9", "2026-01-01T00:00:05.123Z", "2026-01-01T01:00+01:00[Europe/Paris]", "2026-01-01", `"2026-01-01T00:00:05.123Z"`, `"\"2026-01-01T00:00:05.123Z\""`,
		"2026-01-01 00:00:05.123 +0000 UTC", "\x00\x00\x01\x9b\x76\xda\xbc\x03", "\x01\x9b\x76\xda\xbc\x03", `{"schema":{"type":"int64","optional":false},"payload":1767225605123}`,
		`{"schema":{"type":"int64","optional":false,"name":"org.apache.kafka.connect.data.Timestamp","version":1},"payload":1767225605123}`,
	} {
		b.Run(fmt.Sprintf("until/%q", text), func(b *testing.B) {
			raw := []byte(text)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, f := parseUntil(open(raw)); f.code != "" {
					b.Fatal(f.why)
				}
			}
		})
	}
	for _, text := range []string{"300000", "5m", "1h30m", "5 s", "PT5M", "P1DT2H", "P1M", "0:05:00", "2 days, 0:00:05", "2.00:00:05.5", `"PT5M"`, "\x00\x04\x93\xe0"} {
		b.Run(fmt.Sprintf("for/%q", text), func(b *testing.B) {
			raw := []byte(text)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, f := parseFor(open(raw), T); f.code != "" {
					b.Fatal(f.why)
				}
			}
		})
	}
}
