package check

import (
	"slices"
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
		{"2026-01-01", 1767225600000}, {"2026-02-30", -1}, {"2026-01-01T00:00Z", 1767225600000}, {"2026-01-01t00:00:05z", 1767225605000}, {"2016-12-31T23:59:60Z", 1483228800000},
		{"2026-01-01 01:00:05,1230001+01", 1767225605124}, {"2026-01-01 00:00:05.123 +0000 UTC", 1767225605123}, {"2026-01-01T01:00+01:00[Europe/Paris]", 1767225600000},
		{"253402300799", -1}, {"253402300799999", -1}, {"253370764800000000", -1}, {"253370764799", 253370764799}, {"253402300.799", 253402300799}, {eightBytes(253402300799), -1}, {reversed(eightBytes(253402300799)), -1}, {"2026-01-01T00:00:05-24:00", -1}, {"2026-01-01T24:00Z", -1}, {"5138-11-16T09:46:40Z", 1e14}, {"5138-11-16T09:46:40.001Z", -1}, {"2026-01-01T00:60Z", -1}, {"2026-01-01T00:00[Europe/Paris]", -1},
		{reversed(eightBytes(1767225605123)), 1767225605123}, {reversed(eightBytes(1767225605)), 1767225605000}, {reversed(eightBytes(7)), -1},
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
		{"PT5M", 300_000}, {"P1DT2H", day + 7_200_000}, {"PT1.5S", 1500}, {"P2W", 14 * day}, {"P1M", 28 * day}, {"P1Y", 365 * day}, {"P2M", 59 * day}, {"P1M-1D", 27 * day}, {"-P1M", -31 * day}, {"P-1M", -31 * day}, {"pt5m", 300_000},
		{"5", 5}, {" 5m ", 300_000}, {"5000\n", 5000}, {"\t15m\r\n", 900_000}, {"\u00a05000", -1},
		{eightBytes(300_000), 300_000},
		{"P", -1}, {"PT", -1}, {"5x", -1}, {"m5", -1}, {"1e30", -1}, {"300y", -1}, {"+5m", 300_000}, {"1 h  30 m", 5_400_000}, {".5s", 500}, {"PT1,5S", 1500}, {"P0.5D", day / 2}, {"PT1H-55M", 300_000}, {"P1D1W", -1}, {"P1.5DT1H", -1}, {"PT1M1M", -1},
		{"2 days, 0:00:05", 2*day + 5000}, {"1 day, 0:00:05", day + 5000}, {"-1 day, 23:59:55", -5000}, {"2.00:00:05.5", 2*day + 5500}, {"-2.00:00:05", -2*day - 5000}, {"2 days 00:00:05", 2*day + 5000},
		{"1.24:00:00", -1}, {"30:00:00", 30 * day / 24}, {"12:30", -1}, {reversed(eightBytes(300_000)), 300_000}, {reversed(eightBytes(0x3030)), 0x3030}, {reversed(eightBytes(0x303030)), -1}, {reversed(eightBytes(0x446a)), 0x446a}, {reversed(eightBytes(128)), 128}, {"jD\x00\x00", 0x6a440000}, {"15m\x00", -1}, {"PT5M\x00\x00", -1},
		{"5\x00m\x00", -1}, {"\xff\xfe5\x00m\x00", -1}, {"\xfe\xff\x005\x00m", -1}, {"\x003\x000\x00s", -1}, {"\x005\x00m", 0x35006d}, {"1\x005\x00", 0x31003500}, {"\xff\xfe5\x00", -0x01cb00}, {"P300Y", 109_572 * day}, {"P5139Y", 1_876_981 * day}, {"P61657Y", -1}, {"PT1.H2M", 3_720_000}, {"0:05:00.", 300_000}, {"0:05:000", -1}, {"", -1}, {"9999999999h", -1},
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

// reversed are bytes in the other order.
func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
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
