package pending

// checkFollower: it counts what the owner has accepted and not resolved, of what it has read. Of what was refused it may
// learn only when it reads the resolve record.
func (v *life) checkFollower() {
	f := v.f.p
	if f.position > f.committed.Offset {
		v.fail("the follower is at %d, and O is %d", f.position, f.committed.Offset)
	}
	read := v.requests(f.position)
	want := read &^ v.saysTo(f.committed, f.position)
	learns := read & (v.named(v.end()) | v.takenAway(v.end())) &^ (v.named(f.position) | v.takenAway(f.position))
	for offset := range max(f.committed.LowWater, v.logStart) { // until its copy is read, or what else has resolved it is passed; or it was read before the log was cut
		if f.ledger.Has(offset) {
			learns |= read & bit(v.seqOf(offset))
		}
	}
	for offset := f.position; offset < v.end(); offset++ {
		if v.isCopy(offset) {
			learns |= read & bit(v.seqOf(offset))
		}
		if f.ledger.Has(offset) { // an owner has left it there
			learns |= bit(v.seqOf(offset))
		}
	}
	gone := v.named(v.end())&^v.named(f.position) | v.takenAway(v.end())&^v.takenAway(f.position) // an owner may have taken it out of the store, when that was committed
	for offset := f.position; offset < v.end(); offset++ {
		if v.isCopy(offset) && v.log[offset].from < max(v.logStart, f.committed.GivenUp) { // nothing but a copy is left that it has not read
			gone |= bit(v.seqOf(offset))
		}
	}
	if got := v.f.Pending(); got < int64((want&^gone).len()) || got > int64((want|learns).len()) {
		v.fail("the follower counts %d records, want %b", got, want)
	}
}
