package pending

// late are the records that are resolved when O passes them, in the order of the log: those with a key at or below W, and those that are
// refused.
type late struct {
	items []Item
	bytes int64
}

func (l *late) add(it Item) {
	l.items = append(l.items, it)
	l.bytes += int64(len(it.Run))
}

// take moves what is due from the front, as much as fits into a turn.
func (l *late) take(clock int64, out []Item, records int, bytes int64) ([]Item, int64) {
	n, took := 0, int64(0)
	for n < len(l.items) && n < records && (took < bytes || n == 0) && l.items[n].due() <= clock {
		took += int64(len(l.items[n].Run))
		n++
	}
	if n == 0 {
		return out, 0
	}
	out = append(out, l.items[:n]...)
	l.items, l.bytes = l.items[n:], l.bytes-took
	return out, took
}

// due is how many of them are due.
func (l *late) due(now int64) (n int64) {
	for i := range l.items {
		if l.items[i].due() <= now {
			n++
		}
	}
	return n
}
