package pending

// severalDue: of two targets more is due than fits into a part.
func severalDue(v *life) {
	v.produce(dueBefore)
	v.produce(dueBefore)
	v.produce(v.otherSort())
	v.pass()
}

// severalLoaded is severalDue, and the store holds all of it, too.
func severalLoaded(v *life) {
	v.produce(dueBefore)
	v.produce(dueBefore)
	v.produce(v.otherSort())
	v.pass()
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
