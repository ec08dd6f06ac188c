package topics

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestCopyStandsForWhatWasWritten(t *testing.T) {
	written := []kgo.RecordHeader{{Key: HeaderFor, Value: []byte("5m")}, {Key: "trace", Value: []byte("7")}}
	want := Copy{Seq: 7, Due: 1767225605123, Timestamp: -1, From: 9}
	headers, _ := AppendCopy(nil, written, ours, want, nil)
	got, c, is := ours.Copied(headers, 12)
	if !is || c != want || len(got) != 2 || got[0].Key != HeaderFor || got[1].Key != "trace" {
		t.Fatalf("%v, %+v, %v", got, c, is)
	}
	again, _ := AppendCopy(nil, got, ours, Copy{Seq: 7, Due: want.Due, Timestamp: -1, From: 12}, nil)
	if _, c, is := ours.Copied(again, 30); !is || c.Seq != 7 || c.From != 12 || len(again) != 4 {
		t.Fatalf("a copy of a copy: %+v, %v, %d headers", c, is, len(again))
	}
	before, _ := AppendCopy(nil, written, ours, Copy{Seq: 7, Due: want.Due, Timestamp: -62_135_596_800_000, From: 9}, nil)
	if _, c, is := ours.Copied(before, 12); !is || c != want {
		t.Errorf("of a record from before 1970: %+v, %v", c, is)
	}
}

// What does not look back, or was written for another topic or partition, is the request that it was; what another group has carried is passed over.
func TestCopiesThatAreNone(t *testing.T) {
	copied := func(m Mark, c Copy) []kgo.RecordHeader {
		headers, _ := AppendCopy(nil, []kgo.RecordHeader{{Key: HeaderUntil, Value: []byte("1767225605123")}, {Key: HeaderTargetTopic, Value: []byte("orders")}}, m, c, nil)
		return headers
	}
	good := Copy{Seq: 7, Due: 1767225605123, Timestamp: 5, From: 9}
	for name, c := range map[string]struct {
		mark Mark
		copy Copy
		at   int64
		kind Kind
	}{
		"copied from itself":          {ours, good, 9, KindRequest},
		"copied from before it was":   {ours, Copy{Seq: 7, Due: good.Due, From: 6}, 20, KindRequest},
		"by nobody":                   {Mark{}, good, 20, KindRequest},
		"due at no instant":           {ours, Copy{Seq: 7, From: 9}, 20, KindRequest},
		"of another topic":            {NewMark([4]byte{1}, "billing", 3), good, 20, KindRequest},
		"of another partition":        {ours.In(4), good, 20, KindRequest},
		"of another group's carrying": {NewMark(ours.id, "other", ours.number), good, 20, KindOfAnotherGroup},
	} {
		headers := copied(c.mark, c.copy)
		if _, _, is := ours.Copied(headers, c.at); is {
			t.Errorf("%s: it is taken for a copy", name)
		}
		q, err := (&Parser{}).Parse(headers, Stamp{Millis: 1}, c.at, ours)
		if err != nil || q.Kind != c.kind || c.kind == KindRequest && q.Due != 1767225605123 {
			t.Errorf("%s: it asks for %+v (%v)", name, q, err)
		}
	}
	swapped := copied(ours, good)
	swapped[2], swapped[3] = swapped[3], swapped[2]
	if _, _, is := ours.Copied(swapped, 20); is {
		t.Error("headers of ours in another order are taken for a copy")
	}
}

func FuzzCopied(f *testing.F) {
	f.Add([]byte("a8098c1a:billing:3:7:1767225605123:-1"), []byte("9"), int64(12))
	f.Fuzz(func(t *testing.T, seq, from []byte, offset int64) {
		headers := []kgo.RecordHeader{{Key: HeaderSeq, Value: seq}, {Key: HeaderFrom, Value: from}}
		_, c, is := ours.Copied(headers, offset)
		if !is {
			return
		}
		again, _ := AppendCopy(nil, nil, ours, c, nil)
		if string(again[0].Value) != string(seq) || string(again[1].Value) != string(from) {
			t.Fatalf("%s %s is read as %+v", seq, from, c)
		}
	})
}
