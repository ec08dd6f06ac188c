package pending

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The same with a standby that follows at random, takes over, and goes on as the owner; with turns of which a half has happened, or all of it unseen;
// and with stores that lag.
func TestReplayIsDeterministicForStandbys(t *testing.T) {
	seeds := []uint64{1062, 2649, 16805} // stubs below L, of which the copies are above
	for seed := range uint64(300) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { replaysFollowed(t, rand.New(rand.NewPCG(seed, 77)), nil) })
	}
}

// standbyOf is a follower with a store of its own.
type standbyOf struct {
	l    *owner
	f    *Follower
	tail int64
}

func (s *standbyOf) feed(r *replaying) {
	for s.tail < int64(len(r.log)) {
		_, err := s.f.Accept(r.log[s.tail])
		must(r.T, err)
		s.tail++
	}
	must(r.T, s.f.Sync())
}

func replaysFollowed(t *testing.T, rng *rand.Rand, seen map[string]int) {
	r := &replaying{T: t, Rand: rng, l: testOwner(t), now: testNow, seen: seen}
	r.l.room.Window, r.l.room.Most = 2000, 2000
	r.configure()
	r.p = r.l.live(t)
	sb := &standbyOf{l: testOwner(t)}
	sb.l.room = r.l.room
	for range 10 {
		for range 3 + r.IntN(12) {
			r.append(r.request())
		}
		r.accept()
		if r.IntN(2) == 0 {
			r.now += int64(r.IntN(1500))
		}
		if r.IntN(4) == 0 {
			r.now += 5000
		}
		half := r.half()
		var want waiting
		if !half {
			r.deliver()
			want = r.pending(r.p)
		}
		c := r.p.Marks().Committed
		if r.IntN(2) == 0 && (sb.f != nil || r.l.route.Delay == 0) { // no replica follows what has a fixed delay by its own configuration
			fc := c
			if sb.f == nil {
				sb.l.route = r.l.route
				store, err := sb.l.store.Partition(testID)
				must(t, err)
				got, err := Inherit(never, sb.l.route, store, fc, 0, int64(len(r.log)))
				must(t, err)
				sb.f, err = Follow(sb.l.env(), fc, store, got)
				must(t, err)
				sb.tail = sb.f.Marks().Position
			} else {
				jumped, err := sb.f.Follow(fc)
				must(t, err)
				if jumped {
					sb.tail = sb.f.Marks().Position
				}
			}
			if r.IntN(2) == 0 {
				sb.feed(r)
			}
		}
		if r.IntN(3) > 0 {
			r.configure()
		}
		if r.IntN(2) == 0 && !half {
			r.flush()
		}
		p := r.restart(&owner{route: r.l.route, room: r.l.room, seen: r.now}, c)
		if half {
			want = r.pending(p)
		}
		r.same(p, want, "without the store")
		if r.IntN(3) == 0 && sb.f != nil && r.l.route.Delay == 0 {
			sb.l.route = r.l.route
			cc := c
			cc.TopicID = [4]byte(testID.TopicID[:4])
			cc.Parsers = WithParser(cc, r.l.route.Spec(), int64(len(r.log)))
			store, err := sb.l.store.Partition(testID)
			must(t, err)
			got, ok, err := sb.f.HandOver(store, cc)
			must(t, err)
			if ok {
				p, err := New(sb.l.env(), cc, Sighting{End: int64(len(r.log)), At: testNow})
				must(t, err)
				p.Trust(testNow + 1<<40)
				p.Use(store, got, r.now, r.l.room.Most)
				r.goLive(p, r.l.room)
				r.same(p, want, "handed over")
				if r.IntN(2) == 0 { // it goes on, and the other's store lags
					r.p, r.l, sb.l, sb.f, r.disk = p, sb.l, r.l, nil, image{}
					continue
				}
			}
			sb.f = nil
		}
		p = r.restart(r.l, c)
		r.same(p, want, "with the store")
		r.p = p
		r.lag(c)
	}
}

// half has the first half of a turn happen, or a turn of which its owner never learns; then it crashes.
func (r *replaying) half() bool {
	if r.IntN(4) > 0 {
		return false
	}
	if r.IntN(3) == 0 && !r.p.Ordered() {
		return r.halfCarried()
	}
	pt := r.p.Take(r.now, nil, 1+r.IntN(20), anyBytes)
	if pt == nil {
		return false
	}
	if n := len(pt.Items); n > 1 && r.IntN(2) == 0 {
		pt, _ = pt.Split(1 + r.IntN(n-1))
	}
	if r.IntN(2) == 0 {
		r.flush() // what a turn has not decided may be in the store
	}
	if r.IntN(3) == 0 {
		return true // it has not happened
	}
	r.resolve(pt)
	r.p.committed = pt.To
	return true
}
