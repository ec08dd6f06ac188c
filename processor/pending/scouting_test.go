package pending

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
)

// shortOf is a room in which memory is short, and a partition may have so many bytes.
func shortOf(l *owner, share int64, step int) Room {
	room := l.room
	room.Budget, room.Used, room.Share, room.Step = 1<<20, 1<<20-1, share, step
	return room
}

// loadsLittle loads one record, and looks what the store has of other targets.
func loadsLittle(t *testing.T, l *owner, p *Partition) {
	t.Helper()
	for _, step := range []int{1, 40} {
		must(t, p.Load(ms(farMs), shortOf(l, 8000, step)))
		must(t, Check(p))
	}
}

// severalFar is a live partition that the store has orders of, then bills, all due at one ms from an offset on, and the offsets of the bills.
func severalFar(t *testing.T, orders, bills int64) (l *owner, p *Partition) {
	t.Helper()
	l = testOwner(t)
	p = l.live(t)
	var all []*kgo.Record
	for offset := range orders + bills {
		all = append(all, req(offset, ms(farMs), map[bool]string{true: "orders", false: "bills"}[offset < orders]))
	}
	l.read(t, p, testNow, all...)
	return l, p
}

// Other targets are looked for while memory is short and is not passed, up to some time ahead of the clock, and not again for each ms of that.
func TestScoutingIsNeeded(t *testing.T) {
	l, p := severalFar(t, 4, 2)
	short := shortOf(l, 1200, 1)
	w := scouting{&p.window}
	until := state.Key{Due: ms(farMs) + short.Window, Seq: math.MaxInt64}
	for _, c := range []struct {
		name string
		make func(*Room) (now int64)
		want bool
	}{
		{"memory is short", func(*Room) int64 { return ms(farMs) }, true},
		{"it is not", func(r *Room) int64 { r.Used = r.Budget / 2; return ms(farMs) }, false},
		{"all of it is taken", func(r *Room) int64 { r.Used = r.Budget; return ms(farMs) }, true},
		{"more is taken than there is", func(r *Room) int64 { r.Used = r.Budget + 1; return ms(farMs) }, false},
		{"it was looked a little less far", func(*Room) int64 {
			p.wheel.scouted = state.Key{Due: until.Due - short.Window/8}
			return ms(farMs)
		}, false},
		{"it was looked less far than that", func(*Room) int64 {
			p.wheel.scouted = state.Key{Due: until.Due - short.Window/8 - 1}
			return ms(farMs)
		}, true},
		{"all that only the store has is due later", func(*Room) int64 {
			p.wheel.line(0)
			p.wheel.lines[0].left, p.wheel.scouted, p.wheel.most = state.Key{Due: testNow}, until, 1
			return p.horizon.Due - short.Window
		}, false},
		{"the clock was set back", func(*Room) int64 { p.lateUpTo.Due = ms(farMs); return testNow }, true},
	} {
		room := short
		now := c.make(&room)
		if _, _, is := w.needed(now, room); is != c.want {
			t.Errorf("%s: it is looked for other targets: %v", c.name, is)
		}
		dropLines(&p.wheel)
		p.wheel.scouted = state.Key{}
	}
}

// A target is looked for again when little of it is left, and there is room for more.
func TestTargetRunsLow(t *testing.T) {
	_, p := severalFar(t, 1, 1)
	w := scouting{&p.window}
	w.wheel.line(0)
	w.wheel.most = 4000
	for _, c := range []struct {
		name         string
		n            int
		early, bytes int64
		loads        bool
		low, takes   bool
	}{
		{"nothing is left", 0, 0, 0, false, true, true},
		{"it is loaded", 0, 0, 0, true, false, false},
		{"much is due", fewInLine, 0, 0, false, false, true},
		{"a little less is", fewInLine - 1, 0, 0, false, true, true},
		{"half of its share is early", 0, 1000, 1000, false, true, true},
		{"more is early", 0, 1001, 1001, false, false, true},
		{"its share is early", 0, 2000, 2000, false, false, false},
		{"others have all the room", 0, 0, 4000, false, false, false},
	} {
		of := &line{n: c.n, early: c.early}
		w.wheel.bytes, w.wheel.loads = c.bytes, nil
		if c.loads {
			w.wheel.loads = of
		}
		equal(t, c.name+": little is left", w.runsLow(of), c.low)
		equal(t, c.name+": there is room", w.takes(of), c.takes)
	}
}

// What was taken away is not brought early, nor loaded, before that is committed.
func TestTakenAwayIsNotLoaded(t *testing.T) {
	for gone, early := range map[int64]bool{1: false, 4: true} { // an order is loaded, and it is looked for bills
		l, p := severalFar(t, 4, 2)
		l.read(t, p, testNow, cancelling(6, handleOf(gone, ms(farMs))))
		must(t, p.Load(testNow, l.room)) // decides
		if loadsLittle(t, l, p); !p.wheel.has(state.Key{Due: ms(farMs), Seq: 5}) {
			t.Error("nothing is early")
		}
		if !early {
			must(t, p.Load(ms(farMs), l.room))
		}
		must(t, Check(p))
		equal(t, "records in memory", p.wheel.Len(), map[bool]int{true: 2, false: 5}[early])
		l.happened(p.Take(ms(farMs), nil, 100, anyBytes)) // the cancel
		must(t, p.Load(ms(farMs), l.room))
		var got []int64
		for pt := p.Take(ms(farMs), nil, 100, anyBytes); pt != nil; pt = p.Take(ms(farMs), nil, 100, anyBytes) {
			got = append(got, pt.offsets()...)
			l.happened(pt)
			must(t, p.Load(ms(farMs), l.room))
		}
		equal(t, "pending", p.Pending(), 0)
		if slices.Contains(got, gone) {
			t.Errorf("record %d was taken away, and delivered are %v", gone, got)
		}
	}
}

// What came early and is not due yet when the horizon passes it is delivered when it is, as what was loaded.
func TestEarlyIsPassedBeforeItIsDue(t *testing.T) {
	l, p := severalFar(t, 4, 0)
	l.read(t, p, testNow, req(4, ms(farMs+1500), "bills"))
	if loadsLittle(t, l, p); !p.wheel.has(state.Key{Due: ms(farMs + 1500), Seq: 4}) {
		t.Fatal("nothing is early")
	}
	equal(t, "what a turn would get too soon", p.wants(ms(farMs)-1), 0)
	taken := p.Take(ms(farMs), nil, 1, anyBytes)
	if due, ok := p.Next(); !ok || due > ms(farMs) {
		t.Errorf("next comes what is due at +%d (%v), and the store has what is due before", due-testNow, ok)
	}
	l.happened(taken)
	must(t, p.Load(ms(farMs), l.room))
	must(t, Check(p))
	equal(t, "early records", len(p.wheel.above), 0)
	if p.wants(ms(farMs)) == 0 {
		t.Error("what is due just now is not wanted")
	}
	first := p.Take(ms(farMs), nil, 100, anyBytes)
	equals(t, "records", first.offsets(), []int64{1, 2, 3})
	second := p.Take(ms(farMs+1500), nil, 100, anyBytes)
	equals(t, "later records", second.offsets(), []int64{4})
	equal(t, "one overtakes", second.Items[0].Overtakes(), false)
	l.happened(first, second)
	must(t, Check(p))
}

// A turn gets nothing of what is early alone: what comes before it is in the store, and is loaded first.
func TestEarlyAloneIsNotWanted(t *testing.T) {
	l, p := severalFar(t, 4, 2)
	loadsLittle(t, l, p)
	l.happened(p.Take(ms(farMs), nil, 1, anyBytes))
	if p.wheel.upToHorizon() > 0 || len(p.wheel.above) == 0 {
		t.Fatalf("%d records are in memory, %d of them early", p.wheel.Len(), len(p.wheel.above))
	}
	equal(t, "what a turn would get", p.wants(ms(farMs)), 0)
	if pt := p.Take(ms(farMs), nil, 100, anyBytes); pt != nil {
		t.Errorf("a turn gets %v", pt.offsets())
	}
	if loadsLittle(t, l, p); p.wants(ms(farMs)) == 0 {
		t.Error("what was loaded is not wanted")
	}
}

// What the horizon has passed is not left behind any more: what the store has of that target above it is looked for again.
func TestLeftBehindIsPassed(t *testing.T) {
	l, p := severalFar(t, 2, 0)
	var more []*kgo.Record
	for offset := int64(2); offset < 40; offset++ { // more bills than have room, then orders
		more = append(more, req(offset, ms(farMs), map[bool]string{true: "bills", false: "orders"}[offset < 30]))
	}
	l.read(t, p, testNow, more...)
	loadsLittle(t, l, p)
	bills := p.wheel.line(p.wheel.numbers.number([]byte("bills")))
	if bills.left == (state.Key{}) || bills.early == 0 {
		t.Fatalf("bills are left behind %v, and %d bytes of them early", bills.left, bills.early)
	}
	orders := p.wheel.line(p.wheel.numbers.number([]byte("orders")))
	equal(t, "orders are left behind what is loaded", orders.left, p.horizon)
	behind := bills.left
	for p.horizon.Less(behind) { // what is loaded has come to it
		must(t, p.Load(ms(farMs), shortOf(l, 1<<19, 1)))
		must(t, Check(p))
	}
	p.wheel.loads = orders
	l.happened(p.Take(ms(farMs), nil, 100, anyBytes))
	must(t, scouting{&p.window}.step(ms(farMs), shortOf(l, 8000, 40)))
	must(t, Check(p))
	if bills := p.wheel.line(p.wheel.numbers.number([]byte("bills"))); bills == nil || bills.early == 0 {
		t.Error("bills are not looked for again")
	}
}

// While all goes to one target nothing is looked for. What comes of another one is early at once, and of the first one it is known what the store has.
func TestSecondTargetComes(t *testing.T) {
	l, p := severalFar(t, 4, 0)
	loadsLittle(t, l, p)
	l.read(t, p, testNow, req(4, ms(farMs), "bills"))
	if !p.wheel.has(state.Key{Due: ms(farMs), Seq: 4}) {
		t.Error("the first one of another target is not early")
	}
	equal(t, "orders are left behind what is loaded", p.wheel.line(p.wheel.numbers.number([]byte("orders"))).left, p.horizon)
	must(t, Check(p))
}

// However many targets there are, there are only so many lines; and what a part has sorted at once is not kept for long.
func TestLinesAreBounded(t *testing.T) {
	l, p := anyTarget(t)
	const many = sortAtOnce + 100
	var all []*kgo.Record
	for offset := range int64(many) {
		all = append(all, req(offset, testNow, "t"+strconv.FormatInt(offset%(3*mostLines), 10)))
	}
	for _, r := range all {
		_, err := p.Accept(r, testNow)
		must(t, err)
	}
	l.happened(p.Take(testNow, nil, 100, anyBytes))
	equal(t, "lines", len(p.wheel.lines), mostLines)
	equal(t, "names", len(p.wheel.numbers.named), 3*mostLines)
	must(t, Check(p))
	l.happened(p.Take(testNow, nil, many, anyBytes))
	equal(t, "pending", p.Pending(), 0)
	if pt := p.Take(testNow, nil, many, anyBytes); pt != nil {
		t.Errorf("%d records more", len(pt.Items))
	}
	if n := cap(p.wheel.taken); n > mostScratch {
		t.Errorf("room for %d entries is kept", n)
	}
	must(t, Check(p))
}
