package topics

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// vector is a row of testdata/due.json: bytes as producers write them, and what
// "p1" makes of them for ever. A row that changes is a new parser.
type vector struct {
	About  string
	Kind   string // until, for
	Text   string
	Hex    string
	Due    string // for: counted from T
	Absent bool
	Code   Code
	// Message is a part of the refusal's.
	Message string
}

func (v vector) bytes(t testing.TB) []byte {
	if v.Hex == "" {
		return []byte(v.Text)
	}
	b, err := hex.DecodeString(v.Hex)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func vectors(t testing.TB) (vs []vector) {
	t.Helper()
	file, err := os.Open("testdata/due.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	d := json.NewDecoder(file)
	d.DisallowUnknownFields()
	if err := d.Decode(&vs); err != nil {
		t.Fatal(err)
	}
	return vs
}

func TestDueVectors(t *testing.T) {
	p := parser(t, "p1")
	for _, v := range vectors(t) {
		t.Run(v.Kind+"/"+v.About+"/"+v.Text+v.Hex, func(t *testing.T) {
			q, err := p.Parse([]kgo.RecordHeader{{Key: "delay-" + v.Kind, Value: v.bytes(t)}}, Stamp{Millis: T}, 42, ours)
			if v.Due != "" {
				if err != nil || format(q.Due) != v.Due {
					t.Errorf("got %s, %v, want %s", format(q.Due), err, v.Due)
				}
				return
			}
			code := v.Code
			if v.Absent {
				code = CodeNoDue
			}
			var r *Refusal
			if !errors.As(err, &r) || r.Code != code || !strings.Contains(r.Message, v.Message) {
				t.Errorf("got %s, %v, want %s: … %s …", format(q.Due), err, code, v.Message)
			}
		})
	}
}

func TestMonthsGoByTheCalendarOfTheRecord(t *testing.T) {
	for _, tt := range []struct{ base, delay, want string }{
		{"2026-01-31T12:00:00.001Z", "P1M", "2026-02-28T12:00:00.001Z"},
		{"2028-01-31T12:00:00.000Z", "P1M", "2028-02-29T12:00:00.000Z"},
		{"2028-02-29T00:00:00.000Z", "P1Y", "2029-02-28T00:00:00.000Z"},
		{"2028-02-29T00:00:00.000Z", "P4Y", "2032-02-29T00:00:00.000Z"},
		{"2026-11-30T23:59:59.999Z", "P3M", "2027-02-28T23:59:59.999Z"},
		{"2026-12-31T00:00:00.000Z", "P12M", "2027-12-31T00:00:00.000Z"},
		{"2026-01-31T00:00:00.000Z", "P1MT24H", "2026-03-01T00:00:00.000Z"},
		{"2026-05-31T00:00:00.000Z", "P-1M61D", "2026-06-30T00:00:00.000Z"},
		{"1970-01-01T00:00:00.000Z", "P1M", "1970-02-01T00:00:00.000Z"},
		{"2026-01-01T00:00:00.000Z", "P-5000Y", "2026-01-01T00:00:00.000Z"},
	} {
		base, err := time.Parse(time.RFC3339, tt.base)
		if err != nil {
			t.Fatal(err)
		}
		due, _, f := parseFor(open([]byte(tt.delay)), base.UnixMilli())
		if got := format(due); f.code != "" || got != tt.want {
			t.Errorf("%s and %s: got %s, %s, want %s", tt.base, tt.delay, got, f.why, tt.want)
		}
	}
}

func TestDueIsAboveZero(t *testing.T) {
	for _, delay := range []string{"0", "-1", "-P1Y", "-5m"} {
		if due, _, f := parseFor(open([]byte(delay)), 0); due != 1 || f.code != "" {
			t.Errorf("%s at 0: got %d, %s, want 1", delay, due, f.why)
		}
	}
}

func TestCeilMillis(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, -1: 0, -time.Millisecond: -1, -time.Millisecond - 1: -1,
	} {
		if got := ceilMillis(d); got != want {
			t.Errorf("ceilMillis(%d) = %d, want %d", d, got, want)
		}
	}
}

// The number of digits before the point, at every power of ten and next to it.
func TestDecimalSize(t *testing.T) {
	for n, p := range powers {
		for _, c := range []struct {
			mant uint64
			want int
		}{{p - 1, n}, {p, n + 1}, {p + 1, n + 1}} {
			if n == 0 && c.mant == 2 || c.mant == 0 {
				continue // of one digit as well; and of none
			}
			if got := (decimal{mant: c.mant}).size(); got != c.want {
				t.Errorf("%d has %d digits, want %d", c.mant, got, c.want)
			}
		}
	}
}

// The sign of Python's form is that of the days alone, and that of .NET's form of all.
func TestNegativeClocks(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"-1 day, 23:59:55": -5 * time.Second, "-2 days, 0:00:05": -48*time.Hour + 5*time.Second, "-1.02:03:04": -26*time.Hour - 3*time.Minute - 4*time.Second, "-0:05:00": -5 * time.Minute,
		"2 days, 0:00:05": 48*time.Hour + 5*time.Second,
	} {
		s, form, f := parseSpan([]byte(text))
		if f.code != "" || form != FormClock || time.Duration(s.nanos) != want {
			t.Errorf("%s: got %v as %v, %s, want %v", text, time.Duration(s.nanos), form, f.why, want)
		}
	}
}

// Where nothing tells its unit an integer is seconds below 1e11, and milliseconds from there on; where something does, it has to fit that.
func TestUntilInteger(t *testing.T) {
	for _, c := range []struct {
		n    int64
		u    unit
		want int64 // 0: it is out of range
	}{
		{1e8 - 1, unitBySize, 0}, {1e8, unitBySize, 1e11}, {1e11 - 1, unitBySize, 1e14 - 1000}, {1e11, unitBySize, 1e11}, {1e14 - 1, unitBySize, 1e14 - 1}, {1e14, unitBySize, 0},
		{1e8, unitMillis, 0}, {1e11 - 1, unitMillis, 0}, {1e11, unitMillis, 1e11},
		{1e8, unitSeconds, 1e11}, {1e11, unitSeconds, 1e14}, {1e11 + 1, unitSeconds, 0},
	} {
		if got, ok := untilInteger(c.n, c.u); ok != (c.want != 0) || got != c.want && ok {
			t.Errorf("%d by %v is %d, %v, want %d", c.n, c.u, got, ok, c.want)
		}
	}
}

// A number whose unit is told is an instant between 1973 and 5138 in that unit, or none.
func TestUntilByUnit(t *testing.T) {
	for text, want := range map[string]bool{"99999999": false, "100000000": true, "99999999999": true, "123456789012": false, "-100000000": false} {
		d, _ := parseDecimal([]byte(text))
		if _, _, f := d.until(unitSeconds); (f.code == "") != want {
			t.Errorf("%s seconds: %v", text, f)
		}
		for zeros, u := range map[string]unit{"000": unitMillis, "000000": unitMicros, "000000000": unitNanos} {
			d, _ := parseDecimal([]byte(text + zeros))
			if _, _, f := d.until(u); (f.code == "") != want {
				t.Errorf("%s%s: %v", text, zeros, f)
			}
		}
	}
}
