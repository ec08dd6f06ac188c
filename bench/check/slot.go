package check

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// slot is what is remembered of one offset of a delay topic. Whichever comes first, the request or its arrival, leaves its
// fingerprint; the other is compared with it. No pointers, so that millions of slots cost the garbage collector nothing.
type slot struct {
	print
	place     place  // where it was first seen; valid when arrivals > 0
	stamp     uint32 // of a Survey: of the timestamp of the request, or what has arrived says of it; 0: not known
	codes     uint32 // acceptable reasons of a dead letter, by bit; zero is any. Before the request is known: the reason seen
	target    uint16 // index into targets.names; before the request is known: where it was delivered
	partition int16  // asked for in the target topic; negative is none
	arrivals  uint8  // stays at its largest value
	flags     flag
}

// print is a fingerprint: of a record as it must be delivered, or as it must be dead-lettered.
type print struct {
	due     int64  // epoch ms
	key     uint64 // wide, since order is judged among records of one key
	value   uint32
	headers uint32 // with the timestamp of the request
}

// stampOf is what is remembered of a timestamp, in ms.
func stampOf(timestamp int64) uint32 { return max(uint32(timestamp), 1) }

type flag uint16

const (
	requested  flag = 1 << iota // a committed request is known
	mayDeliver                  // it may be delivered
	mayDie                      // it may be dead-lettered
	delivered                   // it was seen in a target topic
	died                        // it was seen in a dead-letter topic
	retried                     // it first arrived on a later attempt
	isRetry                     // no request: a retry record; due is the offset of its origin
	orLater                     // due is the earliest that it may be
	orEarlier                   // of a Survey: due is more than a second later than it may be, where its timestamp was ahead of the clock
	dueUnread                   // when it is due is not known
	settled                     // it is not waited for any more
	forgotten                   // it has arrived, and nothing else is remembered of it
	byClock                     // of a Survey: its timestamp is its producer's, which may be ahead of the clock
	left                        // its request has left the log: it is known from what stands for it
	fine                        // of a Survey: it can be delivered, as things are now
	orAgain                     // it may come once more: the log has lost what said that it was resolved
)

func (s *slot) is(f flag) bool { return s.flags&f != 0 }

// wasAhead tells whether a record may be due so early because its timestamp was ahead of the clock when it was read first: by more than a second.
func (s *slot) wasAhead(due int64) bool {
	return s.is(orEarlier) && due >= 0 && due < s.due-time.Second.Milliseconds()
}

const pageSlots = 1 << 6

type page [pageSlots]slot

// source is one partition of a delay topic.
type source struct {
	topic     string
	partition int32
	route     *route
	window    window
	pages     map[int64]*page // by offset / pageSlots
	few       map[int64]*slot // by offset: those of pages that were given up
	arrived   map[int64]*bits // by offset / bitsOffsets: what has arrived in pages that were given up
	retries   map[int64]retry // by offset of the origin: its last attempt
	attempts  map[int64]tried // by offset: of what arrived first and says that it had been tried before
	overdue   map[int64]int64 // by offset: the timestamps of requests that were due before they were written; of a Survey: when their turn came, if that was later
	written   map[int64]int64 // of a Survey, by offset: the timestamps of requests that may have been dead-lettered when they were read, and are due later
	turn      int64           // of a Survey, with a fixed delay: when the latest of what was read is due, in ms
	large     map[int64]large // requests that may be cut down, by offset
	cut       map[int64]cut   // dead letters that were, and came before their request

	fates fates
	freed freed // of a Survey, where what has an id that is had is left out

	copied map[int64]int64 // by offset of what was copied, or of a Survey of its request: where its last copy lies
	said   map[int64]int64 // by offset of what a resolve record says to be resolved: where that lies

	below int64 // what lies below was lost with the log (Watch.Beheaded)

	marks marks // of a Survey: where the log ended, and when

	begins int64                // of a Survey: what lies below has left the log
	gone   map[goneAt]*goneBits // and what has arrived of it

	checkpoints []checkpoint // the last ones, oldest first
	accepting   []uncovered  // committed records that no checkpoint has passed yet, in offset order
	delivering  []uncovered  // deliveries that no checkpoint covers yet, as they were seen
}

// retry is the last retry record of an origin: the key by which the processor orders it, how often it was tried before, and
// the number of its retry records.
type retry struct {
	due, offset, attempt int64
	first                int64 // when the request was due first
	count                int
}

// tried is how often what has arrived had been tried before.
type tried struct {
	times int64
	end   int64 // of a Survey: where the delay topic ended at some time after it had arrived; 0: not known
}

// unclear tells whether a request has arrived that was written again before, by a record that was not read yet as it seems.
func (s *source) unclear(offset int64) bool {
	says := s.attempts[offset]
	return s.fates.unclear(offset, s.window.next) || says.times > s.retries[offset].attempt && (says.end == 0 || s.window.next < says.end)
}

// ended takes in where the delay topic ends, after all that has arrived.
func (s *source) ended(end int64) {
	s.freed.ended(s.window.next >= s.window.end)
	s.window.end, s.window.untold = end, false
	s.fates.ended(end)
	for offset, says := range s.attempts {
		if says.end == 0 {
			says.end = end
			s.attempts[offset] = says
		}
	}
}

func (s *source) name(offset int64) Source { return Source{s.topic, s.partition, offset} }

// at returns the slot of an offset, new if need be.
func (s *source) at(offset int64) *slot {
	n := offset / pageSlots
	p := s.pages[n]
	if p == nil {
		if s.givenUp(n) {
			return s.recall(offset)
		}
		p = new(page)
		s.pages[n] = p
	}
	return &p[offset%pageSlots]
}

// peek returns the slot of an offset as it is; it is not to be changed where there was none.
func (s *source) peek(offset int64) *slot {
	n := offset / pageSlots
	if p := s.pages[n]; p != nil {
		return &p[offset%pageSlots]
	}
	if few := s.few[offset]; few != nil {
		return few
	}
	made := new(slot)
	if s.givenUp(n) {
		*made = s.remembered(offset)
	}
	return made
}

// slots yields what is remembered, in offset order but for what is left of pages that were given up, which comes first.
func (s *source) slots() iter.Seq2[int64, *slot] {
	return func(yield func(int64, *slot) bool) {
		for _, offset := range slices.Sorted(maps.Keys(s.few)) {
			if !yield(offset, s.few[offset]) {
				return
			}
		}
		for _, n := range slices.Sorted(maps.Keys(s.pages)) {
			p := s.pages[n]
			for i := range p {
				if p[i].flags == 0 {
					continue
				}
				if !yield(n*pageSlots+int64(i), &p[i]) {
					return
				}
			}
		}
	}
}
