package pending

import "math"

// follow begins to follow the checkpoint, or follows a newer one.
func (v *life) follow() {
	c := v.committed
	v.outdated = false
	if v.f == nil {
		store := v.storeOf(1 - v.own)
		var err error
		v.f, err = Follow(v.env, c, store, v.inherit(store, c, math.MaxInt64))
		v.must(err)
		v.tail = v.f.p.position
		return
	}
	was := v.f.p.committed
	jumped, err := v.f.Follow(c)
	v.must(err)
	if jumped {
		v.note("began anew")
		v.tail = v.f.p.position
	}
	v.nothing = !jumped && was.Offset == c.Offset && was.Watermark == c.Watermark && was.LowWater == c.LowWater
}

// readAhead is the follower's next record.
func (v *life) readAhead() {
	_, err := v.f.Accept(v.log[v.tail].Record)
	v.must(err)
	v.must(v.f.Sync())
	v.tail++
}
