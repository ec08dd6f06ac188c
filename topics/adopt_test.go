package topics

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A spec says what is adopted behind all else that it says.
func TestAdopting(t *testing.T) {
	for _, spec := range []string{"p1", "p1+300000", "p1~5/kr", "p1!^acme.", "r1+10000+2000+3600000+200"} {
		over := Adopting(spec, 77)
		if below, is := Adopts(over); over != spec+"@77" || !is || below != 77 {
			t.Errorf("%s is %s with that, which adopts what lay below %d: %v", spec, over, below, is)
		}
		if again := Adopting(over, 5); again != spec+"@5" || Adopting(over, 0) != spec {
			t.Errorf("%s with another offset is %s, and without any %s", over, again, Adopting(over, 0))
		}
		if _, is := Adopts(spec); is || FixedDelay(over) != FixedDelay(spec) {
			t.Errorf("%s adopts something: %v", spec, is)
		}
		plain, err := ParserFor(spec)
		p, failed := ParserFor(over)
		if err != nil || failed != nil || p.adopts != 77 || plain.adopts != 0 {
			t.Fatalf("%s: %v; %s: %+v, %v", spec, err, over, p, failed)
		}
		for _, bad := range []string{spec + "@", spec + "@0", spec + "@07", spec + "@-1", spec + "@7@8", spec + "@x"} {
			if p, err := ParserFor(bad); !errors.Is(err, ErrUnknownParser) {
				t.Errorf("%s is understood: %+v, %v", bad, p, err)
			}
		}
	}
}

// Copies and retries of another group are copies of what they stand for, as far as that lay below the offset from which on the log was there.
func TestCopiedByAnotherGroup(t *testing.T) {
	const due, again, written = 1767225605123, 1767225699000, 1767225600000
	theirs := NewMark(ours.id, "another group: of them", ours.number)
	request := []kgo.RecordHeader{{Key: HeaderUntil, Value: []byte("1767225605123")}, {Key: "trace", Value: []byte("7")}}
	copied := func(m Mark, in []kgo.RecordHeader, c Copy) []kgo.RecordHeader {
		headers, _ := AppendCopy(nil, in, m, c, nil)
		return headers
	}
	tried := func(m Mark, attempt int, of Origin) []kgo.RecordHeader {
		headers, _ := AppendRetry(nil, request, m, Retry{Due: again, Attempt: attempt, Origin: of}, nil)
		return headers
	}
	origin := Origin{Offset: 7, Timestamp: written, Due: due}
	for name, c := range map[string]struct {
		headers []kgo.RecordHeader
		want    Copy // zero: it is none
	}{
		"a copy":                               {copied(theirs, request, Copy{7, due, written, 7, ""}), Copy{7, due, written, 7, ""}},
		"a copy of a copy":                     {copied(theirs, request, Copy{7, due, written, 25, ""}), Copy{7, due, written, 25, ""}},
		"the last that is gone":                {copied(theirs, request, Copy{19, due, written, 19, ""}), Copy{19, due, written, 19, ""}},
		"of what is there":                     {copied(theirs, request, Copy{20, due, written, 20, ""}), Copy{}},
		"without a timestamp":                  {copied(theirs, request, Copy{7, due, -1, 7, ""}), Copy{7, due, -1, 7, ""}},
		"a retry":                              {tried(theirs, 2, origin), Copy{7, due, written, 7, "*"}},
		"before the first attempt":             {tried(theirs, 0, Origin{7, written, 1}), Copy{7, again, written, 7, "*"}},
		"put off for want of a letter box":     {tried(theirs, 0, origin), Copy{7, due, written, 7, "*"}},
		"a retry of what is there":             {tried(theirs, 2, Origin{20, written, due}), Copy{}},
		"a retry due at no instant":            {tried(theirs, 2, Origin{7, written, 0}), Copy{}},
		"a copy of a retry":                    {copied(theirs, tried(theirs, 2, origin), Copy{12, again, written + 5, 12, ""}), Copy{7, due, written, 12, "*"}},
		"a copy of a retry of what is there":   {copied(theirs, tried(theirs, 2, Origin{20, written, due}), Copy{25, again, written + 5, 25, ""}), Copy{}},
		"a copy of the retry of a third group": {copied(theirs, tried(NewMark(ours.id, "third", ours.number), 2, origin), Copy{12, again, written + 5, 12, ""}), Copy{12, again, written + 5, 12, ""}},
		"of another partition":                 {copied(theirs.In(9), request, Copy{7, due, written, 7, ""}), Copy{}},
		"a request":                            {request, Copy{}},
		"nothing":                              {nil, Copy{}},
		"of ours":                              {copied(ours, request, Copy{25, due, written, 25, ""}), Copy{25, due, written, 25, ""}},
	} {
		p := &Parser{adopts: 20}
		got, as, is := ours.StandsFor(p, c.headers, 30)
		want, adopted := request, false
		if c.want == (Copy{}) {
			want = c.headers
		} else if name == "a copy of the retry of a third group" {
			want = c.headers[:len(c.headers)-2]
		}
		if _, adopted = ours.adopted(got, as.Seq); adopted {
			got = got[:len(got)-1]
		}
		same := slices.EqualFunc(got, want, sameHeader) && adopted == (is && name != "of ours")
		if is != (c.want != Copy{}) || as != c.want || !same {
			t.Errorf("%s: %v, %+v, want %+v; headers %v", name, is, as, c.want, got)
		}
		if _, _, is := ours.StandsFor(&Parser{}, c.headers, 30); is != (name == "of ours") {
			t.Errorf("%s is a copy where nothing is adopted: %v", name, is)
		}
	}
}

// What has taken a record away that is adopted counts for this group, too; that another group has delivered it does not.
func TestResolvedByAnotherGroup(t *testing.T) {
	theirs := NewMark(ours.id, "other", ours.number)
	for _, c := range []struct {
		what            string
		m               Mark
		offset, seq, by int64
		want            Kind
	}{
		{"taken away", theirs, 25, 7, 22, KindResolve},
		{"delivered", theirs, 7, 7, -1, KindOfAnotherGroup},
		{"resolved when a copy was read, and by what is not known", theirs, 25, 7, -1, KindResolve},
		{"the same of what is there", theirs, 25, 20, -1, KindOfAnotherGroup},
		{"of what is there", theirs, 25, 20, 22, KindOfAnotherGroup},
		{"of ours", ours, 25, 20, -1, KindResolve},
	} {
		q, err := (&Parser{adopts: 20}).Parse(ResolveBy(c.m, c.offset, 5, c.seq, c.by), Stamp{Millis: 1}, 30, ours)
		if err != nil || q.Kind != c.want || c.want == KindResolve && (q.ResolveSeq != c.seq || q.ResolveBy != c.by || q.ResolveDue != 5) {
			t.Errorf("%s: %+v (%v), want kind %v", c.what, q, err, c.want)
		}
	}
	q, err := (&Parser{}).Parse(ResolveBy(theirs, 25, 5, 7, 22), Stamp{Millis: 1}, 30, ours)
	if err != nil || q.Kind != KindOfAnotherGroup {
		t.Errorf("where nothing is adopted: %+v (%v)", q, err)
	}
}

// A cancel that another group has passed on counts where it was there when this one began, and nowhere else.
func TestForwardedByAnotherGroup(t *testing.T) {
	theirs := NewMark(ours.id, "other", ours.number)
	first := &Parser{adopts: 20}
	here := Handle{3, 7, T}.String()
	for _, c := range []struct {
		what, name string
		m          Mark
		p          *Parser
		want       Kind
	}{
		{"of what is adopted", here, theirs, first, KindCancel},
		{"of what is there", Handle{3, 25, T}.String(), theirs, first, KindCancel},
		{"later", here, theirs, &Parser{}, KindOfAnotherGroup},
		{"of another partition", Handle{4, 7, T}.String(), theirs, first, KindOfAnotherGroup},
		{"of an id", "x", theirs, first, KindCancel},
		{"of an id, where the key is the id", "x", theirs, &Parser{adopts: 20, keyed: true}, KindCancel},
		{"of an id, later", "x", theirs, &Parser{}, KindOfAnotherGroup},
		{"of what is no id", strings.Repeat("x", 257), theirs, first, KindOfAnotherGroup},
		{"where the delay is fixed", here, theirs, &Parser{adopts: 20, delay: 5}, KindOfAnotherGroup},
		{"by this group", here, ours, first, KindCancel},
		{"of an id, by this group", "x", ours, first, KindCancel},
	} {
		hs, _ := AppendForward(nil, headers("delay-cancel", c.name), c.m, 4, 41, T, nil)
		q, err := c.p.Parse(hs, Stamp{Millis: T + 5}, 30, ours)
		if err != nil || q.Kind != c.want {
			t.Errorf("%s: %+v (%v), want kind %v", c.what, q, err, c.want)
			continue
		}
		if q.Kind != KindCancel {
			if q.Forwarded || q.Inherited || q.Here || q.NamedID != nil || q.WrittenBy != 0 {
				t.Errorf("%s: %+v", c.what, q)
			}
			continue
		}
		named := string(q.NamedID)
		if q.Here {
			named = q.Handle.String()
		}
		if named != c.name || !q.Forwarded || q.Inherited != (c.m == theirs) || q.WrittenBy != T {
			t.Errorf("%s: %+v", c.what, q)
		}
	}
	for _, value := range []string{"a8098c1a:other:3:4:41", "a8098c1a:other:3:4:41:x", "a8098c1a:other:3:4:41:700:1"} { // a newer release
		q, err := first.Parse(headers("delay-cancel", here, "delay-forwarded", value), Stamp{Millis: T}, 30, ours)
		if err != nil || q.Kind != KindOfAnotherGroup {
			t.Errorf("%s: %+v, %v", value, q, err)
		}
	}
}

// A cancel that was passed on as it was written, by what it named there, counts whatever its header was called: by another group, and by this one before its
// route had another prefix. Only a handle of this partition does, behind a mark of it.
func TestForwardedUnderAnotherPrefix(t *testing.T) {
	here, there := Handle{3, 7, T}, Handle{4, 7, T}
	theirs := NewMark(ours.id, "other", ours.number)
	for _, spec := range []string{"p1", "p1/k", "p1^x-wheel-", "p1^acme."} {
		for _, c := range []struct {
			what    string
			m       Mark
			headers []kgo.RecordHeader
			want    string // what is cancelled; "": nothing
		}{
			{"by this group", ours, headers("trace", "7", "wheel.cancel", here.String()), here.String()},
			{"by another one", theirs, headers("trace", "7", "wheel.cancel", here.String()), here.String()},
			{"in white space", theirs, headers("wheel.cancel", " "+here.String()+"\n", "trace", "7"), here.String()},
			{"beside an id of its producer's", theirs, headers("delay-cancel", "x", "x-wheel-cancel", "x", "acme.cancel", "x", "wheel.cancel", here.String()), here.String()},
			{"the last one counts", ours, headers("wheel.cancel", there.String(), "wheel.cancel", here.String(), "other.cancel", there.String()), here.String()},
			{"of another partition", theirs, headers("wheel.cancel", there.String(), "trace", "7"), ""},
			{"of an id", theirs, headers("wheel.cancel", "x", "trace", "7"), ""},
			{"which no route can call so", theirs, headers("wheelcancel", here.String(), "__cancel", here.String()), ""},
			{"in another partition", theirs.In(4), headers("wheel.cancel", here.String()), ""},
		} {
			hs, _ := AppendForward(nil, c.headers, c.m, 4, 41, T, nil)
			q, err := parser(t, Adopting(spec, 20)).Parse(hs, Stamp{Millis: T + 5}, 30, ours)
			switch {
			case c.want == "":
				if err == nil && q.Kind == KindCancel {
					t.Errorf("%s, read by %s: %+v", c.what, spec, q)
				}
			case err != nil || q.Kind != KindCancel || q.Handle.String() != c.want || !q.Here || q.NamedID != nil || !q.Forwarded || q.WrittenBy != T || q.Inherited != (c.m == theirs):
				t.Errorf("%s, read by %s: %+v, %v", c.what, spec, q, err)
			}
		}
		q, err := parser(t, Adopting(spec, 20)).Parse(headers("wheel.cancel", here.String()), Stamp{Millis: T, Key: []byte("k")}, 30, ours)
		if err == nil {
			t.Errorf("what nobody has passed on is %+v for %s", q, spec)
		}
	}
}

// What is adopted says by which names its request was written, and is read by them, whichever the group has that adopts it: so do copies of it, and what that group tries again,
// for it, for a third one and for the first, if that comes back.
func TestAdoptedKeepsItsNames(t *testing.T) {
	kinds := []string{"p1", "p1!", "p1!pe^x-wheel-", "p1~5000", "r1+10000+2000+3600000+200", "r1+5000+1000+5000+0^x-wheel-"}
	theirs, third := NewMark(ours.id, "before", ours.number), NewMark(ours.id, "third", ours.number)
	for _, was := range kinds {
		by := parser(t, was)
		request := headers("trace", "7", by.Name(HeaderUntil), "1767225605123", by.Name(HeaderTargetTopic), "later", by.Name(HeaderExpires), "1767225699000", by.Name(HeaderAttempt), "3")
		first := Origin{Offset: 7, Timestamp: T, Due: T + by.Jitter(ours, 7)}
		tried, _ := AppendRetry(nil, request, theirs, Retry{Due: T + 60_000, Attempt: 2, Origin: first, Names: NamesOf(by)}, nil)
		copied, _ := AppendCopy(nil, tried, theirs, Copy{Seq: 12, Due: T + 60_000, Timestamp: T, From: 12, Names: NamesOf(by)}, nil)
		carried, _ := AppendCopy(nil, request, theirs, Copy{Seq: 7, Due: first.Due, Timestamp: T, From: 9, Names: NamesOf(by)}, nil)
		var want Request
		if err := by.Again(&want, request, Stamp{Millis: T}, first.Due, 7, &ours); err != nil || string(want.Target) != "later" {
			t.Fatalf("%s: %+v, %v", was, want, err)
		}
		for _, spec := range kinds {
			if q, err := parser(t, spec).Parse(tried, Stamp{Millis: T}, 7, ours); err != nil || q.Kind != KindOfAnotherGroup {
				t.Errorf("written by %s, and in the log where it says that its request was, it is %+v, %v for %s", was, q, err, spec)
			}
			p := parser(t, Adopting(spec, 20))
			reads := func(how string, m Mark, hs []kgo.RecordHeader, offset int64) []kgo.RecordHeader {
				t.Helper()
				written, c, is := m.StandsFor(p, hs, offset)
				var got Request
				if err := p.Again(&got, written, Stamp{Millis: T}, c.Due, c.Seq, &m); !is || err != nil || c.Seq != 7 || c.Due != first.Due {
					t.Fatalf("written by %s, read by %s, %s: %v, %+v, %v", was, spec, how, is, c, err)
				}
				if string(got.Target) != "later" || got.Kind != KindRequest || got.Retry || got.Expires != want.Expires || got.Round != want.Round || got.Jitter != want.Jitter || got.AtOnce {
					t.Errorf("written by %s, read by %s, %s: %+v, want %+v", was, spec, how, got, want)
				}
				if q, err := p.Parse(written, Stamp{Millis: T}, c.Seq, m); err != nil || string(q.Target) != "later" {
					t.Errorf("written by %s, read by %s, %s and whole: %+v, %v", was, spec, how, q, err)
				}
				if name, want := ParserOf(p, written, c.Seq, &m).Name(HeaderDue), by.Name(HeaderDue); name != want {
					t.Errorf("written by %s, read by %s, %s: its names are those of %s, want %s", was, spec, how, name, want)
				}
				if as, _, again := m.Written(written, c.Seq); again || !slices.EqualFunc(as, request, sameHeader) {
					t.Errorf("written by %s, read by %s, %s: it was written as %v, want %v", was, spec, how, as, request)
				}
				return written
			}
			for how, hs := range map[string][]kgo.RecordHeader{"tried": tried, "carried": carried, "tried and carried": copied} {
				written := reads(how, ours, hs, 25)
				own, _ := AppendCopy(nil, written, ours, Copy{Seq: 7, Due: first.Due, Timestamp: T, From: 25, Names: NamesOf(ParserOf(p, written, 7, &ours))}, nil)
				reads(how+", and carried", ours, own, 27)
				reads(how+", and carried, by a third group", third, own, 27)
				reads(how+", and carried, by the first group", theirs, own, 27)
				as, _, _ := ours.Written(written, 7)
				again, _ := AppendRetry(nil, as, ours, Retry{Due: T + 90_000, Attempt: 1, Origin: first, Names: NamesOf(ParserOf(p, written, 7, &ours))}, nil)
				if q, err := p.Parse(again, Stamp{Millis: T}, 28, ours); err != nil || string(q.Target) != "later" || q.Expires != want.Expires || q.Round != want.Round {
					t.Errorf("written by %s, %s and tried again by %s: %+v, %v", was, how, spec, q, err)
				}
				reads(how+" and tried again, by a third group", third, again, 28)
			}
		}
	}
}

func sameHeader(a, b kgo.RecordHeader) bool {
	return a.Key == b.Key && string(a.Value) == string(b.Value)
}
