package pending

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/duewheel/duewheel/topics"
)

// plain turns a decoded record into one of kgo's, to compare and to encode again.
func (r *Record) plain() *kgo.Record {
	return &kgo.Record{
		Offset: r.Offset, Timestamp: time.UnixMilli(r.Timestamp),
		Key: r.Key, Value: r.Value, Headers: r.Headers,
	}
}

// sameBytes also tells null from empty, as Kafka does.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func sameRecord(a, b *kgo.Record) bool {
	if a.Offset != b.Offset || a.Timestamp.UnixMilli() != b.Timestamp.UnixMilli() ||
		!sameBytes(a.Key, b.Key) || !sameBytes(a.Value, b.Value) || len(a.Headers) != len(b.Headers) {
		return false
	}
	for i := range a.Headers {
		if a.Headers[i].Key != b.Headers[i].Key || !sameBytes(a.Headers[i].Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}

func TestRecordIdentity(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  kgo.Record
	}{
		{"null key and value", kgo.Record{Timestamp: time.UnixMilli(0)}},
		{"empty key and value are not null", kgo.Record{Key: []byte{}, Value: []byte{}, Timestamp: time.UnixMilli(1)}},
		{"a record without a timestamp", kgo.Record{Key: []byte("k"), Timestamp: time.UnixMilli(-1)}},
		{"headers keep their order, doubles, null and empty values", kgo.Record{
			Offset: math.MaxInt64, Timestamp: time.UnixMilli(1767225605123), Key: []byte("k"), Value: []byte("v"),
			Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}, {Key: "a", Value: []byte{}}, {Key: "", Value: []byte{0, 255}}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := AppendRecord(nil, &c.rec)
			if got, bound := len(run), recordSizeBound(&c.rec); got > bound {
				t.Errorf("run of %d bytes, bound is %d", got, bound)
			}
			var got Record
			if err := got.Decode(run); err != nil {
				t.Fatal(err)
			}
			if !sameRecord(got.plain(), &c.rec) {
				t.Errorf("got %+v, want %+v", got.plain(), &c.rec)
			}
			offset, err := recordOffset(run)
			if err != nil || offset != c.rec.Offset {
				t.Errorf("offset is %d, %v; want %d", offset, err, c.rec.Offset)
			}
		})
	}
}

// What is decoded does not keep what the record before had.
func TestRecordReuse(t *testing.T) {
	var r Record
	long := AppendRecord(nil, &kgo.Record{Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "a"}, {Key: "b"}}})
	short := AppendRecord(nil, &kgo.Record{Offset: 1})
	for _, run := range [][]byte{long, short} {
		if err := r.Decode(run); err != nil {
			t.Fatal(err)
		}
	}
	if r.Key != nil || r.Value != nil || len(r.Headers) != 0 || r.Offset != 1 {
		t.Errorf("got %+v", r)
	}
}

// A run that was cut short, or has something behind it, is corrupt.
func TestRecordCorrupt(t *testing.T) {
	run := AppendRecord(nil, &kgo.Record{
		Offset: 300, Timestamp: time.UnixMilli(1767225605123), Key: []byte("key"), Value: []byte("value"),
		Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}},
	})
	var r Record
	for n := range run {
		if err := r.Decode(run[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken for a record: %+v", n, len(run), r)
		}
	}
	if err := r.Decode(append(run, 0)); err == nil {
		t.Error("a byte too many is ignored")
	}
	if _, err := recordOffset(nil); err == nil {
		t.Error("no bytes have an offset")
	}
	// A count of headers that no run could hold must not be allocated.
	huge := AppendRecord(nil, &kgo.Record{})
	huge = append(huge[:len(huge)-1], 0xff, 0xff, 0xff, 0xff, 0x0f)
	if err := r.Decode(huge); err == nil {
		t.Error("four billion headers in no bytes")
	}
}

// anyRecord draws a record.
func anyRecord(t *rapid.T) *kgo.Record {
	blob := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 40))
	r := &kgo.Record{
		Offset:    rapid.Int64Min(0).Draw(t, "offset"),
		Timestamp: time.UnixMilli(rapid.Int64Range(-1, 1<<45).Draw(t, "timestamp")),
		Key:       blob.Draw(t, "key"), Value: blob.Draw(t, "value"),
	}
	for range rapid.IntRange(0, 5).Draw(t, "headers") {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: rapid.StringN(0, 8, 16).Draw(t, "name"), Value: blob.Draw(t, "of")})
	}
	return r
}

func TestRecordIdentityProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t)
		run := AppendRecord([]byte("before"), r)[len("before"):]
		if len(run) > recordSizeBound(r) {
			t.Fatalf("run of %d bytes, bound is %d", len(run), recordSizeBound(r))
		}
		var got Record
		if err := got.Decode(run); err != nil {
			t.Fatal(err)
		}
		if !sameRecord(got.plain(), r) {
			t.Fatalf("got %+v, want %+v", got.plain(), r)
		}
	})
}

// The id that is found without decoding the rest is what the record has: the last header of a name, that of a replacement where there is no
// other, the key, or a header of any name.
func TestRunID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t)
		for range rapid.IntRange(0, 4).Draw(t, "ids") {
			name := rapid.SampledFrom([]string{topics.HeaderID, topics.HeaderReplace, topics.HeaderUntil}).Draw(t, "name")
			value := rapid.SampledFrom([]string{"", "a", "b", ` "c" `, strings.Repeat("d", topics.MostID), strings.Repeat("e", topics.MostID+1)}).Draw(t, "value")
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		at := rapid.SampledFrom([]idPlace{0, idInHeader, idInKey}).Draw(t, "place")
		if n := len(r.Headers); at == idInHeader && n > 0 {
			at = at.with(int32(rapid.IntRange(0, n).Draw(t, "header")))
		}
		run := appendRecord(nil, r, at)
		var rec Record
		if err := rec.Decode(run); err != nil {
			t.Fatal(err)
		}
		var want []byte
		if at != 0 {
			if want = rec.id(at); len(want) > topics.MostID {
				want = nil
			}
		}
		if got := runID(run); !bytes.Equal(got, want) || (got == nil) != (len(want) == 0) {
			t.Fatalf("%q at %x, and it is %q", got, at, want)
		}
	})
}

// Any bytes are a record or an error, never a panic; what was decoded means the same when it is
// encoded again.
func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte{})
	f.Add(AppendRecord(nil, &kgo.Record{}))
	f.Add(AppendRecord(nil, &kgo.Record{Offset: 1 << 40, Key: []byte{}, Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "h"}, {Key: "i", Value: []byte("1")}}}))
	f.Add([]byte{0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again Record
		runID(b)
		if err := r.Decode(b); err != nil {
			return
		}
		if offset, err := recordOffset(b); err != nil || offset != r.Offset {
			t.Fatalf("offset %d, %v; the record says %d", offset, err, r.Offset)
		}
		if err := again.Decode(AppendRecord(nil, r.plain())); err != nil {
			t.Fatal(err)
		}
		if !sameRecord(r.plain(), again.plain()) {
			t.Fatalf("got %+v, want %+v", again, r)
		}
	})
}
