package pending

// drain lets everything happen that is left to do: then all is resolved, and nothing is kept.
func (v *life) drain() {
	for range 200 { // where there is room for one record, each round may bring one
		v.now += secondDue
		v.latest = max(v.latest, v.now)
		v.mark()
		if !v.p.live {
			v.live()
		}
		v.readUpTo(v.stable)
		v.load()
		for v.take(10); !v.nothing; v.take(10) {
		}
		for len(v.taken) > 0 {
			v.happen(false)
		}
		if v.beside != nil {
			v.wrote()
		}
		if v.checkpoint(); v.beside != nil {
			v.wrote()
		}
		if v.committed.Offset == v.end() && v.committed.LowWater == v.end() && v.p.Pending() == 0 && !v.open {
			break
		}
		if v.p.Storeless() && (v.p.leaving || v.p.UsedUp(v.now, roomy)) {
			v.readAgain()
		}
	}
	if left := v.requests(v.end()) &^ v.resolved; left != 0 {
		v.fail("%b are never delivered; %s", left, checkpointed(v.committed))
	}
	v.must(Check(v.p))
	if v.p.Pending() != 0 || !v.p.Settled() || v.committed.Offset != v.end() || v.committed.LowWater != v.end() {
		v.fail("all is delivered, and pending are %d records, with %s of %d", v.p.Pending(), checkpointed(v.committed), v.end())
	}
}

// mark ends the transaction at the end of the log.
func (v *life) mark() {
	if v.open {
		v.open = false
		v.append(entry{Record: control(v.end()), what: marker})
	}
}
