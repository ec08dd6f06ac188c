package pending

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// adoption is the log of a group that is new where its log begins at 10: others have written of what lay below, and of what is there.
type adoption struct {
	*owner
	begins state.Checkpoint
	theirs topics.Mark
	ids    bool          // each request has one: i and the offset at which it lay first
	log    []*kgo.Record // from 10 on
}

const adoptFrom, adoptTo = 10, 16

func testAdoption(t *testing.T) *adoption {
	a := &adoption{owner: testOwner(t), theirs: topics.NewMark([4]byte(testID.TopicID[:4]), "others", testID.Partition)}
	a.begins = checkpointAt(adoptFrom, adoptFrom, state.Key{}, Adopting(a.route.Spec(), adoptFrom, adoptTo)...)
	a.begins.GivenUp = adoptFrom
	a.write()
	return a
}

// write writes the log.
func (a *adoption) write() {
	a.log = nil
	a.copied(3, 3)
	a.log = append(a.log, a.of(11))
	a.copied(11, 11) // of what is there
	tried := a.of(4)
	tried.Headers, _ = topics.AppendRetry(nil, tried.Headers, a.theirs, topics.Retry{Due: ms(2 * farMs), Attempt: 1, Origin: topics.Origin{Offset: 4, Timestamp: testNow, Due: ms(farMs + 4)}}, nil)
	a.log = append(a.log, tried)
	a.copied(5, 5)
	a.copied(5, 14) // a copy of that copy
}

// of is a request for what lay at an offset, at the end of the log.
func (a *adoption) of(seq int64) *kgo.Record {
	r := req(adoptFrom+int64(len(a.log)), ms(farMs+seq), "orders")
	r.Value = fmt.Append(nil, seq)
	if a.ids {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderID, Value: fmt.Append(nil, "i", seq)})
	}
	return r
}

// copied appends a copy of what lay at an offset.
func (a *adoption) copied(seq, from int64) {
	r := a.of(seq)
	r.Headers, _ = topics.AppendCopy(nil, r.Headers, a.theirs, topics.Copy{Seq: seq, Due: ms(farMs + seq), Timestamp: testNow, From: from}, nil)
	a.log = append(a.log, r)
}

// waits expects what lay at some offsets to be pending, and where each lies now.
func (a *adoption) waits(t *testing.T, p *Partition, at map[int64]int64) {
	t.Helper()
	equal(t, "pending", p.Pending(), int64(len(at)))
	for seq, place := range at {
		equal(t, fmt.Sprintf("%d lies at %d", seq, place), p.ledger.Has(place), true)
	}
	must(t, p.Load(ms(3*farMs), Room{Window: 4 * farMs, Most: 4 * farMs, Budget: 1 << 30, Share: 1 << 30}))
	pt := p.Take(ms(3*farMs), nil, 100, 1<<30)
	equal(t, "delivered", len(pt.Items), len(at))
	for _, it := range pt.Items {
		if place, is := at[it.Key.Seq]; !is || it.Key.Due != ms(farMs+it.Key.Seq) || it.Offset != place {
			t.Errorf("delivered is %d with key %v", it.Offset, it.Key)
		}
	}
}

// What other groups have written of what is gone stands for it, once; in a group that is new, in its replays, and in what follows it. What they write since
// it has begun is passed over.
func TestAdopts(t *testing.T) {
	for _, storeless := range []bool{false, true} {
		want := map[int64]int64{3: 10, 11: 11, 4: 13, 5: 15}
		a := testAdoption(t)
		if storeless {
			a.store = nil
		}
		begin := func(c state.Checkpoint) *Partition {
			p, err := a.assign(c, adoptFrom, adoptTo, adoptTo)
			must(t, err)
			for _, r := range a.log {
				_, err := p.Accept(r, testNow)
				must(t, err)
			}
			must(t, p.GoLive(a.room))
			must(t, p.Load(testNow, a.room))
			return p
		}
		p := begin(a.begins)
		pt := p.Take(testNow, nil, 100, 1<<20)
		equal(t, "O", pt.To.Offset, int64(adoptTo))
		equal(t, "L", pt.To.LowWater, int64(adoptFrom))
		a.happened(pt)
		a.copied(3, 10)
		_, err := p.Accept(a.log[len(a.log)-1], testNow)
		must(t, err)
		a.waits(t, p, want)

		again := begin(pt.To)
		a.waits(t, again, want)
		if !storeless {
			f := testAdoption(t).following(t, pt.To, a.log[:adoptTo-adoptFrom]...)
			equal(t, "a follower has", f.Pending(), int64(len(want)))
		}
	}
}

// What was adopted is carried as it was written, without the headers of the group that has carried it before; but with one that says by what names it was written.
func TestCarryWhatIsAdopted(t *testing.T) {
	a := testAdoption(t)
	p, err := a.assign(a.begins, adoptFrom, adoptTo, adoptTo)
	must(t, err)
	a.read(t, p, testNow, a.log...)
	must(t, p.GoLive(a.room))
	must(t, p.Load(testNow, a.room))
	a.happened(p.Take(testNow, nil, 100, 1<<20))
	for place, seq := range map[int64]int64{10: 3, 11: 11, 13: 4, 15: 5} {
		written, c, is := Carrying{p}.Copy(a.log[place-adoptFrom])
		want := topics.Copy{Seq: seq, Due: ms(farMs + seq), Timestamp: testNow, From: place}
		headers := 3
		switch seq {
		case 11:
			headers = 2
		case 4:
			want.Names = "*" // it had been tried
		}
		if !is || c != want || len(written) != headers {
			t.Errorf("of %d: %v, %+v, want %+v; headers %v", place, is, c, want, written)
		}
	}
}

// What another group has cancelled across partitions is cancelled, whether it is adopted or there, in a group that is new and in its replays: the cancel itself
// may be gone where it was written. What a group passes on since then counts for itself.
func TestInheritsWhatWasCancelled(t *testing.T) {
	handle := func(seq int64) string {
		return topics.Handle{Partition: testID.Partition, Offset: seq, Due: ms(farMs + seq)}.String()
	}
	all := map[int64]int64{3: 10, 11: 11, 4: 13, 5: 15}
	for _, c := range []struct {
		what, name string
		asked      int64 // when, since all else was written
		later      bool  // it was passed on when the group had begun
		takes      []int64
	}{
		{"of what is adopted", handle(3), 0, false, []int64{3}},
		{"of what was tried", handle(4), 0, false, []int64{4}},
		{"of what is there", handle(11), 0, false, []int64{11}},
		{"of an id that is adopted", "i5", 0, false, []int64{5}},
		{"of an id that is there", "i11", 0, false, []int64{11}},
		{"of an id that nothing has", "i7", 0, false, nil},
		{"of an id that came to be had since", "i11", -1, false, nil},
		{"later", handle(11), 0, true, nil},
		{"of an id, later", "i5", 0, true, nil},
		{"of what is there, by another name", "wheel.cancel " + handle(11), 0, false, []int64{11}},
	} {
		t.Run(c.what, func(t *testing.T) {
			a := testAdoption(t)
			a.ids = true
			a.write()
			forward := &kgo.Record{Offset: adoptTo, Timestamp: time.UnixMilli(testNow)}
			header, name, other := strings.Cut(c.name, " ")
			if !other {
				header, name = topics.HeaderCancel, c.name
			}
			forward.Headers, _ = topics.AppendForward(nil, []kgo.RecordHeader{{Key: header, Value: []byte(name)}}, a.theirs, 7, 70, testNow+c.asked, nil)
			a.log = append(a.log, forward)
			if !c.later {
				a.begins.Parsers = Adopting(a.route.Spec(), adoptFrom, adoptTo+1)
			}
			begin := func(c state.Checkpoint) *Partition {
				p, err := a.assign(c, adoptFrom, adoptTo+1, adoptTo+1)
				must(t, err)
				a.read(t, p, testNow, a.log...)
				must(t, p.GoLive(a.room))
				must(t, p.Load(testNow, a.room))
				return p
			}
			want := maps.Clone(all)
			for _, seq := range c.takes {
				delete(want, seq)
			}
			p := begin(a.begins)
			pt := p.Take(testNow, nil, 100, 1<<20)
			a.happened(pt)
			a.waits(t, p, want)
			a.waits(t, begin(pt.To), want)
		})
	}
}

// What another group has carried, and found to be resolved when it read the copy, does not come back to life in a group that is new, whether or not that one knew by
// what it was taken away.
func TestAdoptsNoStaleCopy(t *testing.T) {
	for name, c := range map[string]struct {
		of, by int64
		waits  bool
	}{
		"cancelled":                    {10, 8, false},
		"resolved by what is not told": {10, -1, false},
		"delivered before what waits":  {3, -1, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := testAdoption(t)
			a.log = append(a.log, &kgo.Record{Offset: adoptTo, Timestamp: time.UnixMilli(testNow), Headers: topics.ResolveBy(a.theirs, c.of, ms(farMs+3), 3, c.by)})
			a.begins.Parsers = Adopting(a.route.Spec(), adoptFrom, adoptTo+1)
			want := map[int64]int64{11: 11, 4: 13, 5: 15}
			if c.waits {
				want[3] = 10
			}
			begin := func(c state.Checkpoint) *Partition {
				p, err := a.assign(c, adoptFrom, adoptTo+1, adoptTo+1)
				must(t, err)
				a.read(t, p, testNow, a.log...)
				must(t, p.GoLive(a.room))
				must(t, p.Load(testNow, a.room))
				return p
			}
			p := begin(a.begins)
			pt := p.Take(testNow, nil, 100, 1<<20)
			a.happened(pt)
			a.waits(t, p, want)
			a.waits(t, begin(pt.To), want)
		})
	}
}

// What was put off more than once, as what cannot be dead-lettered is, stands for one record, whether or not it was tried in between.
func TestAdoptsOnceWhatWasPutOff(t *testing.T) {
	a := testAdoption(t)
	for i, attempt := range []int{0, 0, 1} {
		r := a.of(6)
		r.Headers, _ = topics.AppendRetry(nil, r.Headers, a.theirs,
			topics.Retry{Due: ms(2*farMs + int64(i)), Attempt: attempt, Origin: topics.Origin{Offset: 6, Timestamp: testNow, Due: ms(farMs + 6)}}, nil)
		a.log = append(a.log, r)
	}
	end := adoptFrom + int64(len(a.log))
	a.begins.Parsers = Adopting(a.route.Spec(), adoptFrom, end)
	p, err := a.assign(a.begins, adoptFrom, end, end)
	must(t, err)
	a.read(t, p, testNow, a.log...)
	must(t, p.GoLive(a.room))
	must(t, p.Load(testNow, a.room))
	a.happened(p.Take(testNow, nil, 100, 1<<20))
	a.waits(t, p, map[int64]int64{3: 10, 11: 11, 4: 13, 5: 15, 6: end - 1})
}

// What is carried says by what names its request was written, for a group that adopts it: also where the route has others by then, of copies as of what was tried before.
func TestCarriedSaysItsNames(t *testing.T) {
	l := testOwner(t)
	former := testRoute(true)
	former.Prefix, former.Jitter = "x-wheel-", 5*time.Second
	l.route = mustRoute(former)
	r := req(0, ms(farMs), "orders")
	for i, name := range []string{"until", "target-topic"} {
		r.Headers[i].Key = former.Prefix + name
	}
	p := l.live(t)
	l.read(t, p, testNow, r)
	l.happened(p.Checkpoint())
	says := func(p *Partition, r *kgo.Record) *kgo.Record {
		t.Helper()
		written, c, is := Carrying{p}.Copy(r)
		if !is || c.Names != "~5000^x-wheel-" {
			t.Errorf("what lies at %d is carried (%v) with %+v", r.Offset, is, c)
		}
		copied := &kgo.Record{Offset: r.Offset + 1, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
		copied.Headers, _ = topics.AppendCopy(nil, written, testMark, c, nil)
		return copied
	}
	log := []*kgo.Record{r, says(p, r)}
	c := p.committed
	l.route, l.store = mustRoute(testRoute(true)), nil
	c.Offset = 2
	p, err := l.assign(c, 0, 2, 2)
	must(t, err)
	l.read(t, p, testNow, log...)
	must(t, p.GoLive(l.room))
	says(p, log[1])

	tried := &kgo.Record{Offset: 3, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
	tried.Headers, _ = topics.AppendRetry(nil, r.Headers, testMark, topics.Retry{Due: ms(2 * farMs), Attempt: 1, Origin: topics.Origin{Timestamp: testNow, Due: ms(farMs)}, Names: "~5000^x-wheel-"}, nil)
	p = l.live(t)
	p.Pass(3, 0)
	l.read(t, p, testNow, tried)
	l.happened(p.Checkpoint())
	says(p, tried)
}

// What another group had tried is adopted as it was there: without an id, which what was requested since may have. What it had carried keeps its own. So it is whether or not the key of a record
// was its id there, and is here; and a null value cancels only where it did when it was written.
func TestAdoptsIDsAsTheyWere(t *testing.T) {
	for _, was := range []string{"p1", "p1/k"} {
		for _, now := range []string{"p1", "p1/k", "p1/kr", "p1/r"} {
			t.Run(was+" "+now, func(t *testing.T) {
				a := testAdoption(t)
				route := testRoute(true)
				route.Keyed, route.OnDuplicate = strings.HasPrefix(now, "p1/k"), topics.DuplicateRejected
				if strings.HasSuffix(now, "r") {
					route.OnDuplicate = topics.DuplicateReplaces
				}
				a.route = mustRoute(route)
				former, err := topics.ParserFor(was)
				must(t, err)
				names := topics.NamesOf(former)
				id := func(r *kgo.Record, spec, id string) *kgo.Record {
					if strings.HasPrefix(spec, "p1/k") {
						r.Key = []byte(id)
					} else {
						r.Key, r.Headers = []byte("key of "+id), append(r.Headers, kgo.RecordHeader{Key: topics.HeaderID, Value: []byte(id)})
					}
					return r
				}
				a.log = nil
				carried := id(a.of(3), was, "i3")
				if was == "p1" { // what cancels in a topic of keys
					carried.Value = nil
				}
				carried.Headers, _ = topics.AppendCopy(nil, carried.Headers, a.theirs, topics.Copy{Seq: 3, Due: ms(farMs + 3), Timestamp: testNow, From: 3, Names: names}, nil)
				a.log = append(a.log, carried)
				tried := id(a.of(4), was, "i4")
				tried.Headers, _ = topics.AppendRetry(nil, tried.Headers, a.theirs, topics.Retry{Due: ms(2 * farMs), Attempt: 1, Origin: topics.Origin{Offset: 4, Timestamp: testNow, Due: ms(farMs + 4)}, Names: names}, nil)
				a.log = append(a.log, tried)
				again := &kgo.Record{Offset: adoptFrom + 2, Timestamp: tried.Timestamp, Key: tried.Key, Value: tried.Value}
				again.Headers, _ = topics.AppendCopy(nil, tried.Headers, a.theirs, topics.Copy{Seq: 11, Due: ms(2 * farMs), Timestamp: testNow, From: 11, Names: names}, nil)
				a.log = append(a.log, again)
				a.log = append(a.log, id(a.of(13), now, "i4"))
				end := adoptFrom + int64(len(a.log))
				a.begins.Parsers = Adopting(a.route.Spec(), adoptFrom, end)
				begin := func(c state.Checkpoint) *Partition {
					p, err := a.assign(c, adoptFrom, end, end)
					must(t, err)
					a.read(t, p, testNow, a.log...)
					must(t, p.GoLive(a.room))
					must(t, p.Load(testNow, a.room))
					return p
				}
				p := begin(a.begins)
				pt := p.Take(testNow, nil, 100, 1<<20)
				equal(t, "dead-lettered", len(pt.Items)-4, 0)
				a.happened(pt)
				want := map[int64]int64{3: 10, 4: 12, 13: 13}
				a.waits(t, p, want)
				p = begin(pt.To)
				cancel := &kgo.Record{Offset: end, Timestamp: time.UnixMilli(testNow), Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte("i3")}}, Value: []byte("x")}
				a.read(t, p, testNow, cancel)
				must(t, p.Load(testNow, a.room))
				a.happened(p.Take(testNow, nil, 100, 1<<20))
				delete(want, 3)
				a.waits(t, p, want)
			})
		}
	}
}
