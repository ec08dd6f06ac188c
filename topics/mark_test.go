package topics

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What another group has carried or tried again says of which request, and which group that is.
func TestOfAnotherGroup(t *testing.T) {
	theirs := NewMark(ours.id, "the other", ours.number)
	asked := headers("delay-until", "1767225605123", "trace", "7")
	tried := func(m Mark) []kgo.RecordHeader {
		got, _ := AppendRetry(nil, asked, m, Retry{Due: T + 1000, Attempt: 1, Origin: Origin{Offset: 7, Timestamp: T, Due: T}, Names: "^x-"}, nil)
		return got
	}
	copied := func(m Mark, of []kgo.RecordHeader) []kgo.RecordHeader {
		got, _ := AppendCopy(nil, of, m, Copy{Seq: 8, Due: T, Timestamp: T, From: 8}, nil)
		return got
	}
	for what, c := range map[string]struct {
		headers []kgo.RecordHeader
		seq     int64 // -1: of no other group
	}{
		"carried": {copied(theirs, asked), 8}, "tried again": {tried(theirs), 7}, "carried as it was tried": {copied(theirs, tried(theirs)), 8},
		"by this group": {copied(ours, asked), -1}, "tried by this group": {tried(ours), -1}, "in another partition": {copied(theirs.In(4), asked), -1},
		"a request": {asked, -1}, "nothing": {nil, -1}, "a resolve record": {Resolve(theirs, 7, T, 7), -1}, "a header more": {append(tried(theirs), asked...), -1},
		"without numbers": {[]kgo.RecordHeader{{Key: HeaderRetry, Value: theirs.appendTo(nil)}}, -1}, "a header of that name": {headers(HeaderSeq, "7"), -1},
	} {
		group, seq, is := ours.OfAnotherGroup(slices.Clone(c.headers))
		if is != (c.seq >= 0) || is && (group != "the other" || seq != c.seq) {
			t.Errorf("%s: %q, %d, %v", what, group, seq, is)
		}
	}
	if group, seq, is := (Mark{}).OfAnotherGroup(headers(HeaderRetry, "billing:7:8")); is {
		t.Errorf("to nobody it is %d of %q", seq, group)
	}
}

// A cancel that was passed on as it was written, by what it named there, counts whatever its header was called: by this group before its route had another prefix. Only a
// handle of this partition does, behind a mark of it.
func TestForwardedUnderAnotherPrefix(t *testing.T) {
	here, there := Handle{3, 7, T}, Handle{4, 7, T}
	for _, spec := range []string{"p1", "p1/k", "p1^x-wheel-", "p1^acme."} {
		for _, c := range []struct {
			what    string
			m       Mark
			headers []kgo.RecordHeader
			want    string // what is cancelled; "": nothing
		}{
			{"as it was", ours, headers("trace", "7", "wheel.cancel", here.String()), here.String()},
			{"in white space", ours, headers("wheel.cancel", " "+here.String()+"\n", "trace", "7"), here.String()},
			{"beside an id of its producer's", ours, headers("delay-cancel", "x", "x-wheel-cancel", "x", "acme.cancel", "x", "wheel.cancel", here.String()), here.String()},
			{"the last one counts", ours, headers("wheel.cancel", there.String(), "wheel.cancel", here.String(), "other.cancel", there.String()), here.String()},
			{"of another partition", ours, headers("wheel.cancel", there.String(), "trace", "7"), ""},
			{"of an id", ours, headers("wheel.cancel", "x", "trace", "7"), ""},
			{"which no route can call so", ours, headers("wheelcancel", here.String(), "__cancel", here.String()), ""},
			{"in another partition", ours.In(4), headers("wheel.cancel", here.String()), ""},
			{"by another group", NewMark(ours.id, "other", ours.number), headers("wheel.cancel", here.String()), ""},
		} {
			hs, _ := AppendForward(nil, c.headers, c.m, 4, 41, T, nil)
			q, err := parser(t, spec).Parse(hs, Stamp{Millis: T + 5}, 30, ours)
			switch {
			case c.want == "":
				if err == nil && q.Kind == KindCancel {
					t.Errorf("%s, read by %s: %+v", c.what, spec, q)
				}
			case err != nil || q.Kind != KindCancel || q.Handle.String() != c.want || !q.Here || q.NamedID != nil || !q.Forwarded || q.WrittenBy != T:
				t.Errorf("%s, read by %s: %+v, %v", c.what, spec, q, err)
			}
		}
		q, err := parser(t, spec).Parse(headers("wheel.cancel", here.String()), Stamp{Millis: T, Key: []byte("k")}, 30, ours)
		if err == nil {
			t.Errorf("what nobody has passed on is %+v for %s", q, spec)
		}
	}
}
