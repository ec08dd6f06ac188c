package processor

import "slices"

// chain passes Appended on to the later part of a partition, whose checkpoint alone is committed: without it a takeover would not look for the
// records that the first part has appended.
func (t *turn) chain() {
	if len(t.joining) == 0 {
		return
	}
	appended := map[*partition]bool{}
	for _, pt := range t.tried { // the first part of a partition comes first
		pt.To.Appended = pt.To.Appended || appended[pt.p]
		appended[pt.p] = pt.To.Appended
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
