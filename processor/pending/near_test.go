package pending

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/duewheel/duewheel/state"
)

// The arena against a map: what was put is there until it is released, whatever comes and goes
// meanwhile, and memory is given back.
func TestNearProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNear()
		held := map[ref][]byte{}
		var refs []ref
		next := byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				size := rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(minChunk-20, minChunk+20),
					rapid.IntRange(maxChunk-20, maxChunk+20), rapid.IntRange(maxChunk, 3*maxChunk)).Draw(t, "size")
				spare := rapid.IntRange(0, 600).Draw(t, "spare") // the bound is not exact
				due := rapid.Int64Range(0, 4*stretchMillis).Draw(t, "due")
				stored := rapid.Bool().Draw(t, "stored")
				next++
				run := bytes.Repeat([]byte{next}, size)
				i, b := n.alloc(due, size+spare)
				r := n.commit(i, append(b, run...), stored)
				if _, ok := held[r]; ok || r.stored() != stored {
					t.Fatalf("ref %x: given before, or stored is %v, want %v", r, r.stored(), stored)
				}
				held[r], refs = run, append(refs, r)
			},
			"release": func(t *rapid.T) {
				if len(refs) == 0 {
					t.Skip("nothing to release")
				}
				i := rapid.IntRange(0, len(refs)-1).Draw(t, "which")
				n.release(refs[i])
				delete(held, refs[i])
				refs = append(refs[:i], refs[i+1:]...)
			},
			"": func(t *rapid.T) {
				for r, want := range held {
					if got := n.get(r); !bytes.Equal(got, want) {
						t.Fatalf("ref %x has %d bytes of %v, want %d of %v", r, len(got), first(got), len(want), first(want))
					}
				}
				if len(held) == 0 && n.bytes != 0 {
					t.Fatalf("%d bytes are kept for nothing", n.bytes)
				}
			},
		})
		for _, r := range refs {
			n.release(r)
		}
		if n.bytes != 0 || len(n.open) != 0 || len(n.free) != len(n.chunks) {
			t.Fatalf("all released, and kept are %d bytes, %d open, %d of %d chunks", n.bytes, len(n.open), len(n.chunks)-len(n.free), len(n.chunks))
		}
	})
}

func first(b []byte) string {
	if len(b) == 0 {
		return "nothing"
	}
	return fmt.Sprint(b[0])
}

// What is due within one stretch is given back when that stretch is done, whatever else is held.
func TestNearGivesBackByStretch(t *testing.T) {
	n := newNear()
	run := make([]byte, 1000)
	var soon, later []ref
	for range 2000 { // as they come: in no order of due time
		soon = append(soon, n.put(10, run, false))
		later = append(later, n.put(10+stretchMillis, run, false))
	}
	all := n.bytes
	for _, r := range soon {
		n.release(r)
	}
	if n.bytes > all*6/10 {
		t.Errorf("half is released, and %d of %d bytes are kept", n.bytes, all)
	}
	if got := len(n.get(later[1999])); got != 1000 {
		t.Errorf("a record of 1000 bytes has %d", got)
	}
}

// A stored record and one that only memory holds differ in the ref alone.
func TestNearStoredBit(t *testing.T) {
	n := newNear()
	a, b := n.put(1, []byte("a"), true), n.put(1, []byte("b"), false)
	if !a.stored() || b.stored() || a.chunk() != b.chunk() || string(n.get(a)) != "a" {
		t.Errorf("a is %x, b is %x", a, b)
	}
}

func TestNearReleaseTwice(t *testing.T) {
	n := newNear()
	r := n.put(1, []byte("a"), false)
	n.release(r)
	defer func() {
		if recover() == nil {
			t.Error("a record may be released twice")
		}
	}()
	n.release(r)
}

// The last stretches that take about so many bytes begin with one of them, and those beyond a time do not count.
func TestLastStretches(t *testing.T) {
	n := newNear()
	const end = 10 * stretchMillis
	if got := n.lastStretches(1, end); got != math.MinInt64 {
		t.Errorf("of nothing: %d", got)
	}
	for _, stretch := range []int64{1, 3, 4, 6} {
		n.put(stretch*stretchMillis+7, make([]byte, 100), false) // a chunk of the least size each
	}
	for _, c := range []struct{ bytes, until, want int64 }{
		{0, end, 6}, {minChunk, end, 6}, {2*minChunk - 1, end, 6}, {2 * minChunk, end, 4}, {3 * minChunk, end, 3}, {100 * minChunk, end, 1},
		{minChunk, 6 * stretchMillis, 6}, {minChunk, 6*stretchMillis - 1, 4}, {minChunk, 2 * stretchMillis, 1},
	} {
		if got := n.lastStretches(c.bytes, c.until); got != c.want*stretchMillis {
			t.Errorf("%d bytes until %d: from %d, want %d", c.bytes, c.until, got, c.want*stretchMillis)
		}
	}
}

// The memory of a chunk of which all is released is used again, by any partition, and what it held is overwritten.
func TestReleasedMemoryIsUsedAgain(t *testing.T) {
	again := false
	for range 1000 { // a pool may drop whatever it likes, and does so with the race detector
		n := newNear()
		r := n.record(req(0, testNow, "orders"), state.Key{Due: testNow}, 0)
		was := &n.get(r)[0]
		n.release(r)
		other := newNear()
		again = again || was == &other.get(other.record(req(1, testNow, "orders"), state.Key{Due: testNow, Seq: 1}, 0))[0]
	}
	if !again {
		t.Error("it is never used again")
	}
}

// What a turn was to produce that did not happen may be looked at by its client when another one has delivered it: it stays as it is.
func TestMemoryOfWhatIsRepeatedIsNotUsedAgain(t *testing.T) {
	for range 1000 {
		l := testOwner(t)
		p := l.live(t)
		accept := func(offset int64) {
			if _, err := p.Accept(req(offset, testNow, "orders"), testNow); err != nil {
				t.Fatal(err)
			}
		}
		accept(0)
		pt := p.Take(testNow, nil, 10, anyBytes)
		run := pt.Items[0].Run
		was := bytes.Clone(run)
		p.Repeat(pt, 0)
		pt = p.Take(testNow, nil, 10, anyBytes)
		p.Settle(pt)
		p.Committed(pt)
		accept(1)
		if !bytes.Equal(run, was) {
			t.Fatalf("it was %q, and is %q", was, run)
		}
	}
}
