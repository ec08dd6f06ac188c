package pending

import "github.com/duewheel/duewheel/state"

// writeTo has a store hold that.
func (i *image) writeTo(store *state.Partition) error {
	for _, r := range i.runs {
		run := []byte(r.bytes)
		if err := store.Put(r.key, run); err != nil {
			return err
		}
		if i.pos.Watermark.Less(r.key) {
			store.Count(counted(r.key, run))
		}
		var rec Record
		if err := rec.Decode(run); err != nil {
			return err
		}
		if id := runID(run); id != nil { // ids are written in the same batches
			store.PutID(id, r.key, indexEntry{r.key, rec.Timestamp, isStub(run)}.note())
		}
	}
	for _, seq := range [...]int64{i.copied.first, i.copied.last} {
		if x := (state.Counted{Key: state.Key{Seq: seq}, Offset: 1 << 30}); i.copied.seen { // it may be resolved by now
			store.Count(x)
			store.Uncount(x)
		}
	}
	return store.Commit(i.pos)
}

// flush has what the owner's store holds survive a crash.
func (v *life) flush() {
	v.disk = v.imageOf(v.p.store)
	v.nothing = !v.disk.used
}

// imageOf is what a store holds by now.
func (v *life) imageOf(store *state.Partition) image {
	i, err := imageOf(store)
	v.must(err)
	return i
}

func imageOf(store *state.Partition) (i image, err error) {
	counts, err := store.Counts()
	if err != nil {
		return i, err
	}
	i.copied = copiesIn(counts)
	i.pos, i.used = store.Position()
	err = store.Scan(state.Key{}, func(k state.Key, b []byte) bool {
		i.runs = append(i.runs, run{k, string(b)})
		return true
	})
	return i, err
}

// fit has memory given back; the store may keep some of the late list then.
func (v *life) fit(room Room) {
	away := v.p.late.away
	for h := range v.p.late.all() {
		if h.refusal != nil && h.effect == EffectNone {
			v.refusedAside |= bit(h.offset)
		}
	}
	_, err := v.p.Fit(v.now, room)
	if v.must(err); v.p.late.away > away {
		v.note("laid aside")
	}
}
