package pending

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/wheel"
)

// Any log under any sequence of configurations gives the same pending set after a restart as without one: with the store, with one that lags, without
// it, and for a follower. (Design rule 10.)
func TestReplayIsDeterministic(t *testing.T) {
	below := 0
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { below += replaysOf(t, rand.New(rand.NewPCG(seed, 2)), nil).below })
	}
	if below == 0 {
		t.Error("no store that resumes below L was of use")
	}
}

// replaying is a partition whose log and configuration go on at random.
type replaying struct {
	*testing.T
	*rand.Rand
	l   *owner
	p   *Partition
	log []*kgo.Record
	now int64

	disk   image // what is left of the store after a crash
	spared int   // how many records the store spared at the last restart
	below  int   // how often that has resumed below L, and was of use

	seen map[string]int // every kind of configuration and of record is drawn, and counted here; nil: those alone that say when they are due
	keys []state.Key    // what was pending last

	meant map[int64]meaning // by offset: what requests have asked for
}

func replaysOf(t *testing.T, rng *rand.Rand, seen map[string]int) *replaying {
	r := &replaying{T: t, Rand: rng, l: testOwner(t), now: testNow, seen: seen}
	r.l.room.Window, r.l.room.Most = 2000, 2000
	r.configure()
	r.p = r.l.live(t)
	for range 8 {
		for range 5 + r.IntN(20) {
			r.append(r.request())
		}
		r.accept()
		if r.IntN(2) == 0 {
			r.now += int64(r.IntN(1500))
		}
		r.deliver()
		want := r.pending(r.p)
		c := r.p.Marks().Committed
		if r.IntN(3) > 0 {
			r.configure() // what was accepted stays what it was
		}
		others := map[string]*owner{"without the store": {route: r.l.route, room: r.l.room, seen: r.now}, "with the store": r.l}
		if r.IntN(2) == 0 {
			r.flush()
		}
		for _, how := range []string{"without the store", "with the store"} {
			p := r.restart(others[how], c)
			r.same(p, want, how)
			r.p = p
		}
		if r.l.store == nil {
			t.Fatal("the last one has a store")
		}
		r.lag(c)
	}
	return r
}

// same fails unless what was pending is so in a partition that was made anew.
func (r *replaying) same(p *Partition, want waiting, how string) {
	got := r.pending(p)
	if got.ordered != want.ordered {
		r.note("a queue and keys, one after the other")
	}
	if !got.same(want) {
		r.Fatalf("%s, after %d records: pending is\n%v\nand was\n%v\n%+v, store %+v", how, len(r.log), got.keys, want.keys, p.committed, r.disk.pos)
	}
}

// flush has the store written, if there is one.
func (r *replaying) flush() {
	if r.p.HasStore() {
		must(r.T, r.p.Flush())
	}
}

// lag has what the store holds survive a crash, or has a crash leave what has survived the last one.
func (r *replaying) lag(c state.Checkpoint) {
	if r.disk.used && r.IntN(3) == 0 {
		want := r.pending(r.p)
		store, err := r.l.store.Partition(testID)
		must(r.T, err)
		must(r.T, store.Drop())
		must(r.T, r.disk.writeTo(store))
		p := r.restart(r.l, c)
		r.same(p, want, "with a store that lags")
		if r.disk.pos.Resume < c.LowWater && r.spared > 0 {
			r.below++
		}
		r.p = p
		return
	}
	if r.IntN(2) == 0 && !r.p.Ordered() {
		must(r.T, r.p.Flush())
		var err error
		r.disk, err = imageOf(r.p.store)
		must(r.T, err)
	}
}

func (r *replaying) configure() {
	route := testRoute(r.IntN(2) == 0)
	if r.otherKind(&route) {
		r.l.route = mustRoute(route)
		return
	}
	route.OnDuplicate, route.Keyed, route.Jitter = topics.OnDuplicate(r.IntN(3)), r.IntN(4) == 0, time.Duration(r.IntN(2))*time.Second
	if route.OnDuplicate != topics.DuplicateReplaces && r.IntN(2) == 0 {
		route.Remember = time.Duration(1+r.IntN(4)) * 1300 * time.Millisecond
	}
	route.Aliases = [][]string{nil, nil, {"none"}, {"plain"}, {"etf1", "karafka"}, {"spring-retry", "connect-dlq"}}[r.IntN(6)]
	route.Prefix = []string{"", "", "x-wheel-", "dw."}[r.IntN(4)]
	r.l.route = mustRoute(route)
}

func (r *replaying) append(rec *kgo.Record) {
	rec.Offset = int64(len(r.log))
	r.log = append(r.log, rec)
}

// request is a request with an id or without, a cancel, or a replacement.
func (r *replaying) request() *kgo.Record {
	rec := req(0, r.now+int64([]int{-5, 200, 700, 1500, 5000, 9000}[r.IntN(6)]), []string{"orders", "bills"}[r.IntN(2)])
	rec.Key = fmt.Appendf(nil, "k%d", r.IntN(6))
	set := func(name, value string) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	of := r.IntN(len(r.log) + 2)
	h := topics.Handle{Partition: testID.Partition, Offset: int64(of), Due: r.now}
	if of < len(r.log) && len(r.log[of].Headers) > 0 && strings.HasSuffix(r.log[of].Headers[0].Key, "until") {
		fmt.Sscan(string(r.log[of].Headers[0].Value), &h.Due)
	}
	if r.IntN(4) == 0 {
		r.otherwise(rec)
	}
	if r.otherRequest(rec) {
		return rec
	}
	defer r.prefixed(rec)
	switch r.IntN(12) {
	case 0, 1, 2:
		set(topics.HeaderID, fmt.Sprintf("k%d", r.IntN(6)))
	case 3:
		set(topics.HeaderReplace, fmt.Sprintf("k%d", r.IntN(6)))
	case 4:
		set(topics.HeaderReplace, h.String())
	case 5:
		set(topics.HeaderCancel, h.String())
	case 6:
		set(topics.HeaderCancel, fmt.Sprintf("k%d", r.IntN(6)))
	case 7:
		rec.Value = nil // a tombstone, or on a keyed route a cancel
	}
	return rec
}

// otherwise has a record say when it is due by the header of another tool, and mostly by nothing else.
func (r *replaying) otherwise(rec *kgo.Record) {
	due := string(rec.Headers[0].Value)
	a := []kgo.RecordHeader{
		{Key: "deliver-at", Value: []byte(due)}, {Key: "x-delay", Value: []byte("700")}, {Key: "schedule_target_epoch", Value: []byte(due[:10])},
		{Key: "scheduler-epoch", Value: []byte(due[:10])}, {Key: "retry_topic-backoff-timestamp", Value: []byte(due)}, {Key: "schedule_source_type", Value: []byte("cancel")},
	}[r.IntN(6)]
	if r.IntN(4) > 0 {
		rec.Headers = rec.Headers[:0]
	}
	rec.Headers = append(rec.Headers, a)
}

// prefixed has the headers of ours begin as they do by one of the configurations, mostly by that of now.
func (r *replaying) prefixed(rec *kgo.Record) {
	prefix := r.l.route.HeaderPrefix()
	if r.IntN(4) == 0 {
		prefix = "x-wheel-"
	}
	for i, h := range rec.Headers {
		if rest, ours := strings.CutPrefix(h.Key, topics.HeaderPrefix); ours {
			rec.Headers[i].Key = prefix + rest
		}
	}
}

// accept takes in what the log has.
func (r *replaying) accept() {
	must(r.T, r.p.Expect(r.log[min(r.p.position, int64(len(r.log))):]))
	for r.p.position < int64(len(r.log)) {
		r.mean(r.p, r.log[r.p.position])
		_, err := r.p.Accept(r.log[r.p.position], r.now)
		must(r.T, err)
	}
	r.p.Sight(Sighting{End: int64(len(r.log)), At: r.now})
	must(r.T, r.p.Sync())
	must(r.T, r.p.Load(r.now, r.l.room))
	must(r.T, Check(r.p))
}

// deliver has all happen that is due, with the resolve records that go along, and commits. Some of what is pending is carried first.
func (r *replaying) deliver() {
	if r.IntN(2) == 0 && !r.p.Ordered() {
		r.carry()
	}
	for {
		pt := r.p.Take(r.now, nil, 1+r.IntN(20), anyBytes)
		if pt == nil {
			break
		}
		r.resolve(pt)
		r.p.Begin()
		r.p.End()
		r.l.happened(pt)
		r.p.Appended(int64(len(r.log)))
		r.accept()
	}
	if pt := r.p.Checkpoint(); pt != nil {
		r.p.Wrote(pt)
	}
}

// resolve writes the resolve records that go along with a part. Some of its records are dead-lettered.
func (r *replaying) resolve(pt *Part) {
	for i := range pt.Items {
		it := &pt.Items[i]
		r.meansStill(it)
		if again := r.triedAgain(pt, it); again != nil {
			r.append(again)
			pt.To.Appended = true
		} else {
			expired := r.expired(it)
			it.Dead = it.Leaves() && (r.IntN(4) == 0 || expired)
		}
		rec := &kgo.Record{Timestamp: time.UnixMilli(r.now)}
		switch {
		case it.Resolve, it.Dead:
			rec.Headers = topics.Resolve(testMark, it.Offset, it.Key.Due, it.Key.Seq)
		case it.By > 0 && it.By >= pt.To.Offset:
			rec.Headers = topics.ResolveBy(testMark, it.Offset, it.Key.Due, it.Key.Seq, it.By)
		default:
			continue
		}
		r.append(rec)
		pt.To.Appended = true
	}
}

// restart makes a partition of a checkpoint and the log.
func (r *replaying) restart(l *owner, c state.Checkpoint) *Partition {
	p, err := l.assign(c, 0, int64(len(r.log)), int64(len(r.log)))
	must(r.T, err)
	r.spared = p.ledger.Len()
	r.goLive(p, l.room)
	return p
}

// goLive has a partition read the log to its end.
func (r *replaying) goLive(p *Partition, room Room) {
	for p.position < int64(len(r.log)) {
		r.mean(p, r.log[p.position])
		_, err := p.Accept(r.log[p.position], r.now)
		must(r.T, err)
	}
	must(r.T, p.Sync())
	must(r.T, p.goLive(room))
	must(r.T, p.Load(r.now, room))
	must(r.T, Check(p))
}

// waiting are the keys of what is not resolved. In a queue, due times decide nothing but when the head goes, and a replay may find other ones.
type waiting struct {
	ordered bool
	keys    []state.Key
}

func (w waiting) same(as waiting) bool {
	if w.ordered || as.ordered {
		return slices.Equal(w.offsets(), as.offsets())
	}
	return slices.Equal(w.keys, as.keys)
}

func (w waiting) offsets() (all []int64) {
	for _, k := range w.keys {
		all = append(all, k.Seq)
	}
	slices.Sort(all)
	return all
}

// pending is what a partition has that is not resolved.
func (r *replaying) pending(p *Partition) waiting {
	w := waiting{ordered: p.Ordered()}
	late := &p.late
	if q, is := p.order.(*queue); is {
		late = &q.fifo
	}
	for h := range late.all() {
		if h.by == 0 && h.effect == EffectNone {
			w.keys = append(w.keys, state.Key{Due: h.key.Due, Seq: h.offset})
		}
	}
	var near []wheel.Entry
	p.wheel.TakeFrom(p.wheel.Now(), func(e wheel.Entry) { near = append(near, e) })
	for _, e := range near {
		w.keys = append(w.keys, state.Key{Due: int64(e.Due), Seq: e.Seq})
		p.wheel.Add(e.Due, e.Seq, e.Ref)
	}
	if p.store != nil {
		must(r.T, p.Sync())
		must(r.T, p.store.Scan(p.horizon.Later(p.lateUpTo), func(k state.Key, _ []byte) bool {
			if _, is := p.gone[k]; !is {
				w.keys = append(w.keys, k)
			}
			return true
		}))
	}
	slices.SortFunc(w.keys, state.Key.Compare)
	r.keys = w.keys
	return w
}
