package topics

import (
	"bytes"
	"errors"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// FuzzParse: any bytes in any header give a request that is in range or a
// refusal, the same each time, and a retry of a request is that request again.
func FuzzParse(f *testing.F) {
	f.Add("delay-until", []byte("1767225605123"), "delay-target-topic", []byte("orders"), int64(T), int64(42), "p1")
	f.Add("delay-for", []byte("PT5M"), "delay-target-partition", []byte("3"), int64(T), int64(42), "p1")
	f.Add("a", []byte("b"), "delay-target-key", []byte("k"), int64(T), int64(42), "p1+1000")
	f.Add("delay-until", []byte("1767225605123"), "delay-retry", []byte("a8098c1a:billing:3:41:1:1:1:1767225605123"), int64(T), int64(42), "p1")
	f.Add("delay-resolve", []byte("a8098c1a:billing:3:41:1:1"), "delay-id", []byte(nil), int64(T), int64(42), "p1")
	f.Fuzz(func(t *testing.T, name1 string, value1 []byte, name2 string, value2 []byte, timestamp, offset int64, spec string) {
		p, err := ParserFor(spec)
		if err != nil {
			if !errors.Is(err, ErrUnknownParser) {
				t.Fatal(err)
			}
			return
		}
		hs := []kgo.RecordHeader{{Key: name1, Value: value1}, {Key: name2, Value: value2}}
		q, err := p.Parse(hs, Stamp{Millis: timestamp}, offset, ours)
		again, errAgain := p.Parse(hs, Stamp{Millis: timestamp}, offset, ours)
		equal(t, again, q)
		equal(t, errAgain, err)
		if err != nil {
			var r *Refusal
			if !errors.As(err, &r) || !slices.Contains(ParseCodes, r.Code) || r.Stage != StageParse || r.Message == "" || len(r.Error()) > 4096 {
				t.Fatalf("not a proper refusal: %+v", err)
			}
			return
		}
		if q.Kind == KindOfAnotherGroup {
			return
		}
		if q.Kind == KindResolve {
			if q.ResolveOffset >= offset || q.ResolveSeq > q.ResolveOffset {
				t.Errorf("believed %+v at %d", q, offset)
			}
			return
		}
		if q.Due < 1 || q.Due > maxDueMillis || q.Partition < -1 || len(q.Target) > 249 || q.Retry && q.Origin.Offset >= offset {
			t.Errorf("accepted %+v at %d", q, offset)
		}
		retried(t, p, hs, q, timestamp, offset)
	})
}

// retried checks that AppendRetry writes what Parse reads.
func retried(t *testing.T, p *Parser, hs []kgo.RecordHeader, q Request, timestamp, offset int64) {
	first := q.First(offset, timestamp)
	if offset < 0 {
		return // not a record of Kafka
	}
	first.Timestamp = max(first.Timestamp, -1)
	written, _, _ := ours.Written(hs, offset)
	retry, _ := AppendRetry(nil, written, ours, Retry{Due: T + 1, Attempt: q.Attempt + 1, Origin: first}, nil)
	got, err := p.Parse(retry, Stamp{Millis: timestamp + 1}, offset+1, ours)
	if err != nil {
		t.Fatalf("retry of %v: %v", hs, err)
	}
	want := q
	want.Due, want.Retry, want.Attempt, want.Origin = T+1, true, q.Attempt+1, first
	equal(t, got, want)
}

// FuzzDecimal holds numbers against big rationals.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"1767225605.123", "-1e3", "1.767225605123E9", "0.00000000000000000000000001", "99999999999999999999.5", "1e-400", ".5e1", "5.", "000.1e+07"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := parseDecimal([]byte(s))
		want, wantOK := rational(s)
		if ok != wantOK {
			t.Fatalf("parsed: got %v, want %v", ok, wantOK)
		}
		if !ok || want == nil {
			return
		}
		if d.neg != (want.Sign() < 0) && want.Sign() != 0 {
			t.Fatalf("got sign %v of %s", d.neg, want)
		}
		for _, shift := range []int{-6, -3, 0, 3, 5} {
			exact := new(big.Rat).Mul(want.Abs(want), pow10(shift))
			ceil := new(big.Int).Div(new(big.Int).Sub(new(big.Int).Add(exact.Num(), exact.Denom()), big.NewInt(1)), exact.Denom())
			got, ok := d.ceil(shift)
			if ok != (len(new(big.Int).Div(exact.Num(), exact.Denom()).String()) <= 18) {
				t.Fatalf("shift %d: got %v of %s", shift, ok, exact)
			}
			if ok && got != ceil.Int64() {
				t.Fatalf("shift %d: got %d, want %s", shift, got, ceil)
			}
		}
	})
}

// rational reads a number the slow way. It gives nil for one whose exponent is
// too large to be worth it.
func rational(s string) (*big.Rat, bool) {
	if strings.Trim(s, "+-.eE0123456789") != "" || s == "" {
		return nil, false
	}
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
		digits := strings.TrimLeft(exponent, "+-")
		if len(exponent)-len(digits) > 1 || digits == "" || strings.Trim(digits, "0123456789") != "" {
			return nil, false
		}
		if len(digits) > 3 {
			exponent = ""
		}
	}
	bare := strings.TrimLeft(mantissa, "+-")
	if len(mantissa)-len(bare) > 1 || strings.Count(bare, ".") > 1 || strings.Trim(bare, ".") == "" || strings.Trim(bare, ".0123456789") != "" {
		return nil, false
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 && exponent == "" {
		return nil, true
	}
	whole, part, _ := strings.Cut(mantissa, ".")
	text := whole + "." + part + "0"
	if strings.TrimLeft(whole, "+-") == "" {
		text = whole + "0." + part + "0"
	}
	if exponent != "" {
		text += "e" + exponent
	}
	r, ok := new(big.Rat).SetString(text)
	return r, ok
}

func pow10(n int) *big.Rat {
	r := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(n, -n))), nil))
	if n < 0 {
		r.Inv(r)
	}
	return r
}

// FuzzSpan holds what Go's own parser takes too against it.
func FuzzSpan(f *testing.F) {
	for _, s := range []string{"1h30m", "-1.5s", "1ns", "2562047h47m16.854775807s", "5.s", ".5m", "P1Y2M3DT4H5M6.7S", "1w2d", "PT-5M"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		span, _, fault := parseSpan([]byte(s))
		due, _ := span.after(T)
		if fault.code == "" && (due < T && due != 0 || due > maxDueMillis) {
			t.Fatalf("due at %d", due)
		}
		want, err := time.ParseDuration(s)
		if err != nil || strings.Trim(s, "+-0.") == "" {
			return
		}
		if fault.code == CodeDueOutOfRange && want > time.Duration(1)<<62 {
			return // sums of many parts may be refused a little early
		}
		if wantDue := T + max(ceilMillis(want), 0); fault.code != "" || due < wantDue || due > wantDue+1 {
			t.Fatalf("got %d, %s, want %d", due, fault.why, wantDue)
		}
	})
}

// strict is the grammar of RFC 3339, but for leap seconds, small letters and
// the blank; Go's own parser takes more (a comma, an hour of one digit).
var strict = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// FuzzInstant holds RFC 3339 against Go's own parser.
func FuzzInstant(f *testing.F) {
	for _, s := range []string{"2026-01-01T00:00:05.123Z", "2026-01-01T00:00:05+05:30", "2028-02-29T23:59:59.9999999999Z", "2026-02-30T00:00:00Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		due, _, fault := parseInstant([]byte(s))
		if fault.code == "" && (due < minDueMillis || due > maxDueMillis) {
			t.Fatalf("due at %d", due)
		}
		if !strict.MatchString(s) {
			return
		}
		want, err := time.Parse(time.RFC3339, s)
		if err != nil {
			if fault.code != CodeUnparsableDue {
				t.Fatalf("got %d, %s, and Go: %v", due, fault.why, err)
			}
			return
		}
		exact := want.UnixMilli()
		if want.Nanosecond()%1e6 != 0 {
			exact++
		}
		switch {
		case exact < minDueMillis || exact > maxDueMillis:
			if fault.code != CodeDueOutOfRange {
				t.Fatalf("got %d, %s, which is out of range", due, fault.why)
			}
		case fault.code != "":
			t.Fatalf("refused: %s", fault.why)
		case due < exact || due > exact+1: // Go drops what is beyond ns
			t.Fatalf("got %d, want %d", due, exact)
		}
	})
}

// FuzzMark: what is read of a value of ours is written again byte for byte, and whose it is does
// not depend on the reader.
func FuzzMark(f *testing.F) {
	for _, s := range []string{"0:1:9223372036854775807", "00:1:2", "0:1", "-1:1:2", "1:-1:2", "1:2:3:4", "1:2:3:", "1:1:9999999999999999999", ""} {
		f.Add([]byte("a8098c1a:billing:3:"+s), "billing")
	}
	f.Add([]byte("A8098c1a:billing:3:1:2:3"), "a:b %")
	f.Add([]byte("a8098c1a:a%3Ab+%25:3:1:2:3"), "a:b %")
	f.Fuzz(func(t *testing.T, b []byte, group string) {
		m := NewMark(ourID, group, 3)
		who, rest := m.author(b)
		var n [3]int64
		if who == thisGroup && parseNumbers(rest, n[:]) && !bytes.Equal(m.appendTo(nil, n[:]...), b) {
			t.Errorf("%q reads as %v", b, n)
		}
		if group != "" {
			mine := m.appendTo(nil, 1, 2, 3)
			if who, _ := m.author(mine); who != thisGroup {
				t.Errorf("%q is not believed", mine)
			}
			if who, _ := NewMark(ourID, group+"x", 3).author(mine); who != anotherGroup {
				t.Errorf("%q is not that of another group", mine)
			}
		}
	})
}

// FuzzMatch holds patterns against a plain recursive matcher.
func FuzzMatch(f *testing.F) {
	f.Add("billing.*", "billing.eu")
	f.Add("*a*b", "aab")
	f.Add("**", "")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 12 || len(name) > 12 {
			return
		}
		if got, want := match(pattern, name), plainMatch(pattern, name); got != want {
			t.Errorf("match(%q, %q) = %v, want %v", pattern, name, got, want)
		}
	})
}

func plainMatch(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		return plainMatch(pattern[1:], name) || name != "" && plainMatch(pattern, name[1:])
	}
	return name != "" && name[0] == pattern[0] && plainMatch(pattern[1:], name[1:])
}
