package wheel

import "testing"

// Each way of breaking a wheel must be seen, or the property test would prove little.
func TestCheckSeesFaults(t *testing.T) {
	for name, damage := range map[string]func(w *Wheel){
		"length":                    func(w *Wheel) { w.n++ },
		"busy bit lost":             func(w *Wheel) { w.busy &^= 2 },
		"busy level never made":     func(w *Wheel) { w.busy |= 1 << 6 },
		"occupied bit lost":         func(w *Wheel) { w.levels[1].occupied.clear(1) },
		"occupied bit without slot": func(w *Wheel) { w.levels[1].occupied.set(9) },
		"empty slot not zero":       func(w *Wheel) { w.levels[1].slots[9].max = 1 },
		"start away from cursor":    func(w *Wheel) { w.levels[1].slots[1].start = 1 },
		"min too small":             func(w *Wheel) { w.levels[1].slots[1].min-- },
		"max too small":             func(w *Wheel) { w.levels[1].slots[1].max-- },
		"below the cursor":          func(w *Wheel) { w.cursor = digitsOf(1 << 40) },
		"wrong slot":                func(w *Wheel) { first(w, 1).low[0] += 256 },
		"wrong high digits":         func(w *Wheel) { first(w, 1).tag ^= 1 << 8 },
		"out of order at cursor":    func(w *Wheel) { first(w, 0).items[10].seq = 1000 },
		"late out of order":         func(w *Wheel) { w.late[0].seq = 1000 },
		"late lost":                 func(w *Wheel) { w.late = w.late[:1] },
		"entry lost":                func(w *Wheel) { first(w, 0).tag-- },
		"chunk too full":            func(w *Wheel) { first(w, 1).tag += chunkLen },
		"chain cut":                 func(w *Wheel) { first(w, 0).next = 0 },
		"chain turned back":         func(w *Wheel) { s := here(w); w.chunks.at(s.tail).next = s.head },
		"chunk in use freed":        func(w *Wheel) { w.chunks.free = here(w).head },
		"chunk lost":                func(w *Wheel) { w.chunks.next++ },
		"free chunks lost":          func(w *Wheel) { w.chunks.free = 0 },
		"used miscounted":           func(w *Wheel) { w.chunks.used-- },
		"memory not given back": func(w *Wheel) {
			for range keepSlabs {
				w.chunks.list = append(w.chunks.list, new([slabLen]chunk))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			if err := check(w); err != nil {
				t.Fatal(err)
			}
			damage(w)
			if check(w) == nil {
				t.Error("not seen")
			}
		})
	}
}

// sample has two chunks of which one entry was taken at the cursor, two late entries, another level and a free chunk.
func sample() *Wheel {
	w := New(0)
	w.Add(1, 0, 0)
	w.Take(1, nil, 1)
	for seq := range int64(40) {
		w.Add(1, 100+seq, 0)
	}
	w.Add(1, 50, 0)
	w.Add(1, 51, 0)
	for due := range Tick(5) {
		w.Add(300+due, int64(due), 0)
	}
	w.Take(1, nil, 3)
	w.Add(1, 120, 0)
	w.Add(1, 119, 0)
	w.Add(2, 0, 0)
	w.Remove(2, 0)
	return w
}

func here(w *Wheel) *slot { return &w.levels[0].slots[1] }

func first(w *Wheel, k int) *chunk { return w.chunks.at(w.levels[k].slots[1].head) }
