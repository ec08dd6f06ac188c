package processor

import "slices"

// chain has the checkpoint of a partition's second part say what the first one does, too.
func (t *turn) chain() {
	for _, pt := range t.joining {
		for _, first := range t.tried {
			if first.p == pt.p && first != pt && first.To.Appended {
				pt.To.Appended = true
			}
		}
	}
}

// lasts are the last parts of all partitions that are tried: their checkpoints say what is done for each.
func (t *turn) lasts() []*part {
	if len(t.joining) == 0 {
		return t.tried
	}
	later := map[*partition]*part{}
	for _, pt := range t.tried {
		later[pt.p] = pt
	}
	return slices.DeleteFunc(slices.Clone(t.tried), func(pt *part) bool { return later[pt.p] != pt })
}
