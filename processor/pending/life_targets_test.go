package pending

// several: of two targets there is more than fits into a part.
func several(v *life) {
	v.produce(dueBefore)
	v.produce(dueBefore)
	v.produce(v.otherSort())
}

// severalDue is several, and all of it is due.
func severalDue(v *life) {
	several(v)
	v.pass()
}

// severalLoaded is severalDue, and the store holds all of it, too.
func severalLoaded(v *life) {
	severalDue(v)
	v.must(v.p.Load(v.now, roomy))
}

// severalEarly: the first record is in memory, of two targets the next one came early, and the rest is in the store alone.
func severalEarly(v *life) {
	v.produce(dueBefore)
	v.produce(dueBefore)
	v.produce(dueBefore)
	v.produce(v.otherSort())
	v.pass()
	for range 4 {
		v.load()
	}
}

// otherSort is the sort of requests for another target, the first of the scope.
func (v *life) otherSort() rune { return rune(v.sorts[0]) }
