package processor

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
)

// What is loaded in one step is bounded for all partitions of a lane together, counts at once, and goes on soon where some is left.
func TestLoadIsShared(t *testing.T) {
	const each = pending.LoadRecords * 3 / 4
	l := testLane(t)
	ps := l.lives(t, 2, each, func(offset int64) *kgo.Record { return req(offset, ms(2*testWindow.Milliseconds()), "orders") })
	now := ms(2 * testWindow.Milliseconds())
	load := func() (near int64) {
		t.Helper()
		if failed, err := l.memory.load(ps, now, l.turns.isDecided); failed != nil || err != nil {
			t.Fatal(err)
		}
		held := int64(0)
		for _, p := range ps {
			near, held = near+p.Figures(now).Near, held+p.Memory()
		}
		equal(t, "memory that counts as used", l.memory.used, held)
		return near
	}
	if _, err := l.memory.fit(ps, now, true); err != nil {
		t.Fatal(err)
	}
	equal(t, "records that one step loads", load(), pending.LoadRecords)
	equal(t, "pause", l.memory.pause(), leastPause)
	l.memory.step = fewestLoaded - 100
	load()
	equal(t, "how long a step takes counts", l.memory.step > fewestLoaded-100, true)
	l.memory.step = pending.LoadRecords
	equal(t, "records that three steps load", load(), 2*each)
	equal(t, "pause where nothing is left", l.memory.pause() > time.Minute, true)
}

// A turn that is decided meanwhile does not wait for the end of a step, which goes on with the partition whose turn it is.
func TestLoadGivesWay(t *testing.T) {
	const each, partitions = 1000, 3
	l := testLane(t)
	ps := l.lives(t, partitions, each, func(offset int64) *kgo.Record { return req(offset, ms(2*testWindow.Milliseconds()), "orders") })
	now := ms(2 * testWindow.Milliseconds())
	l.turns.decided <- nil
	for step := range partitions + 1 {
		if failed, err := l.memory.load(ps, now, l.turns.isDecided); failed != nil || err != nil {
			t.Fatal(err)
		}
		for n, p := range ps {
			want := int64(0)
			if n <= step {
				want = each
			}
			equal(t, fmt.Sprintf("records of partition %d in memory after step %d", n, step), p.Figures(now).Near, want)
		}
		equal(t, "there is more to load", l.memory.pause() == leastPause, step < partitions)
	}
}

// Steps are as long as others may wait for them, whatever the store takes for a record.
func TestLoadStepsTakeNotLong(t *testing.T) {
	for _, c := range []struct {
		name         string
		step, loaded int
		took         time.Duration
		want         int
	}{
		{"too long", 20_000, 20_000, 20 * time.Millisecond, 15_000},
		{"long enough", 10_000, 10_000, 10 * time.Millisecond, 10_000},
		{"quick", 10_000, 8_000, 4 * time.Millisecond, 15_000},
		{"never more", 20_000, 20_000, time.Millisecond, 20_000},
		{"never fewer", 2_500, 2_500, time.Second, 2_500},
		{"in no time that a clock shows", 10_000, 10_000, 0, 15_000},
		{"hardly any, and long", 20_000, 9_999, time.Second, 20_000},
	} {
		m := memory{step: c.step}
		m.timed(c.loaded, c.took)
		equal(t, c.name, m.step, c.want)
	}
}

// Where memory gets short what is due last goes to the store, some of it at a time, and reading goes on meanwhile.
func TestSpillsInSteps(t *testing.T) {
	const seconds = 60
	l := testLane(t, func(c *Config) { c.NearWindow = seconds * time.Second })
	p := livePartition(t, l)
	l.memory.budget = 4 << 20
	offset := int64(0)
	read := func() {
		t.Helper()
		l.read(t, p, testNow, heavy(offset, ms(pending.LeastWindow+1+offset*997%(seconds*900)), 4<<10))
		offset++
	}
	for p.Memory() <= l.memory.budget-l.memory.budget/spillEarly {
		read()
	}
	spills, near := 0, p.Figures(testNow).Near
	for range 100 {
		if _, err := l.memory.fit(l.order, testNow, false); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "records in memory while the store has no room", p.Figures(testNow).Near, near)
	equal(t, "the next step", l.memory.pause(), balanceEvery)
	for range 1000 {
		l.mustBalance(t)
		equal(t, "memory that counts as used", l.memory.used, p.Memory())
		now := p.Figures(testNow).Near
		switch gone := near - now; {
		case p.paused:
			t.Fatalf("reading pauses after %d steps", spills)
		case gone > offset/8:
			t.Fatalf("one step spills %d of %d records", gone, offset)
		case gone > 0:
			spills++
		}
		near = now
		equal(t, "window", l.memory.window, l.windowMax/2)
		if spills > 0 && !l.memory.spilling {
			break
		}
		if pause := l.memory.pause(); pause > balanceEvery {
			t.Fatalf("the next step comes after %v, and reading may pause until then", pause)
		}
		read() // near or far
		near = p.Figures(testNow).Near
	}
	if last := ms(seconds * 1000 / 2); p.Horizon().Due > last || p.Horizon().Due < last-3000 {
		t.Errorf("what is due until %d ms from now is in memory, want %d", p.Horizon().Due-testNow, last-testNow)
	}
	equal(t, "pending", p.Pending(), offset)
	if pause := l.memory.pause(); pause <= balanceEvery {
		t.Errorf("there is nothing left to do, and a step after %v", pause)
	}
}

// Reading pauses for lack of memory no longer than it takes to give some of it back, and not until what is left is due.
func TestReadingGoesOnWhenSpilt(t *testing.T) {
	l := testLane(t, func(c *Config) { c.NearWindow = time.Minute })
	p := livePartition(t, l)
	l.memory.budget = 4 << 20
	read := l.fills(t, p, 1000)
	read(l.memory.budget*8/10, 20_000)
	read(l.memory.budget, 45_000) // faster than the lane takes steps
	l.mustReadOn(t, p)
}

// Without a store, too: the partition that has grown gives back half of its share, and that may be too little.
func TestReadingGoesOnWithoutStore(t *testing.T) {
	const partitions = 4
	l := testLane(t)
	l.memory.budget = partitions << 20
	for n := range int32(partitions) {
		p, err := l.empty(n, false)
		if err == nil {
			err = p.goLive(l.memory.room(partitions))
		}
		if err != nil {
			t.Fatal(err)
		}
		l.order = append(l.order, p)
		if n < partitions-1 {
			l.fills(t, p, 3_600_000)(1<<20*9/10, 3_600_000)
		}
	}
	last := l.order[partitions-1]
	l.fills(t, last, 3_600_000)(1<<20*14/10, 3_600_000)
	l.mustReadOn(t, last)
}

// Ids of what only the log has cannot be given back without a store, so reading does not wait for that either.
func TestReadingGoesOnBesideIDsWithoutStore(t *testing.T) {
	l := testLane(t)
	l.memory.budget = 1 << 20
	p, err := l.empty(testTP.Partition, false)
	if err == nil {
		err = p.goLive(l.memory.room(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	l.order = []*partition{p}
	const far = 20_000
	l.read(t, p, testNow, req(0, ms(3_600_000), "orders"))
	for offset := range int64(far) {
		l.read(t, p, testNow, withID(req(1+offset, ms(7_200_000+offset), "orders"), fmt.Sprint(offset)))
		if offset%100 == 0 {
			l.mustBalance(t)
			l.reading.throttle(l.order, testNow, l.memory.room(1))
		}
	}
	for range 1000 {
		l.mustBalance(t)
		l.reading.throttle(l.order, testNow, l.memory.room(1))
	}
	equal(t, "pending", p.Pending(), far+1)
	equal(t, "paused", p.paused, false)
}

// fills returns what reads requests that are due in some ms, or within some ms more, until a partition takes so many bytes.
func (l *lane) fills(t *testing.T, p *partition, within int64) func(bytes, due int64) {
	offset := int64(0)
	return func(bytes, due int64) {
		t.Helper()
		for ; p.Memory() <= bytes; offset++ {
			l.read(t, p, testNow, heavy(offset, ms(due+offset*9973%within), 4<<10))
		}
	}
}

// lives are some live partitions with a store, each of which has accepted so many requests.
func (l *lane) lives(t *testing.T, partitions int32, each int64, request func(offset int64) *kgo.Record) (ps []*partition) {
	t.Helper()
	for n := range partitions {
		p, err := l.empty(n, true)
		if err == nil {
			err = p.goLive(l.memory.room(int(partitions)))
		}
		if err != nil {
			t.Fatal(err)
		}
		for offset := range each {
			if _, err := p.Accept(request(offset), testNow); err != nil {
				t.Fatal(err)
			}
		}
		ps = append(ps, p)
	}
	return ps
}

// mustReadOn has a partition pause because there is no memory left, and go on soon, although no time passes.
func (l *lane) mustReadOn(t *testing.T, p *partition) {
	t.Helper()
	l.memory.measure(l.order)
	l.reading.throttle(l.order, testNow, l.memory.room(len(l.order)))
	equal(t, "paused", p.paused, true)
	pending := p.Pending()
	for step := 0; p.paused; step++ {
		if pause := l.memory.pause(); step > 1 && pause > balanceEvery && p.HasStore() || step == 1000 {
			t.Fatalf("reading pauses after %d steps at %d of %d bytes with a window of %d ms, and the next step comes after %v", step, l.memory.used, l.memory.budget, l.memory.window, pause)
		}
		l.mustBalance(t)
	}

	equal(t, "pending", p.Pending(), pending)
}

// A partition that something else has opened in the store is the one that fails where its records go there, and not the store.
func TestSpillSaysWhoFails(t *testing.T) {
	l := testLane(t, func(c *Config) { c.NearWindow = time.Hour })
	l.memory.budget = 4 << 20
	ps := l.lives(t, 2, 400, func(offset int64) *kgo.Record { return heavy(offset, ms(pending.LeastWindow+1+offset*1000), 6<<10) })
	if _, err := l.empty(1, true); err != nil {
		t.Fatal(err)
	}
	var failed *partition
	var err error
	for try := 0; err == nil && try < 100; try++ { // the window narrows first
		failed, err = l.memory.fit(ps, testNow, true)
	}
	equal(t, "the partition that failed", failed, ps[1])
	equal(t, "because it was opened again", errors.Is(err, state.ErrEnded), true)
	l.partitions, l.order = map[kafka.TopicPartition]*partition{ps[0].tp: ps[0]}, ps[:1]
	l.restart(t.Context(), failed, err)
	equal(t, "the other one has its store", ps[0].HasStore(), true)
}
