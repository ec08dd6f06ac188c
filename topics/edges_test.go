package topics

import (
	"strings"
	"testing"
)

// What is around a value is taken off where converters put it, and nowhere else.
func TestEdgesOfForms(t *testing.T) {
	for _, text := range []string{
		`"{\"payload\":300000}"`, // an envelope in quotes
		`{"payload":300000,"schema":{"doc":"` + strings.Repeat("x", 4096) + `"}}`,
	} {
		if due, _, f := parseFor(open([]byte(text)), T); f.code != CodeUnparsableDue {
			t.Errorf("%.40s is read as %d", text, due)
		}
	}
	if due, _, f := parseUntil(open([]byte("2026-01-01T01:00+01:00[" + strings.Repeat("x", mostZoneName) + "]"))); f.code != CodeUnparsableDue {
		t.Errorf("the name of a zone that is none: %d", due)
	}
}

// As librdkafka does, a key that is empty is left to chance, as null is.
func TestEmptyKeysHaveNoPartition(t *testing.T) {
	for _, key := range [][]byte{nil, {}} {
		equal(t, PartitionerCRC32.Of(key, 1, 3), int32(-1))
	}
}

// What was written without a timestamp cannot be delivered with that.
func TestNoTimestampIsFired(t *testing.T) {
	for millis, want := range map[int64]int64{T: T, 0: 0, -1: T + 2} {
		equal(t, TimestampOriginal.Of(Origin{Timestamp: millis}, T+2), want)
	}
}

// Where the prefix is another one, delay-cancel is a header of its users, also where it is their only one, but in what was forwarded.
func TestCancelsUnderAnotherPrefix(t *testing.T) {
	p := parser(t, "p1^x-wheel-")
	for _, c := range []struct {
		headers []string
		kind    Kind
	}{
		{[]string{HeaderCancel, "a", HeaderForwarded, "x"}, KindCancel},
		{[]string{HeaderCancel, "a"}, KindRequest},
		{[]string{HeaderCancel, "a", "trace", "1"}, KindRequest},
		{[]string{HeaderCancel, "a", HeaderForwarded, "x", "trace", "1"}, KindRequest},
		{[]string{HeaderCancel, "a", "x-wheel-until", "1795186800123"}, KindRequest},
	} {
		q, err := p.Parse(headers(c.headers...), Stamp{Millis: T}, 7, ours)
		if is := err == nil && q.Kind == KindCancel; is != (c.kind == KindCancel) {
			t.Errorf("%q: %+v, %v", c.headers, q, err)
		}
	}
}

// The longest delay, and the last due time, are allowed; a millisecond more is not.
func TestLastDueTime(t *testing.T) {
	for _, c := range []struct {
		delay string
		base  int64
		due   int64 // 0: it is refused
	}{
		{"9223372036855", T, T + maxDelayMillis}, {"9223372036856", T, 0},
		{"5", maxDueMillis - 5, maxDueMillis}, {"6", maxDueMillis - 5, 0}, {"6ms", maxDueMillis - 5, 0}, {"5ms", maxDueMillis - 5, maxDueMillis},
	} {
		if due, _, f := parseFor(open([]byte(c.delay)), c.base); due != c.due || (f.code == "") != (c.due > 0) {
			t.Errorf("%s from %d: %d, %v", c.delay, c.base, due, f.code)
		}
	}
}

// An envelope holds a value: what has a list or an object in it is taken as it is written.
func TestBareOfNoEnvelope(t *testing.T) {
	for _, text := range []string{`{"payload":["a"]}`, `{"payload":{"a":1}}`, `{"payload":}`} {
		if got := string(Bare([]byte(text))); got != text {
			t.Errorf("%s: got %q", text, got)
		}
	}
}
