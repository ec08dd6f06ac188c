package pending

import (
	"strconv"
	"testing"
)

// anyTarget is a live partition of a route that allows every target.
func anyTarget(t *testing.T) (l *owner, p *Partition) {
	t.Helper()
	l = testOwner(t)
	r := testRoute(true)
	r.Allow = []string{"*"}
	l.route = mustRoute(r)
	return l, l.live(t)
}

// However many records of one target are due at one instant, what is due of another one after it is in one of the next few parts: whether they have come while that was near, or the store has brought them, before a restart or after it.
func TestMuchOfOneTargetHidesNothing(t *testing.T) {
	const orders, bills, turn = 100_000, 20, 2000
	for _, c := range []struct {
		name            string
		stored, restart bool
	}{
		{"in memory", false, false},
		{"brought by the store", true, false},
		{"brought by the store after a restart", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testOwner(t)
			l.room.Budget, l.room.Share = 1<<30, 1<<30
			p := l.live(t)
			must(t, p.Load(testNow, l.room))
			at := ms(1000)
			if c.stored {
				at = ms(farMs)
			}
			r := req(0, 0, "orders")
			for i := range int64(orders + bills) {
				r.Offset, r.Headers[0].Value = i, strconv.AppendInt(r.Headers[0].Value[:0], at+max(i-orders+1, 0), 10)
				if i >= orders {
					r.Headers[1].Value = []byte("bills")
				}
				_, err := p.Accept(r, testNow)
				must(t, err)
			}
			if c.restart {
				l.happened(p.Checkpoint())
				must(t, p.Flush())
				var err error
				p, err = l.assign(p.committed, 0, orders+bills, orders+bills)
				must(t, err)
				must(t, p.goLive(l.room))
			}
			for range 2 * orders / LoadRecords {
				must(t, p.Load(at, l.room))
			}
			equal(t, "records in memory", p.wheel.Len(), orders+bills)
			first, seen := 0, 0
			for i := 1; seen < bills && i < 2*orders/turn; i++ {
				pt := p.Take(at+bills, nil, turn, anyBytes)
				for k := range pt.Items {
					if pt.Items[k].Key.Due > at {
						seen++
					}
				}
				if seen > 0 && first == 0 {
					first = i
				}
				l.happened(pt)
			}
			if within := orders / turn / sortAhead; first > within+1 {
				t.Errorf("bills are among the %dth part of %d records, wanted in the %dth at the latest", first, turn, within+1)
			}
			must(t, Check(p))
		})
	}
}

// When all numbers of targets are taken, further targets share them until nothing bears one any more; then they are given anew.
func TestNumbersAreGivenAnew(t *testing.T) {
	const many, turn = 2 * mostNumbers, 4000
	l, p := anyTarget(t)
	offset := int64(0)
	come := func(first, n, due int64) {
		for i := range n {
			_, err := p.Accept(req(offset, due, "t"+strconv.FormatInt(first+i, 10)), testNow)
			must(t, err)
			offset++
		}
	}
	deliver := func(now int64) {
		for pt := p.Take(now, nil, turn, anyBytes); pt != nil; pt = p.Take(now, nil, turn, anyBytes) {
			l.happened(pt)
			must(t, Check(p))
		}
	}
	come(0, many, testNow)
	come(many/2, many/2, ms(2))
	deliver(testNow)
	come(many, many, ms(1))
	deliver(ms(1))
	equal(t, "numbers while records bear them", p.wheel.numbers.given, mostNumbers-1)
	deliver(ms(2))
	equal(t, "numbers when nothing is left", p.wheel.numbers.given, 0)
	come(0, turn/2, ms(3))
	come(0, turn/2, ms(3))
	deliver(ms(3))
	equal(t, "pending", p.Pending(), 0)
}

// Of targets that share a time, none shares a line, however many others have been seen since something was pending always.
func TestManyTargetsSeenShareNothing(t *testing.T) {
	const seen, others, hot = 300, 200, 1000
	l, p := anyTarget(t)
	must(t, p.Load(testNow, l.room))
	offset := int64(0)
	come := func(target int, due int64) {
		_, err := p.Accept(req(offset, due, "t"+strconv.Itoa(target)), testNow)
		must(t, err)
		offset++
	}
	come(0, ms(1000))
	for target := range seen {
		come(target, testNow)
		l.happened(p.Take(testNow, nil, hot, anyBytes))
	}
	for range 3 * hot {
		come(seen-1, ms(1))
	}
	for target := range others {
		come(target, ms(2))
	}
	pt, found := p.Take(ms(2), nil, hot, anyBytes), 0
	for i := range pt.Items {
		if pt.Items[i].Key.Due == ms(2) {
			found++
		}
	}
	equal(t, "records of other targets in the first part", found, others)
	must(t, Check(p))
}

// Where more targets have something due than there are lines, none shares that of the one of which most is.
func TestMoreTargetsThanLines(t *testing.T) {
	const others, hot, turn = 3 * mostLines, 20_000, 2000
	l, p := anyTarget(t)
	l.room.Budget, l.room.Share = 1<<30, 1<<30
	must(t, p.Load(testNow, l.room))
	for i := range int64(hot + others) {
		_, err := p.Accept(req(i, ms(1+i/hot), "t"+strconv.FormatInt(max(i-hot+1, 0), 10)), testNow)
		must(t, err)
	}
	pt, found := p.Take(ms(2), nil, turn, anyBytes), 0
	for i := range pt.Items {
		if pt.Items[i].Key.Due == ms(2) {
			found++
		}
	}
	equal(t, "records of other targets in the first part", found, others)
	must(t, Check(p))
}
