package processor

import "slices"

// chain passes Appended on to the later part of a partition, whose checkpoint alone is committed: without it a takeover would not look for the
// records that the first part has appended.
func (t *turn) chain() {
	for _, pt := range t.joining {
		for _, first := range t.tried {
			if first.p == pt.p && first != pt && first.To.Appended {
				pt.To.Appended = true
			}
		}
	}
}

// lasts returns the last part of each partition that is tried. Only its checkpoint is committed; it covers the parts before it.
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
