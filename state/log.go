package state

import "fmt"

const (
	// stretchBits: a stretch of log is 1024 offsets, so a count fits into 16 bits even with every offset pending and held.
	// Shorter stretches would let the low water follow more closely, at 4 bytes each; a trim cuts whole segments anyway.
	stretchBits = 10
	// pageBits: a page counts 4096 stretches, that is 4 million offsets in 16 KB.
	pageBits = 12
	pageSize = 1 << pageBits
)

// logTable counts, for each stretch of log, the records that a reader of the log must still see. A page that counts
// nothing is not there, so what is resolved costs 8 bytes for 4 million offsets, and what is pending 4 bytes for 1024.
type logTable struct {
	first int64   // number of pages[0]
	pages []*page // by page number from first on; nil where nothing is counted
	spare *page   // one empty page, so that a count that comes and goes does not allocate

	// Where the first stretch that is not empty may be, for each kind: none is below. Moves up as stretches empty,
	// and down when a count is added below it.
	low [kinds]int64
	// The smallest offset that was counted since there were none, for each kind: a bound that is finer than a stretch,
	// and exact while counts come and go. Without it, the first record after a rest would seem to lie below a low
	// water that was given during the rest.
	floor [kinds]int64
	total [kinds]int64 // how many are counted, for each kind
}

// kind is what is counted.
type kind int

const (
	pending kind = iota // records that are pending, wherever they are held
	unsaved             // offsets that only memory holds: the store does not have them
	kinds
)

type page struct {
	used int // how many counters are not zero; the page is dropped when none is left
	n    [pageSize][kinds]uint16
}

func stretchOf(offset int64) int64 { return offset >> stretchBits }

func newLogTable(low int64) logTable {
	s := stretchOf(low)
	return logTable{first: s >> pageBits, low: [kinds]int64{s, s}}
}

// at gives the page and index of a stretch, and makes the page when there is none.
func (t *logTable) at(s int64) (*page, int) {
	i := s>>pageBits - t.first
	if i < 0 || i >= int64(len(t.pages)) {
		t.grow(s >> pageBits)
		i = s>>pageBits - t.first
	}
	p := t.pages[i]
	if p == nil {
		if p = t.spare; p == nil {
			p = new(page)
		}
		t.spare = nil
		t.pages[i] = p
	}
	return p, int(s & (pageSize - 1))
}

// grow makes the directory reach a page.
func (t *logTable) grow(number int64) {
	switch {
	case len(t.pages) == 0:
		t.first = number
		t.pages = append(t.pages, nil)
	case number < t.first: // offsets come in rising order but for a few at the start, so this is rare
		t.pages = append(make([]*page, t.first-number), t.pages...)
		t.first = number
	default:
		t.pages = append(t.pages, make([]*page, number-t.first-int64(len(t.pages))+1)...)
	}
}

func (t *logTable) add(k kind, offset int64) {
	s := stretchOf(offset)
	p, i := t.at(s)
	if p.n[i][k]++; p.n[i][k] == 1 {
		p.used++
	} else if p.n[i][k] == 0 {
		panic(fmt.Sprintf("state: BUG: more than 65535 records counted within 1024 offsets from %d", s<<stretchBits))
	}
	if t.total[k]++; t.total[k] == 1 {
		t.floor[k] = offset
	}
	t.floor[k] = min(t.floor[k], offset)
	t.low[k] = min(t.low[k], s)
}

func (t *logTable) remove(k kind, offset int64) {
	s := stretchOf(offset)
	number := s>>pageBits - t.first
	if number < 0 || number >= int64(len(t.pages)) || t.pages[number] == nil || t.pages[number].n[s&(pageSize-1)][k] == 0 {
		panic(fmt.Sprintf("state: BUG: offset %d was not counted", offset))
	}
	p := t.pages[number]
	i := s & (pageSize - 1)
	t.total[k]--
	if p.n[i][k]--; p.n[i][k] > 0 {
		return
	}
	if p.used--; p.used == 0 {
		t.pages[number], t.spare = nil, p
		t.trim()
	}
}

// trim drops the empty ends of the directory.
func (t *logTable) trim() {
	n := 0
	for n < len(t.pages) && t.pages[n] == nil {
		n++
	}
	t.pages, t.first = t.pages[n:], t.first+int64(n)
	for len(t.pages) > 0 && t.pages[len(t.pages)-1] == nil {
		t.pages = t.pages[:len(t.pages)-1]
	}
	if len(t.pages) == 0 {
		t.pages = nil
	}
}

// start is where the first stretch with a count begins, or somewhat later if nothing is counted before that; false
// when nothing is counted at all. Each stretch is passed once while counts are added above it, so the cost is O(1) for
// each record.
func (t *logTable) start(k kind) (int64, bool) {
	if t.total[k] == 0 {
		return 0, false
	}
	s := max(t.low[k], t.first<<pageBits)
	for {
		p := t.pages[s>>pageBits-t.first]
		if p == nil {
			s = (s>>pageBits + 1) << pageBits
			continue
		}
		if p.n[s&(pageSize-1)][k] > 0 {
			t.low[k] = s
			return max(s<<stretchBits, t.floor[k]), true
		}
		s++
	}
}
