package wheel

import "unsafe"

// lateHeap is a binary heap by seq of entries due at the cursor.
type lateHeap []item

// keepLate is how much of an empty heap is kept for the next time.
const keepLate = 1024

func (h lateHeap) bytes() int { return cap(h) * int(unsafe.Sizeof(item{})) }

func (h *lateHeap) push(it item) {
	*h = append(*h, it)
	h.up(len(*h) - 1)
}

func (h *lateHeap) pop() item {
	top := (*h)[0]
	h.delete(0)
	return top
}

// after tells how many of some items in order go before the first late one.
func (h lateHeap) after(items []item) int {
	if len(h) == 0 {
		return len(items)
	}
	n := 0
	for n < len(items) && items[n].seq <= h[0].seq {
		n++
	}
	return n
}

// remove searches the whole heap.
func (h *lateHeap) remove(seq int64) (ref uint64, ok bool) {
	for i, e := range *h {
		if e.seq == seq {
			h.delete(i)
			return e.ref, true
		}
	}
	return 0, false
}

// delete puts the last entry in place of entry i and then where it belongs.
func (h *lateHeap) delete(i int) {
	last := len(*h) - 1
	(*h)[i] = (*h)[last]
	*h = (*h)[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
	if last == 0 && cap(*h) > keepLate {
		*h = nil
	}
}

func (h lateHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].seq <= h[i].seq {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (h lateHeap) down(i int) {
	for {
		least := 2*i + 1
		if least >= len(h) {
			return
		}
		if right := least + 1; right < len(h) && h[right].seq < h[least].seq {
			least = right
		}
		if h[i].seq <= h[least].seq {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
