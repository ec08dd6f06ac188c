package state

import "math/bits"

// Next is the smallest offset of the log from another one on that counts as pending; false when there is none. What holds nothing is passed over a
// quarter of a million offsets at a time.
func (l *Ledger) Next(from int64) (int64, bool) { return l.pending.next(from) }

// next is the smallest offset from another one on; false when there is none.
func (t *offsets) next(from int64) (int64, bool) {
	from = max(from, t.first<<(pageBits+stretchBits))
	for s, o := from>>stretchBits, int(from&(stretchSize-1)); ; o = 0 {
		number := s>>pageBits - t.first
		if number >= int64(len(t.pages)) {
			return 0, false
		}
		p := t.pages[number]
		if p == nil {
			s = (s>>pageBits + 1) << pageBits
			continue
		}
		if n, ok := p.next(int(s&(pageSize-1)), o); ok {
			return s<<stretchBits + int64(n), true
		}
		s++
	}
}

// next is the smallest offset of a stretch from another one on.
func (p *page) next(i, from int) (least int, ok bool) {
	if b := p.bitmap(i); b != nil {
		for k, w := from/64, b.words[from/64]>>(from%64)<<(from%64); ; w = b.words[k] {
			if w != 0 {
				return k*64 + bits.TrailingZeros64(w), true
			}
			if k++; k == len(b.words) {
				return 0, false
			}
		}
	}
	w := p.words[i]
	for k := range w.len() {
		if o := w.at(k); o >= from && (!ok || o < least) {
			least, ok = o, true
		}
	}
	return least, ok
}
