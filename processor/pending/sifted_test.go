package pending

import (
	"testing"

	"github.com/duewheel/duewheel/state"
)

// The wheel is looked through for many keys that may be in it, and not for those that only the store has: with much in it that takes long.
func TestFarKeysAreNotLookedFor(t *testing.T) {
	const many = 2 * siftFrom
	l := testOwner(t)
	p := l.live(t)
	must(t, p.Load(testNow, l.room))
	var near, far []state.Key
	for i := range int64(many) {
		l.read(t, p, testNow, req(2*i, ms(10+i), "orders"), req(2*i+1, ms(farMs+i), "orders"))
		near, far = append(near, state.Key{Due: ms(10 + i), Seq: 2 * i}), append(far, state.Key{Due: ms(farMs + i), Seq: 2*i + 1})
	}
	for _, c := range []struct {
		name string
		keys []state.Key
		all  bool // of the wheel is looked through
	}{{"near", near, true}, {"far", far, false}, {"few near ones among far ones", append([]state.Key{near[0]}, far...), false}} {
		s := sift(&p.wheel, c.keys, 1<<40)
		equal(t, c.name+": all is looked through", s.found != nil, c.all)
		found := 0
		for _, key := range c.keys {
			if r, is := s.take(key); is {
				found++
				s.putBack(key, r)
			}
		}
		s.giveBack()
		want := map[string]int{"near": many, "far": 0, "few near ones among far ones": 1}[c.name]
		equal(t, c.name+": found", found, want)
	}
	must(t, Check(p))
}
