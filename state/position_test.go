package state

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func FuzzDecodePosition(f *testing.F) {
	f.Add(appendPosition(nil, Position{1, 2, 6, Key{3, 4}, 5, ""}))
	f.Add(appendPosition(nil, Position{1, 2, NoEpoch, Key{3, 4}, 5, "0:p1;8000:p1+300000"}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodePosition(b)
		if err == nil && !bytes.Equal(appendPosition(nil, p), b) {
			t.Errorf("%x decodes to %+v, which is other bytes", b, p)
		}
	})
}

func FuzzDecodeID(f *testing.F) {
	f.Add(appendID(nil, PartitionID{"group", "topic", [16]byte{1}, 2}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := decodeID(b)
		if err != nil {
			return
		}
		if again, err := decodeID(appendID(nil, id)); err != nil || again != id {
			t.Errorf("%x decodes to %+v, and that to %+v, %v", b, id, again, err)
		}
	})
}

// Names may hold any bytes, and none can be taken for another.
func TestIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := PartitionID{
			Group:     rapid.String().Draw(t, "group"),
			Topic:     rapid.String().Draw(t, "topic"),
			TopicID:   [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")),
			Partition: rapid.Int32().Draw(t, "partition"),
		}
		if got, err := decodeID(appendID(nil, id)); err != nil || got != id {
			t.Errorf("got %+v, %v, want %+v", got, err, id)
		}
	})
}
