package check

import (
	"strings"
	"testing"
	"time"
)

// TestForms: every form of an instant and of a duration that docs/requests.md names.
func TestForms(t *testing.T) {
	const day = 24 * 3600 * 1000
	for _, tt := range []struct {
		text string
		want int64 // -1: not read
	}{
		{"1767225605", 1767225605000}, {"1767225605123", 1767225605123}, {"1767225605123001", 1767225605124}, {"1767225605123000001", 1767225605124},
		{"1767225605.123", 1767225605123}, {"1767225605.1230001", 1767225605124}, {"1.767225605123E9", 1767225605123}, {" 1767225605123 ", 1767225605123},
		{"99999999", -1}, {"-1767225605", -1}, {"1e99", -1}, {strings.Repeat("9", 100), -1}, {"", -1}, {"soon", -1},
		{"2026-01-01T00:00:05.123Z", 1767225605123}, {"2026-01-01 01:00:05.1230001+01:00", 1767225605124}, {"2026-01-01T00:00:05", -1},
		{eightBytes(1767225605123), 1767225605123}, {eightBytes(1767225605), 1767225605000}, {eightBytes(1767225605123001), -1},
	} {
		got, ok := parseUntil([]byte(tt.text))
		if !ok {
			got = -1
		}
		if got != tt.want {
			t.Errorf("until %q: %d, want %d", tt.text, got, tt.want)
		}
	}
	from := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC).UnixMilli()
	for _, tt := range []struct {
		text string
		want int64
	}{
		{"300000", 300_000}, {"5m", 300_000}, {"1h30m", 5_400_000}, {"1.5s", 1500}, {"2d", 2 * day}, {"1w", 7 * day}, {"1ns", 1}, {"7us", 1}, {"7µs", 1}, {"1ms", 1}, {"-5m", -300_000},
		{"PT5M", 300_000}, {"P1DT2H", day + 7_200_000}, {"PT1.5S", 1500}, {"P2W", 14 * day}, {"P1M", 31 * day}, {"P1Y", 365 * day}, {"pt5m", 300_000},
		{"5", 5}, {" 5m ", 300_000}, {eightBytes(300_000), 300_000},
		{"P", -1}, {"PT", -1}, {"5x", -1}, {"m5", -1}, {"1e30", -1}, {"300y", -1}, {"P300Y", -1}, {"", -1}, {"9999999999h", -1},
	} {
		got, ok := parseFor([]byte(tt.text), from)
		if !ok {
			got = -1
		}
		if got != tt.want {
			t.Errorf("for %q: %d, want %d", tt.text, got, tt.want)
		}
	}
}

// FuzzForms: any bytes give a time or none, and never a panic.
func FuzzForms(f *testing.F) {
	for _, seed := range []string{"1767225605123", "1.5e9", "2026-01-01T00:00:05Z", "1h30m", "P1Y2M3DT4H5M6.7S", "PT", eightBytes(7)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		if n, ok := parseUntil(v); ok && (n < 1e11 || n > 1e14+1) {
			t.Errorf("%q is read as %d", v, n)
		}
		_, _ = parseFor(v, 0)
	})
}
