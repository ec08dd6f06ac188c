package pending

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/topics"
)

// Within a scope all is tried that is near; a walk goes far, and not everywhere. Each goes through a scope of its own, which combines at random what the
// lists of scopes keep apart: sorts of requests, two ids, audit, a store that fails, shortages, copies, a follower. After each step holds what holds in
// every scope. A fault is told with a list of steps from which none can be left out.

const (
	walks     = 1500 // as many as take few seconds
	walkSteps = 40
	walkLog   = 40 // nothing more comes when the log has as many records: those of a mask are bounded
)

// TestSmallScopesAtRandom walks the same ways each time; for as long as DUEWHEEL_TEST_WALK_FOR says it walks others, beginning with DUEWHEEL_TEST_SEED.
func TestSmallScopesAtRandom(t *testing.T) {
	seed, most, until := uint64(1), walks, time.Time{}
	if v := os.Getenv("DUEWHEEL_TEST_WALK_FOR"); v != "" {
		d, err := time.ParseDuration(v)
		must(t, err)
		seed, most, until = rand.Uint64(), 1<<62, time.Now().Add(d)
	}
	if v := os.Getenv("DUEWHEEL_TEST_SEED"); v != "" {
		var err error
		seed, err = strconv.ParseUint(v, 10, 64)
		must(t, err)
	}
	defer smallBlocks()()
	seen, n := map[string]int{}, 0
	for ; n < most && (until.IsZero() || time.Now().Before(until)); n++ {
		r := rand.New(rand.NewPCG(seed+uint64(n), 0))
		s := randomScope(r)
		s.ready(t)
		path, why := s.walk(r.IntN(walkSteps)+1, r)
		if why != "" {
			path, why = s.shrink(t, path, why)
			t.Errorf("DUEWHEEL_TEST_SEED=%d: %s%s\n  in %s", seed+uint64(n), why, told(path), s.told())
		}
		s.close()
		for what, times := range s.seen {
			seen[what] += times
		}
	}
	t.Logf("%d walks: %v", n, seen)
	for _, what := range []string{"late", "repeated in parts", "read again", "inherited", "handed over", "taken away", "duplicate", "remembered", "forgotten", "dead-lettered", "accepted", "carried", "cut", "stale", "overtakes", "early", "comes again", "lost", "reset", "forgets", "read by others", "laid aside", "a queue from now on", "no queue any more, with some in it", "a fixed delay, and keys are pending", "understood otherwise", "by its key", "carried on", "to be retried", "goes by its store", "carries several"} {
		if seen[what] == 0 {
			t.Errorf("it never shows: %s", what)
		}
	}
}

// smallBlocks has the late list consist of blocks of one record, until the end.
func smallBlocks() (end func()) {
	was := fifoBlock
	fifoBlock = 1
	return func() { fifoBlock = was }
}

// randomScope is one in which much may happen, or little.
func randomScope(r *rand.Rand) scope {
	one := func(of int) bool { return r.IntN(of) == 0 }
	upTo := func(most int) int { return r.IntN(most + 1) }
	if one(8) {
		return scope{queue: true, sorts: "pdajefu"[upTo(3):], atLeastOnce: one(3),
			most: counts{requests: 4 + upTo(9), crashes: upTo(4), refusals: upTo(3), setbacks: upTo(2), sights: upTo(3), anews: upTo(4)}}
	}
	s := scope{stored: !one(4), audit: one(3), forgiving: one(3), atLeastOnce: one(3), fair: one(3), onDuplicate: topics.OnDuplicate(upTo(2))}
	s.followed, s.tight = s.stored && one(4), s.fair && s.stored && one(2)
	sorts := []rune("pdajenckoqQxiIyZCRJFhHDzvWwV")
	if s.fair {
		sorts = append(sorts, elsewhere, elsewhereN)
	}
	r.Shuffle(len(sorts), func(i, k int) { sorts[i], sorts[k] = sorts[k], sorts[i] })
	s.sorts = string(sorts[:3+upTo(3)]) + string(hasID)
	s.most = counts{requests: 4 + upTo(9), crashes: upTo(4), refusals: upTo(3), setbacks: upTo(2), shortages: upTo(5), failures: upTo(2), rereads: upTo(3), flushes: upTo(3), anews: upTo(4)}
	if one(2) {
		s.pieces = one(2)
		if s.most.carries, s.most.cuts = upTo(4), upTo(2); one(2) {
			s.most.losses = upTo(2)
		}
		if one(3) {
			s.most.resets = 1 + upTo(1)
		}
	}
	if s.onDuplicate != topics.DuplicateReplaces && one(3) {
		s.remember, s.most.deads = remembered, upTo(3)
	}
	if one(3) {
		s.most.changes = 1 + upTo(2)
		if s.others.onDuplicate = topics.OnDuplicate(upTo(2)); s.others.onDuplicate != topics.DuplicateReplaces && one(2) {
			s.others.remember, s.most.deads = remembered, upTo(3)
		}
		if s.most.resets == 0 && one(2) { // else it is not known any more what a handle has to be put off by that names what was given up
			s.others.jitter = 3 * time.Millisecond
		}
	}
	if s.most.changes > 0 && one(2) {
		s.another(r)
	}
	if one(4) {
		s.most.tries = 1 + upTo(2)
	}
	befores := []func(*life){nil, nil, oneDelivered}
	if s.fixed || s.prefix || s.keyed || s.others.retry {
		return s
	}
	if s.stored && !s.tight {
		befores = append(befores, halfDelivered, halfNamedDelivered, halfLeftDelivered, twoSpilt, idAndMore)
	}
	if s.stored && s.remember > 0 {
		befores = append(befores, stubAndMore)
	}
	if s.most.carries > 0 && !s.audit { // of the first sort, and what cancels that is the last
		s.sorts = string("ai"[upTo(1)]) + s.sorts + string("kCqRvWw"[upTo(6)])
		befores = append(befores, cancelledOnTheWay, cancelledFirst)
	}
	if s.stored && s.most.carries > 0 && !s.audit {
		befores = append(befores, resumesBelow, carriedSince)
	}
	s.before = befores[r.IntN(len(befores))]
	return s
}

// beforeOf is the name of what has happened before a scope begins.
func beforeOf(s *scope) string {
	if s.before == nil {
		return "nil"
	}
	name := runtime.FuncForPC(reflect.ValueOf(s.before).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

func (s *scope) told() string {
	return fmt.Sprintf("scope{queue: %v, fixed: %v, prefix: %v, keyed: %v, before: %s, sorts: %q, stored: %v, followed: %v, fair: %v, tight: %v, audit: %v, pieces: %v, forgiving: %v, onDuplicate: %d, remember: %d, others: %+v, atLeastOnce: %v, most: %+v}",
		s.queue, s.fixed, s.prefix, s.keyed, beforeOf(s), s.sorts, s.stored, s.followed, s.fair, s.tight, s.audit, s.pieces, s.forgiving, s.onDuplicate, s.remember, s.others, s.atLeastOnce, s.most)
}

// walk goes on at random, and then does all that is left to do.
func (s *scope) walk(length int, r *rand.Rand) (path []byte, why string) {
	defer recovered(&why)
	v := s.begin()
	for range length {
		next := v.mayFollow()
		if v.end() > walkLog {
			next = slices.DeleteFunc(next, func(n byte) bool { return strings.Contains(steps[n].name, " comes") })
		}
		if len(next) == 0 {
			break
		}
		comes := r.IntN(3) == 0
		if some := slices.DeleteFunc(slices.Clone(next), func(n byte) bool { return comes != strings.Contains(steps[n].name, " comes") }); len(some) > 0 {
			next = some
		}
		n := next[r.IntN(len(next))]
		path = append(path, n)
		v.step(n)
	}
	v.drain()
	return path, ""
}

// again walks along a path, and leaves out what may not follow.
func (s *scope) again(along []byte) (path []byte, why string) {
	defer recovered(&why)
	v := s.begin()
	for _, n := range along {
		if steps[n].may(v) {
			path = append(path, n)
			v.step(n)
		}
	}
	v.drain()
	return path, ""
}

func (v *life) step(n byte) {
	v.nothing = false
	steps[n].do(v)
	v.check()
}

// recovered says why a life has ended in which something is that must not be.
func recovered(why *string) {
	switch is := recover().(type) {
	case nil:
	case fault:
		*why = string(is)
	default:
		*why = fmt.Sprintf("%v\n%s", is, debug.Stack())
	}
}

// shrink leaves out of a path what its fault does not need.
func (s *scope) shrink(t *testing.T, path []byte, why string) ([]byte, string) {
	kind := kindOf(why)
	for i := len(path) - 1; i >= 0; i-- {
		if i%livesAStore == 0 {
			s.openStore(t)
		}
		if shorter, w := s.again(slices.Delete(slices.Clone(path), i, i+1)); kindOf(w) == kind {
			path, why, i = shorter, w, len(shorter)
		}
	}
	return path, why
}

// kindOf is what a fault is, whichever records and keys it is about.
func kindOf(why string) string {
	first, _, _ := strings.Cut(why, "\n")
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, first)
}

// told are steps, one a line.
func told(path []byte) string {
	trace := &strings.Builder{}
	for _, n := range path {
		fmt.Fprintf(trace, "\n  %s", steps[n].name)
	}
	return trace.String()
}

// Walks that have shown a fault.
func TestWalksOfBefore(t *testing.T) {
	defer smallBlocks()()
	for _, c := range []struct {
		name, path string
		scope
	}{
		{"what was dead-lettered as a duplicate is cancelled, when only the log has it", `
			a request with the id comes that is due later
			a request with the id comes that is due later
			it crashes
			a cancel of the last request comes
			it goes live
			it is decided what cancels do
			it takes all
			the turn happens
			what is not due soon leaves memory
			it is read again
			it reads
			it reads
			what is not due soon leaves memory`,
			scope{sorts: "icF", most: counts{requests: 7, crashes: 2, shortages: 4, rereads: 2}}},
		{"what was cancelled is replaced, when a copy of it was read and only the log may have it", `
			a request with the id comes that is due last
			a cancel of the id comes
			a replacement of the first request comes
			a checkpoint
			it carries the last record
			a request comes that is due later
			the turn happens
			it is decided what cancels do
			it takes one
			the marker comes
			the turn happens
			what is not due soon leaves memory
			it is read again
			it goes live
			what is not due soon leaves memory
			it is decided what cancels do`,
			scope{sorts: "qCFa", most: counts{requests: 11, shortages: 5, rereads: 3, carries: 1}}},
		{"what was replaced is cancelled, when its copy is read later and only the log may have it", `
			a request with the id comes that is due later
			a checkpoint
			it carries the first record
			a replacement of the id comes
			the turn happens
			it is decided what cancels do
			a replacement of the first request comes
			what is not due soon leaves memory
			the marker comes
			it takes all
			it reads
			the turn happens`,
			scope{sorts: "Rqi", onDuplicate: topics.DuplicateIgnored, most: counts{requests: 11, shortages: 5, carries: 1}}},
		{"what was cancelled below O is replaced, when only the log has it", `
			a request comes that is due later
			a cancel of the first request comes
			it is decided what cancels do
			it takes one
			the turn happens
			what is not due soon leaves memory
			it is read again
			it reads
			it reads
			it reads
			what is not due soon leaves memory
			it goes live
			a replacement of the first request comes
			it is decided what cancels do`,
			scope{before: farAndDue, sorts: "akq", most: counts{requests: 5, shortages: 2, rereads: 1}}},
		{"what was carried is cancelled, when only the log has it", `
			a request comes that is due later
			a checkpoint
			it carries the last record
			the turn happens
			the marker comes
			it reads
			a checkpoint
			what is not due soon leaves memory
			it is read again
			it reads
			it reads
			it reads
			what is not due soon leaves memory
			it goes live
			a cancel of the first request comes
			it is decided what cancels do`,
			scope{before: farAndDue, sorts: "ak", most: counts{requests: 4, shortages: 2, rereads: 1, carries: 1}}},
		{"what was cancelled is replaced, when the store has failed, which had copies of what lies around it", `
			a request comes that is due later
			a cancel of the first request comes
			it is decided what cancels do
			it takes all
			the turn happens
			a request comes that is due later
			a checkpoint
			it carries the first record
			the turn happens
			the marker comes
			it reads
			it carries the last record
			the turn happens
			the marker comes
			it reads
			the store fails
			a replacement of the first request comes
			it is decided what cancels do`,
			scope{stored: true, before: farAndDue, sorts: "akq", most: counts{requests: 6, carries: 2, failures: 1}}},
		{"what a copy stands for that was given up is replaced by what has its id and comes soon after", `
			a request with the id comes that is due last
			a checkpoint
			it carries the first record
			the turn happens
			the marker comes
			the checkpoint is reset to a copy
			a request with the id comes that is due later`,
			scope{sorts: "iF", onDuplicate: topics.DuplicateReplaces, most: counts{requests: 2, carries: 1, resets: 1}}},
		{"what was given up is found by its id, when the log has lost it and a copy stands for it", `
			a request with the id comes that is due last
			a checkpoint
			it carries the first record
			the turn happens
			the marker comes
			retention takes what was carried
			it crashes
			a request with the id comes that is due later`,
			scope{sorts: "iF", onDuplicate: topics.DuplicateReplaces, most: counts{requests: 2, carries: 1, losses: 1, crashes: 1}}},
		{"what was given up is replaced by what has its id and comes before the copy, which no checkpoint tells of", `
			a request with the id comes that is due last
			a checkpoint
			the checkpoint is written
			it carries the first record
			a request with the id comes that is due later
			it crashes when the turn has happened
			the marker comes
			retention takes what was carried
			it crashes`,
			scope{sorts: "iF", atLeastOnce: true, onDuplicate: topics.DuplicateReplaces, most: counts{requests: 2, carries: 1, losses: 1, crashes: 2}}},
		{"the id of what was given up is remembered when a copy of it was delivered, and the next owner knows that", `
			a request with the id comes that is due later
			a checkpoint
			it carries the first record
			the turn happens
			the marker comes
			the checkpoint is reset to a copy
			it goes live
			the second due time has come
			it is decided what cancels do
			it takes all
			the turn happens
			it crashes
			it goes live`,
			scope{sorts: "i", remember: remembered, most: counts{requests: 1, carries: 1, resets: 1, crashes: 1}}},
		{"the checkpoint is set ahead and back again, and a follower that has seen the first may take over after the second", `
			the checkpoint is reset to a copy
			the follower looks at the checkpoint
			the checkpoint is reset to behind what was carried
			it goes live
			what is due soon is loaded
			it takes all
			the turn happens
			the follower looks at the checkpoint`,
			scope{before: carriedSince, sorts: "a", stored: true, followed: true, fair: true, tight: true, most: counts{resets: 2}}},
		{"the checkpoint is set ahead and back again, and a store has seen the first alone", `
			the checkpoint is reset to a copy
			it goes live
			a request comes that is due later
			the store is flushed
			the checkpoint is reset to behind what was carried
			it goes live
			what is due soon is loaded
			it takes all
			the turn happens
			it crashes, and of the store is left what was flushed`,
			scope{before: carriedSince, sorts: "a", stored: true, fair: true, tight: true, most: counts{requests: 4, resets: 2, crashes: 1, flushes: 1}}},
		{"what was given up and cancelled by its id stays so, when the cancel finds a duplicate as well", `
			a request with the id comes that is due later
			a checkpoint
			it carries the last record
			a request with the id comes that is refused
			a cancel of the id comes
			it is decided what cancels do
			it takes all
			the store fails
			the turn happens
			the turn happens
			the marker comes
			retention takes what was carried
			it crashes
			it goes live
			it is decided what cancels do`,
			scope{stored: true, sorts: "iZC", onDuplicate: topics.DuplicateIgnored, remember: remembered, most: counts{requests: 3, crashes: 1, failures: 1, carries: 1, losses: 1}}},
		{"what was copied behind an open transaction is delivered by an owner that has not seen the copy, and its checkpoint is on its way when that is seen", `
			a request with the id comes that is due later
			it carries the last record
			a request comes that is refused
			the turn happens
			it crashes, and nothing is left of the store
			it goes live
			it takes two
			the turn happens
			a checkpoint
			the marker comes
			the checkpoint is written`,
			scope{atLeastOnce: true, stored: true, fair: true, tight: true, audit: true, pieces: true, before: oneDelivered, sorts: "cFni", onDuplicate: topics.DuplicateReplaces, most: counts{requests: 11, crashes: 3, refusals: 2, carries: 4, cuts: 2}}},
		{"what was carried twice lies above an O that was set back, and the store has taken in both copies", `
			it carries the last record
			it crashes when the turn has happened, and of the store is left what was flushed
			the marker comes
			no checkpoint is left, and the store knows one
			it goes live
			what is due soon is loaded
			the store is flushed
			it crashes, and of the store is left what was flushed
			it goes live`,
			scope{stored: true, before: resumesBelow, sorts: "ai", pieces: true, most: counts{requests: 4, crashes: 3, flushes: 2, carries: 4, resets: 2}}},
	} {
		t.Run(c.name, func(t *testing.T) { c.walksAgain(t, c.path) })
	}
}

// walksAgain walks along a path that has shown a fault.
func (s *scope) walksAgain(t *testing.T, names string) {
	s.ready(t)
	defer s.close()
	all := stepsOf(t, names)
	path, why := s.again(all)
	if why != "" {
		t.Fatal(why + told(path))
	}
	equal(t, "the list of steps", told(path), told(all))
}

// farAndDue: one record is due when all else is over, and one now.
func farAndDue(v *life) {
	v.produce(dueFar)
	v.produce(dueNow)
}

// stepsOf are steps by their names.
func stepsOf(t *testing.T, names string) (path []byte) {
	for name := range strings.Lines(strings.TrimSpace(names)) {
		n := slices.IndexFunc(steps, func(s step) bool { return s.name == strings.TrimSpace(name) })
		if n < 0 {
			t.Fatalf("there is no such step: %s", name)
		}
		path = append(path, byte(n))
	}
	return path
}
