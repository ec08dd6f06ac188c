// Package wheel holds entries in memory until they are due and gives them back in the order of (due, seq). It is a
// hierarchical timing wheel: adding and taking an entry cost the same few nanoseconds whether it holds a thousand or ten
// million of them.
//
// # Use
//
//	w := wheel.New(now)           // nothing will be added below now
//	w.Add(due, seq, ref)          // ref means something to the caller only
//	due, ok := w.Next()           // exactly when to look again
//	batch = w.Take(now, batch[:0], 1000)
//
// Time is an argument: the wheel has no clock. It does not follow the clock either. Its cursor, [Wheel.Now], stands on the
// due of the entry that was taken last, because a caller that delivers in order may still accept an entry that is overdue but
// not yet behind what was taken. Adding an entry below the cursor is a bug in the caller, and panics.
//
// [Wheel.Take] may stop at its limit in the midst of a million entries that are due at one instant. The rest stays in
// order, and entries that are added meanwhile find their place in it. [Wheel.TakeFrom] takes the far end back when there
// is not enough memory to hold it; with [Wheel.Update] it may be put elsewhere before, some at a time.
//
// # Shape
//
// A due is read as eight digits of base 256, and there is a level for each digit, a ring of 256 slots. An entry lies in
// the level of the highest digit in which its due differs from the cursor, in the slot that this digit of its due names.
//
//	               cursor 02 . 41 . 07    (digits in hexadecimal; the higher ones are 0)
//
//	level 2   00 01 02 03 04 05 06 ...    03.xx.xx  lies here: it differs in digit 2
//	                ▲  ■     ■
//	level 1   ... 40 41 42 43 44 45 ...   02.42.xx  lies here: it differs in digit 1
//	                 ▲  ■
//	level 0   ... 06 07 08 09 0a 0b ...   02.41.09  lies here: only digit 0 is another
//	                 ▲■    ■
//
//	▲ the cursor's digit   ■ a slot with entries: right of ▲; in level 0 also on it
//
// Three things follow. What lies in a lower level is due before what lies in a higher one, and in a level the slots come
// in order. So the next due is in the first slot of the lowest level that holds anything: one trailing-zeros in the
// levels' bitmap, one in the slots', and each slot remembers its smallest due. And when the cursor moves there, no other
// slot is affected: only the entries of this one belong elsewhere now, in lower levels. It cascades. An entry cascades at
// most once for each level below its first: for dues in milliseconds within the next five hours, twice. A slot whose
// entries are all due at one instant moves as it is, whatever their number.
//
// Less formally: a clock with eight hands. Whatever is due within this minute hangs at its second, whatever is due
// within this hour hangs at its minute, and when the minute hand arrives there, it is hung at the seconds.
//
// In level 0 a slot is one due, and only there does seq matter. A slot is put in order when the cursor comes to it. Mostly
// it is in order, and one look at each entry shows that; otherwise it is merged. What then comes out of order for the
// cursor's due goes to a small heap, which Take merges with the slot.
//
// # Memory
//
// A slot is a chain of chunks of 27 entries. Chunks come from slabs of 128, have no pointers and name each other by
// number, so the garbage collector sees some thousand objects where ten million entries are held, and looks inside none.
// Of an entry's due a chunk holds the low five digits, for all the entries of a slot share those above. That is 21.3
// bytes an entry, and half a chunk for each slot in use: at most 24 from some hundred thousand entries on. The exception
// are entries that differ from the cursor in digit 6 or 7, thousands of years away in milliseconds: these hold more
// if their highest digits differ from one entry to the next, up to a chunk each.
//
// When most of the chunks are free, the others are moved together and the rest is given to the garbage collector.
//
// # Ownership and failure
//
// A Wheel belongs to one goroutine. It has no lock and starts nothing. Nothing is stored, and nothing fails: a wheel is
// rebuilt by adding its entries again. Two entries of one (due, seq) are both held; the caller keeps them apart.
package wheel
