package pending

import (
	"testing"

	"github.com/duewheel/duewheel/topics"
)

// A part is cut in two, of which the second never happens, and a stub that only the whole would have passed is there again. (A walk at random has found it.)
func TestWalkToHalfOfAPart(t *testing.T) {
	defer smallBlocks()()
	s := scope{sorts: "Hyeci", stored: true, followed: true, remember: remembered, before: oneDelivered, most: counts{requests: 6, crashes: 3, refusals: 3, setbacks: 2, shortages: 1, failures: 2, flushes: 2, deads: 2, anews: 1, tries: 1}}
	s.walksAgain(t, `
		a request with another id comes that is due now
		a request with the id comes that is due
		what is due soon is loaded
		the memory of what was delivered ends
		it takes one
		it takes all
		the turn is refused
		the store fails
		it takes one
		the turn happens
		it takes one
		the turn happens, and what it cannot deliver is carried on
		there is a store again
		the marker comes
		it goes live`)
}

// What was brought early, and overtakes a list of what is late, is something that the partition wants to have delivered. (A walk at random has found it.)
func TestWalkBesideWhatIsLate(t *testing.T) {
	defer smallBlocks()()
	s := scope{sorts: "bRJWi", stored: true, fair: true, tight: true, audit: true, forgiving: true, before: oneDelivered, most: counts{requests: 9, crashes: 2, failures: 1, rereads: 2, flushes: 2, deads: 2, carries: 2, resets: 2, anews: 2, changes: 1}}
	s.others.onDuplicate, s.others.remember = topics.DuplicateIgnored, remembered
	s.walksAgain(t, `
		a cancel of the id comes that was forwarded
		a replacement of the id comes
		a request comes for another target
		a request with the id comes that is due later
		a request with the id comes that is due 1 ms after the others
		a request comes for another target
		a replacement of the id comes
		no checkpoint is left, nor a store
		it goes live
		the second due time has come
		a request with the id comes that is due later
		what is due soon is loaded
		what is due soon is loaded
		it takes two
		it takes all`)
}

// A copy of what the next owner does not understand any more is stale, since that is refused, and stays so when the log is read again. (A walk at random has
// found that the resolve record which says so was written with another key in these tests.)
func TestWalkToAStaleCopyThatIsNotUnderstood(t *testing.T) {
	defer smallBlocks()()
	s := scope{sorts: "iznbadNIjHahiNC", stored: true, fair: true, tight: true, pieces: true, before: resumesBelow, onDuplicate: topics.DuplicateReplaces, most: counts{requests: 7, setbacks: 2, shortages: 1, failures: 1, rereads: 3, flushes: 2, carries: 3, resets: 1, anews: 3, changes: 3}}
	s.others.keyed, s.others.onDuplicate = true, topics.DuplicateReplaces
	s.walksAgain(t, `
		a request comes that is refused
		a cancel of the id comes
		the next owner is configured otherwise
		no checkpoint is left, nor a store
		it goes live
		some of what is not due soon is written to the store
		what is due soon is loaded
		the store fails`)
}
