package setting

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for _, test := range []struct {
		in   any
		want time.Duration
		err  string
	}{
		{"250ms", 250 * time.Millisecond, ""},
		{"1h30m", 90 * time.Minute, ""},
		{"1.5s", 1500 * time.Millisecond, ""},
		{"366d", 366 * 24 * time.Hour, ""},
		{"2w1d", 15 * 24 * time.Hour, ""},
		{" 10s ", 10 * time.Second, ""},
		{0, 0, ""},
		{30, 0, "30 has no unit: write 30ms, 30s or the like (a number alone is ms in the header delay-for only)"},
		{"1.5", 0, "1.5 has no unit: write 1.5ms, 1.5s or the like (a number alone is ms in the header delay-for only)"},
		{"-5s", 0, `"-5s" is negative`},
		{"5 s", 0, `"5 s" is not a duration such as 250ms, 10s, 1h30m or 7d`},
		{"", 0, `"" is not a duration such as 250ms, 10s, 1h30m or 7d`},
		{" ", 0, `" " is not a duration such as 250ms, 10s, 1h30m or 7d`},
		{"999999999w", 0, `"999999999w" is not a duration such as 250ms, 10s, 1h30m or 7d`},
		{[]any{"5s"}, 0, "a list or a section stands where one value belongs"},
	} {
		got, err := Duration(test.in)
		if got != test.want || errText(err) != test.err {
			t.Errorf("Duration(%v) = %v, %v; want %v, %s", test.in, got, err, test.want, test.err)
		}
	}
}

func TestSize(t *testing.T) {
	for _, test := range []struct {
		in   any
		want int64
		err  string
	}{
		{"256MiB", 256 << 20, ""},
		{268435456, 256 << 20, ""},
		{"1.5 gib", 3 << 29, ""},
		{"500MB", 500_000_000, ""},
		{"64k", 64 << 10, ""},
		{"-1", 0, `"-1" is not a size such as 256MiB or 1GiB`},
		{"1MiBs", 0, `"1MiBs" is not a size such as 256MiB or 1GiB`},
		{"99999999TiB", 0, `"99999999TiB" is not a size such as 256MiB or 1GiB`},
	} {
		got, err := Size(test.in)
		if got != test.want || errText(err) != test.err {
			t.Errorf("Size(%v) = %v, %v; want %v, %s", test.in, got, err, test.want, test.err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
