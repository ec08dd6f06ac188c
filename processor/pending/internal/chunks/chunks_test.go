package chunks

import "testing"

// Whatever is put back, what is lent is empty and has the capacity that was asked for.
func TestGet(t *testing.T) {
	asked := []int{0, 1, Least - 1, Least, Least + 1, 3 * Least, 2 * Least, Most / 2, Most, Most + 1, 2 * Most}
	for _, n := range asked {
		for range 10 {
			for _, other := range asked {
				Put(make([]byte, other/2, other))
			}
			b := Get(n)
			if len(b) != 0 || cap(b) != n {
				t.Fatalf("asked for %d: length %d, capacity %d", n, len(b), cap(b))
			}
			Put(append(b, 1))
		}
	}
}

// What is given back is lent again.
func TestPut(t *testing.T) {
	for size := Least; size <= Most; size *= 2 {
		again := false
		for range 1000 { // a pool may drop whatever it likes, and does so with the race detector
			was := Get(size)
			Put(was)
			again = again || &was[:1][0] == &Get(size)[:1][0]
		}
		if !again {
			t.Errorf("memory of %d bytes is never lent again", size)
		}
	}
}
