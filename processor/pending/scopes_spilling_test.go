package pending

import (
	"testing"

	"github.com/duewheel/duewheel/topics"
)

// Of what is due at one instant some was written to the store and is in memory still, and the rest is in memory alone.
var scopesOfSpilling = []scope{
	{name: "spilling, cancels", sorts: "ak", stored: true, before: twoSpilt, most: counts{requests: 4, crashes: 1, flushes: 1, shortages: 3}, short: 4, deep: 6, states: 100, shows: "inherited, taken away"},
	{name: "spilling, ids that replace", onDuplicate: topics.DuplicateReplaces, sorts: "iR", stored: true, before: idAndMore, most: counts{requests: 5, crashes: 1, flushes: 1, shortages: 2}, short: 4, deep: 6, states: 100, shows: "inherited, taken away"},
	{name: "spilling, ids, with a store that fails", sorts: "iC", stored: true, before: idAndMore, most: counts{requests: 5, crashes: 1, failures: 1, shortages: 2, rereads: 1}, short: 4, deep: 6, states: 100, shows: "read again, taken away, duplicate"},
	{name: "spilling, stubs", remember: remembered, sorts: "IiC", stored: true, before: stubAndMore, most: counts{requests: 5, crashes: 1, deads: 1, shortages: 2, flushes: 1}, short: 4, deep: 6, states: 100, shows: "remembered, duplicate"},
	{name: "spilling, copies, ids", sorts: "iC", stored: true, before: idAndMore, most: counts{requests: 4, crashes: 1, shortages: 2, flushes: 1, carries: 2, cuts: 1}, short: 4, deep: 6, states: 100, shows: "carried"},
	{name: "spilling, targets, ids", fair: true, sorts: "BC", stored: true, before: severalSpilt, most: counts{requests: 5, crashes: 1, shortages: 2, flushes: 1}, short: 4, deep: 6, states: 100, shows: "overtakes, inherited"},
}

func TestSmallScopesOfSpilling(t *testing.T) { exploreAll(t, scopesOfSpilling) }

// twoSpilt: of two that are due at one time one was written to the store, and stays in memory.
func twoSpilt(v *life) {
	v.produce(dueAhead)
	v.produce(dueAhead)
	v.spill()
}

// idAndMore is that, and one of them has the id.
func idAndMore(v *life) {
	v.produce(hasID)
	v.produce(dueAhead)
	v.spill()
}

// stubAndMore is that, and what has the id was delivered before.
func stubAndMore(v *life) {
	v.produce(hasIDNow)
	v.take(1)
	v.happen(false)
	v.produce(dueAhead)
	v.produce(dueAhead)
	v.spill()
}

// severalSpilt is severalDue, and some of it was written to the store.
func severalSpilt(v *life) {
	several(v)
	v.spill()
	v.pass()
}

// spill has one record written to the store.
func (v *life) spill() {
	v.fit(Room{Window: LeastWindow, Spill: 1})
}
