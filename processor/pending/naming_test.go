package pending

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/wheel"
)

// Many cancels and replacements at once do what they do one after the other, and a replay takes away the same.
func TestManyNamings(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var log []*kgo.Record
		due := func() int64 { return ms([]int64{-50, 500, 500, 900, farMs, farMs + 7}[rng.IntN(6)]) }
		dues := map[int64]int64{}
		request := func(name string) {
			offset := int64(len(log))
			r := req(offset, due(), "orders")
			fmt.Sscan(string(r.Headers[0].Value), new(int64))
			at, _ := new(topics.Parser).Parse(r.Headers, topics.StampOf(r), offset, testMark)
			dues[offset] = at.Due
			if name != "" {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderReplace, Value: []byte(name)})
			}
			log = append(log, r)
		}
		for range 120 {
			request("")
		}
		for range 150 {
			of := int64(rng.IntN(len(log)))
			name := topics.Handle{Partition: testID.Partition, Offset: of, Due: max(dues[of], 1)}.String()
			if rng.IntN(6) == 0 { // what comes later is not meant
				name = topics.Handle{Partition: testID.Partition, Offset: int64(len(log)) + 1, Due: ms(500)}.String()
			}
			if rng.IntN(3) == 0 {
				request(name)
				continue
			}
			log = append(log, &kgo.Record{Offset: int64(len(log)), Timestamp: log[0].Timestamp, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(name)}}})
			if rng.IntN(3) == 0 {
				request("")
			}
		}
		play := func(every int) (*owner, *Partition, string) {
			l := testOwner(t)
			p := l.live(t)
			l.decide(t, p, log, every)
			return l, p, outcomeOf(t, p)
		}
		l, p, together := play(1 << 20)
		if _, _, alone := play(1); alone != together {
			t.Fatalf("seed %d: one after the other:\n%s\nall at once:\n%s", seed, alone, together)
		}
		part := p.Take(testNow-100, nil, 1000, anyBytes)
		l.happened(part)
		must(t, p.Flush())
		before := pendingOf(t, p)
		c := p.Marks().Committed
		again, err := l.assign(c, 0, int64(len(log)), int64(len(log)))
		must(t, err)
		for _, r := range log {
			if _, err := again.Accept(r, testNow); err != nil {
				t.Fatal(err)
			}
		}
		for _, it := range part.Items {
			if it.Resolve {
				_, err := again.Accept(resolving(int64(len(log)), it.Offset, it.Key.Due), testNow)
				must(t, err)
				again.position = int64(len(log)) // they all lie behind
			}
		}
		must(t, again.Sync())
		must(t, again.goLive(l.room))
		if after := pendingOf(t, again); after != before {
			t.Fatalf("seed %d: pending was %s, and in a replay it is %s", seed, before, after)
		}
	}
}

// Many records with ids at once do what they do one after the other, in memory, in the store and without one.
func TestManyIDs(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var log []*kgo.Record
		for offset := range int64(200) {
			r := req(offset, ms([]int64{-50, 500, 900, farMs, farMs + 7}[rng.IntN(5)]), "orders")
			h := kgo.RecordHeader{Key: []string{topics.HeaderID, topics.HeaderID, topics.HeaderReplace, topics.HeaderCancel}[rng.IntN(4)], Value: fmt.Appendf(nil, "id%d", rng.IntN(12))}
			if h.Key == topics.HeaderCancel {
				r.Headers = nil
			}
			r.Headers = append(r.Headers, h)
			log = append(log, r)
		}
		play := func(every int) string {
			l := testOwner(t)
			if seed%3 == 0 {
				l.store = nil
			}
			r := testRoute(true)
			r.OnDuplicate = topics.OnDuplicate(seed % 3)
			l.route = mustRoute(r)
			p := l.live(t)
			l.decide(t, p, log, every)
			out := ""
			for h := range p.late.all() {
				effect := h.effect
				if effect == EffectAccepted {
					effect = EffectNone // one with an open question is on the list, and one without is not
				}
				if effect != EffectNone || h.refusal != nil || h.by > 0 {
					out += fmt.Sprint(h.offset, " ", effect, " by ", h.by, " refused ", h.refusal != nil, " resolve ", h.resolve, "; ")
				}
			}
			return fmt.Sprint(out, p.Counted(), p.Pending()-int64(p.late.own()))
		}
		if together, alone := play(1<<20), play(1); alone != together {
			t.Fatalf("seed %d: one after the other:\n%s\nall at once:\n%s", seed, alone, together)
		}
	}
}

// decide takes in a log, and has it decided what records do that name others after every so many.
func (l *owner) decide(t *testing.T, p *Partition, log []*kgo.Record, every int) {
	t.Helper()
	for i, r := range log {
		if _, err := p.Accept(r, testNow); err != nil {
			t.Fatal(err)
		}
		if i%every == 0 {
			must(t, p.Load(testNow, l.room))
		}
	}
	must(t, p.Load(testNow, l.room))
	must(t, p.Sync())
	must(t, Check(p))
}

// outcomeOf is what has become of all that was named, and what is pending.
func outcomeOf(t *testing.T, p *Partition) (out string) {
	for h := range p.late.all() {
		out += fmt.Sprint(h.offset, " ", h.effect, " by ", h.by, " refused ", h.refusal != nil, " resolve ", h.resolve, "; ")
	}
	return out + pendingOf(t, p)
}

// pendingOf are the offsets of what is pending, in memory and in the store.
func pendingOf(t *testing.T, p *Partition) string {
	t.Helper()
	var all []int64
	var near []wheel.Entry
	p.wheel.TakeFrom(p.wheel.Now(), func(e wheel.Entry) { near = append(near, e) })
	for _, e := range near {
		all = append(all, e.Seq)
		p.wheel.Add(e.Due, e.Seq, e.Ref)
	}
	must(t, p.store.Scan(p.horizon, func(k state.Key, _ []byte) bool {
		if _, is := p.gone[k]; !is {
			all = append(all, k.Seq)
		}
		return true
	}))
	slices.Sort(all)
	return fmt.Sprint(all)
}

// A record about which something was to be decided needs the log for as long as any other.
func TestNeedsOfAReplacement(t *testing.T) {
	const week = 7 * 24 * time.Hour
	l := testOwner(t)
	staying(l)
	p := l.live(t)
	r := withHeader(req(1, ms(500), "orders"), topics.HeaderReplace, "a")
	r.Timestamp = time.UnixMilli(ms(500)).Add(-week)
	l.read(t, p, testNow, withID(req(0, ms(100), "orders"), "a"), r)
	must(t, p.Load(testNow, l.room))
	equal(t, "pending", pendingOf(t, p), "[1]")
	equal(t, "needs", p.Figures(testNow).Needs, week)
}

// What a resolve record names is not taken for a turn before it has been taken away.
func TestResolvedIsNotTaken(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(100), "orders"), req(1, ms(100), "orders"))
	_, err := p.Accept(resolving(2, 0, ms(100)), ms(100))
	must(t, err)
	equals(t, "taken before that", p.Take(ms(100), nil, 100, anyBytes).offsets(), nil)
	must(t, p.Load(ms(100), l.room))
	equals(t, "taken then", p.Take(ms(100), nil, 100, anyBytes).offsets(), []int64{1})
}

// What is not wanted because its id is pending takes nothing away: the wheel is not looked through for it.
func TestDuplicatesLookForNothing(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, withID(req(0, ms(500), "orders"), "a"))
	for i := range int64(siftFrom) {
		l.read(t, p, testNow, withID(req(1+i, ms(500), "orders"), "a"))
	}
	d := decision{keyed: &p.keyed}
	equal(t, "questions", len(p.questions), siftFrom)
	equal(t, "keys to be looked for", len(d.keys()), 0)
}

// A resolve record of what is not pending asks for nothing. An owner reads one of its own for each record that it has refused.
func TestResolvedAlready(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(500), "elsewhere"))
	l.happened(p.Take(testNow, nil, 1, anyBytes))
	_, err := p.Accept(resolving(1, 0, ms(500)), testNow)
	must(t, err)
	equal(t, "something is to be taken away", p.drops.any(), false)
}

// A replacement that is refused for what it says by itself changes nothing, as one does that would expire before it is due. One that is refused for where it is to go
// takes the other one away all the same.
func TestReplacementThatIsRefused(t *testing.T) {
	expires := func(r *kgo.Record) *kgo.Record {
		return withHeader(r, topics.HeaderExpires, strconv.FormatInt(ms(800), 10))
	}
	for _, by := range []struct{ what, header, name string }{
		{"by its handle", topics.HeaderReplace, handleOf(0, ms(500))},
		{"by its id", topics.HeaderReplace, "a"},
		{"by having its id", topics.HeaderID, "a"},
	} {
		for _, c := range []struct {
			r    *kgo.Record
			code topics.Code
			left string
		}{
			{expires(req(1, ms(900), "orders")), topics.CodeExpired, "[0]"},
			{expires(req(1, ms(700), "elsewhere")), topics.CodeTargetNotAllowed, "[]"},
			{req(1, ms(900), "no name"), topics.CodeInvalidTarget, "[0]"},
		} {
			l := testOwner(t)
			r := testRoute(true)
			r.OnDuplicate = topics.DuplicateReplaces
			l.route = mustRoute(r)
			p := l.live(t)
			l.read(t, p, testNow, withID(req(0, ms(500), "orders"), "a"), withHeader(c.r, by.header, by.name))
			must(t, p.Load(testNow, l.room))
			what := fmt.Sprintf("%s, refused as %s", by.what, c.code)
			equal(t, what+": pending", pendingOf(t, p), c.left)
			pt := p.Take(testNow, nil, 10, anyBytes)
			if pt == nil || len(pt.Items) != 1 || pt.Items[0].Refusal == nil || pt.Items[0].Refusal.Code != c.code {
				t.Errorf("%s: resolved are %+v", what, pt)
			}
		}
	}
}
