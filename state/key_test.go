package state

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func anyKey() *rapid.Generator[Key] {
	number := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, math.MaxInt64}))
	return rapid.Custom(func(t *rapid.T) Key { return Key{number.Draw(t, "due"), number.Draw(t, "seq")} })
}

// Stored keys sort as keys do, so the database's order is the order of delivery.
func TestStoredKeysSortAsKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyKey().Draw(t, "a"), anyKey().Draw(t, "b")
		sa, sb := appendKey(nil, 7, a), appendKey(nil, 7, b)
		if got, want := bytes.Compare(sa, sb), a.Compare(b); got != want {
			t.Errorf("bytes of %v and %v compare %d, want %d", a, b, got, want)
		}
		if got, want := a.Less(b), a.Compare(b) < 0; got != want {
			t.Errorf("%v less than %v: %v, want %v", a, b, got, want)
		}
		after := appendAfter(nil, 7, a)
		if bytes.Compare(after, sa) <= 0 || a.Less(b) && bytes.Compare(after, sb) > 0 {
			t.Errorf("%x is not just after %v", after, a)
		}
		if bytes.Compare(sa, appendPart(nil, 7)) < 0 || bytes.Compare(after, appendPart(nil, 8)) >= 0 {
			t.Errorf("%x is not within part 7", sa)
		}
		if p, k, err := decodeKey(sa); err != nil || p != 7 || k != a {
			t.Errorf("%v decodes to part %d, %v, %v", a, p, k, err)
		}
	})
}

func TestKeyText(t *testing.T) {
	if got, want := (Key{1767225605123, 8812}).String(), "1767225605123:8812"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, text := range []string{"", "1", ":", "1:", ":1", "-1:2", "1:-2", "+1:2", "01:2", "1:2:3", "1: 2", "a:1", "9223372036854775808:1"} {
		if k, err := parseKey(text); err == nil {
			t.Errorf("%q is read as %v", text, k)
		}
	}
	for _, k := range []Key{{}, {0, 1}, {math.MaxInt64, math.MaxInt64}} {
		if got, err := parseKey(k.String()); err != nil || got != k {
			t.Errorf("%v is read as %v, %v", k, got, err)
		}
	}
}

func FuzzDecodeKey(f *testing.F) {
	f.Add(appendKey(nil, 1, Key{2, 3}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, k, err := decodeKey(b)
		if err == nil && !bytes.Equal(appendKey(nil, p, k), b) {
			t.Errorf("%x decodes to part %d, %v, which is other bytes", b, p, k)
		}
	})
}
