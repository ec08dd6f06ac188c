package pending

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Within a small scope every order of steps is tried: what is wrong with one partition mostly shows with a few
// records, two due times and a crash. A scope bounds what may happen; from its beginning each list of steps that leads to
// a state which no shorter one has led to is played, and played again with each step that may follow, since a partition
// cannot be copied. A fault is told with the shortest list of steps to it.
type scope struct {
	name        string
	sorts       string // of requests
	queue       bool   // a fixed delay, and requests say nothing of theirs
	fixed       bool   // a fixed delay
	prefix      bool   // another one
	keyed       bool   // the key of a record is its id
	stored      bool   // there is a store
	followed    bool   // another replica follows
	fair        bool   // parts of two are taken
	tight       bool   // there is room in memory for one record, and for one of each target that comes early
	audit       bool   // what becomes of requests is audited
	pieces      bool   // it reads one record at a time, too, and carries several at once
	forgiving   bool   // replacements that come too late are delivered, and cancels answered
	onDuplicate topics.OnDuplicate
	remember    time.Duration
	others      settings    // in which an owner may find the route configured
	before      func(*life) // what has happened before all begins
	atLeastOnce bool
	most        counts
	short, deep int    // how many steps, with -short and without
	states      int    // there are at least so many, with -short
	shows       string // what must have happened

	usual     settings
	env       Env
	otherwise Env
	store     *state.Store
	lives     int
	made      map[requestKey]entry
	seen      map[string]int
	scratch   []byte
}

// counts are how often something has happened, or may.
type counts struct{ requests, crashes, refusals, setbacks, shortages, failures, rereads, flushes, sights, deads, carries, cuts, losses, resets, anews, changes, tries int }

var scopes = []scope{
	{name: "in memory", sorts: "panj", most: counts{requests: 3, crashes: 1, refusals: 1}, short: 5, deep: 8, states: 2400, shows: "late, repeated, repeated in parts"},
	{name: "in memory, after a delivery", sorts: "pda", before: oneDelivered, most: counts{requests: 3, crashes: 1, refusals: 1, setbacks: 1}, short: 6, deep: 9, states: 2200, shows: "late, repeated, repeated in parts"},
	{name: "short of memory", sorts: "pa", most: counts{requests: 3, crashes: 1, shortages: 1, rereads: 1}, short: 5, deep: 8, states: 1300, shows: "read again"},
	{name: "with a store", sorts: "pa", stored: true, before: oneDelivered, most: counts{requests: 3, crashes: 1, refusals: 1, flushes: 1}, short: 5, deep: 7, states: 900, shows: "late, inherited, repeated"},
	{name: "with a store, half of it delivered", sorts: "ap", stored: true, before: halfDelivered, most: counts{requests: 4, crashes: 1, shortages: 1, flushes: 1}, short: 5, deep: 7, states: 500, shows: "late"},
	{name: "with a store that fails", sorts: "pa", stored: true, most: counts{requests: 2, crashes: 1, shortages: 1, failures: 1, rereads: 1}, short: 5, deep: 7, states: 1800, shows: "inherited, read again"},
	{name: "followed", sorts: "pan", stored: true, followed: true, most: counts{requests: 2, crashes: 1}, short: 5, deep: 8, states: 1450, shows: "handed over"},
	{name: "queue", sorts: "pafu", queue: true, most: counts{requests: 3, crashes: 1, refusals: 1, sights: 1}, short: 5, deep: 7, states: 7600, shows: "repeated, repeated in parts"},
}

// Records that name others, to cancel them or to take their place.
var scopesOfCancels = []scope{
	{name: "cancels, in memory", sorts: "pack", most: counts{requests: 3, crashes: 1, refusals: 1}, short: 5, deep: 8, states: 3300, shows: "taken away, repeated"},
	{name: "cancels, after a delivery", sorts: "packo", before: oneDelivered, most: counts{requests: 3, crashes: 1, refusals: 1}, short: 6, deep: 9, states: 2500, shows: "late, taken away"},
	{name: "cancels, short of memory", sorts: "ack", most: counts{requests: 3, crashes: 1, shortages: 1, rereads: 1}, short: 5, deep: 8, states: 1700, shows: "read again, taken away"},
	{name: "cancels, with a store", sorts: "pack", stored: true, most: counts{requests: 3, crashes: 1, flushes: 1}, short: 5, deep: 7, states: 6400, shows: "inherited, taken away"},
	{name: "cancels, with a store that fails", sorts: "ack", stored: true, most: counts{requests: 3, crashes: 1, failures: 1, shortages: 1, rereads: 1}, short: 5, deep: 7, states: 3900, shows: "taken away"},
	{name: "cancels, followed", sorts: "pak", stored: true, followed: true, most: counts{requests: 3, crashes: 1}, short: 5, deep: 7, states: 2500, shows: "handed over, taken away"},
	{name: "replacements, in memory", sorts: "paqx", most: counts{requests: 3, crashes: 1, refusals: 1}, short: 5, deep: 7, states: 3300, shows: "taken away, repeated"},
	{name: "replacements, after a delivery", sorts: "pcqQx", before: oneDelivered, most: counts{requests: 3, crashes: 1, refusals: 1}, short: 5, deep: 8, states: 1300, shows: "late, taken away"},
	{name: "replacements, with a store", sorts: "acqQx", stored: true, most: counts{requests: 3, crashes: 1, flushes: 1}, short: 5, deep: 7, states: 10200, shows: "inherited, taken away"},
	{name: "replacements, short of memory", sorts: "acq", most: counts{requests: 3, crashes: 1, shortages: 1, rereads: 1}, short: 5, deep: 7, states: 1700, shows: "read again, taken away"},
	{name: "replacements, followed", sorts: "acqQ", stored: true, followed: true, most: counts{requests: 3, crashes: 1}, short: 5, deep: 7, states: 4300, shows: "handed over, taken away"},
}

// What is accepted is audited once, before O passes it.
var scopesOfAudit = []scope{
	{name: "audit, in memory", sorts: "pan", audit: true, most: counts{requests: 3, crashes: 1, refusals: 1}, short: 5, deep: 8, states: 2100, shows: "late, repeated, repeated in parts, accepted"},
	{name: "audit, with a store", sorts: "pac", audit: true, stored: true, before: oneDelivered, most: counts{requests: 3, crashes: 1, flushes: 1}, short: 5, deep: 7, states: 2200, shows: "accepted, taken away"},
	{name: "audit, cancels and replacements", sorts: "ackqQ", audit: true, most: counts{requests: 3, crashes: 1, refusals: 1}, short: 5, deep: 7, states: 5400, shows: "accepted, taken away, repeated"},
	{name: "audit, short of memory", sorts: "ak", audit: true, most: counts{requests: 3, crashes: 1, shortages: 1, rereads: 1}, short: 5, deep: 7, states: 750, shows: "read again, accepted, taken away"},
	{name: "audit, followed", sorts: "pak", audit: true, stored: true, followed: true, most: counts{requests: 3, crashes: 1}, short: 5, deep: 7, states: 2450, shows: "handed over, accepted"},
}

// Records that are carried: a copy takes the place of its record, while that is delivered, cancelled or replaced, and the log below is cut.
var scopesOfCopies = []scope{
	{name: "copies, in memory", sorts: "a", most: counts{requests: 2, crashes: 1, refusals: 1, carries: 2, cuts: 1}, short: 7, deep: 10, states: 100, shows: "carried, cut, repeated"},
	{name: "copies, cancels", sorts: "ak", most: counts{requests: 2, crashes: 1, carries: 2, cuts: 1}, short: 7, deep: 10, states: 100, shows: "carried, cut, taken away, stale"},
	{name: "copies, cancels, short of memory", sorts: "ak", most: counts{requests: 2, crashes: 1, shortages: 1, rereads: 1, carries: 1, cuts: 1}, short: 7, deep: 10, states: 100, shows: "carried, read again, taken away"},
	{name: "copies, cancels, with a store", sorts: "ak", stored: true, most: counts{requests: 2, crashes: 1, flushes: 1, carries: 2, cuts: 1}, short: 5, deep: 9, states: 100, shows: "carried"},
	{name: "copies, cancels, with a store that fails", sorts: "ak", stored: true, most: counts{requests: 2, crashes: 1, failures: 1, shortages: 1, rereads: 1, carries: 2}, short: 5, deep: 9, states: 100, shows: "carried"},
	{name: "copies, cancels, followed", sorts: "ak", stored: true, followed: true, most: counts{requests: 2, crashes: 1, carries: 1, cuts: 1}, short: 5, deep: 9, states: 100, shows: "carried"},
	{name: "copies, replacements", sorts: "aq", stored: true, most: counts{requests: 2, crashes: 1, carries: 2, cuts: 1}, short: 5, deep: 9, states: 100, shows: "carried"},
	{name: "copies, ids", sorts: "iC", stored: true, most: counts{requests: 3, crashes: 1, carries: 2, cuts: 1}, short: 5, deep: 8, states: 100, shows: "carried"},
	{name: "copies, ids that replace", onDuplicate: topics.DuplicateReplaces, sorts: "i", stored: true, most: counts{requests: 2, crashes: 1, carries: 2, cuts: 1}, short: 5, deep: 9, states: 100, shows: "carried"},
	{name: "copies, stubs", remember: remembered, sorts: "iC", most: counts{requests: 2, crashes: 1, carries: 2, cuts: 1, deads: 1}, short: 7, deep: 9, states: 100, shows: "carried, remembered"},
	{name: "copies, stubs, with a store", remember: remembered, sorts: "iC", stored: true, most: counts{requests: 2, crashes: 1, carries: 1, cuts: 1, deads: 1}, short: 5, deep: 9, states: 100, shows: "carried, remembered"},
	{name: "copies, what they are made of is lost", sorts: "a", most: counts{requests: 2, crashes: 2, carries: 2, losses: 1}, short: 7, deep: 10, states: 100, shows: "carried, lost"},
	{name: "copies, what they are made of is lost, with a store", sorts: "a", stored: true, most: counts{requests: 2, crashes: 2, carries: 2, losses: 1}, short: 5, deep: 9, states: 100, shows: "carried"},
	{name: "copies, cancelled on the way", sorts: "ak", before: cancelledOnTheWay, most: counts{crashes: 1, carries: 1, cuts: 1}, short: 11, deep: 12, states: 30, shows: "cut, stale"},
	{name: "copies, cancelled on the way, with a store", sorts: "ak", stored: true, before: cancelledOnTheWay, most: counts{crashes: 2, carries: 1, cuts: 1, flushes: 1}, short: 8, deep: 11, states: 30, shows: "stale"},
	{name: "copies, cancelled first", sorts: "ak", before: cancelledFirst, most: counts{crashes: 2, carries: 1, cuts: 1}, short: 9, deep: 11, states: 20, shows: "cut, stale"},
	{name: "copies, cancelled on the way by id", sorts: "iC", stored: true, before: cancelledOnTheWay, most: counts{crashes: 2, carries: 1, cuts: 1}, short: 8, deep: 11, states: 20, shows: "stale"},
	{name: "copies, cancelled on the way, short of memory", sorts: "ak", before: cancelledOnTheWay, most: counts{crashes: 1, carries: 1, cuts: 1, shortages: 1, rereads: 1}, short: 9, deep: 11, states: 20, shows: "read again"},
	{name: "copies, replaced on the way", sorts: "aq", stored: true, before: cancelledOnTheWay, most: counts{crashes: 2, carries: 1, cuts: 1}, short: 8, deep: 10, states: 20, shows: "stale"},
	{name: "copies, cancelled on the way, followed", sorts: "ak", stored: true, followed: true, before: cancelledOnTheWay, most: counts{crashes: 1, carries: 1, cuts: 1}, short: 8, deep: 10, states: 20, shows: "stale"},
	{name: "copies, what they are made of is lost, cancels", sorts: "ak", most: counts{requests: 2, crashes: 2, carries: 2, losses: 1}, short: 7, deep: 10, states: 100, shows: "carried, lost, taken away"},
	{name: "copies, cancelled on the way, what they are made of is lost", sorts: "ak", before: cancelledOnTheWay, most: counts{crashes: 2, carries: 1, losses: 1}, short: 9, deep: 11, states: 20, shows: "lost, stale"},
	{name: "copies, cancelled on the way by id, what they are made of is lost", sorts: "iC", stored: true, before: cancelledOnTheWay, most: counts{crashes: 2, carries: 1, losses: 1}, short: 8, deep: 11, states: 20, shows: "lost, stale"},
	{name: "copies, replaced on the way, what they are made of is lost", sorts: "aq", before: cancelledOnTheWay, most: counts{crashes: 2, carries: 1, losses: 1}, short: 9, deep: 11, states: 20, shows: "lost, stale"},
	{name: "copies, what they are made of is lost, followed", sorts: "ak", stored: true, followed: true, most: counts{requests: 2, crashes: 2, carries: 2, losses: 1}, short: 6, deep: 9, states: 100, shows: "carried"},
	{name: "copies, reset", sorts: "a", most: counts{requests: 2, crashes: 1, carries: 2, resets: 1}, short: 7, deep: 10, states: 100, shows: "carried, reset"},
	{name: "copies, reset, cut", sorts: "a", most: counts{requests: 2, crashes: 1, carries: 2, resets: 1, cuts: 1, losses: 1}, short: 7, deep: 10, states: 100, shows: "carried, reset"},
	{name: "copies, reset, cancels", sorts: "ak", most: counts{requests: 2, crashes: 1, carries: 1, resets: 1}, short: 7, deep: 10, states: 100, shows: "carried, reset"},
	{name: "copies, reset, with a store", sorts: "ak", stored: true, most: counts{requests: 2, crashes: 1, carries: 2, resets: 1}, short: 6, deep: 9, states: 100, shows: "carried, reset"},
	{name: "copies, reset, ids", sorts: "iC", most: counts{requests: 2, crashes: 1, carries: 1, resets: 1}, short: 7, deep: 9, states: 100, shows: "carried, reset"},
	{name: "copies, cancelled on the way, reset", sorts: "ak", before: cancelledOnTheWay, most: counts{crashes: 1, carries: 1, resets: 1}, short: 8, deep: 11, states: 20, shows: "reset"},
	{name: "copies, late ones", sorts: "pa", before: oneDelivered, most: counts{requests: 2, crashes: 1, carries: 2, cuts: 1}, short: 6, deep: 9, states: 100, shows: "carried, late"},
}

// L is above where the store resumes, since what only memory held was carried, or above what the store holds and was carried.
var scopesBelow = []scope{
	{name: "carried", sorts: "ac", stored: true, before: resumesBelow, most: counts{requests: 2, crashes: 2, carries: 1, cuts: 1, flushes: 1}, short: 4, deep: 6, states: 100, shows: "resumes below, holds what was carried"},
	{name: "carried, ids", sorts: "iC", stored: true, before: resumesBelow, most: counts{requests: 2, crashes: 2, carries: 1, flushes: 1}, short: 4, deep: 6, states: 100, shows: "resumes below, holds what was carried"},
	{name: "carried, ids that replace", onDuplicate: topics.DuplicateReplaces, sorts: "iR", stored: true, before: resumesBelow, most: counts{requests: 2, crashes: 2, carries: 1, flushes: 1}, short: 4, deep: 6, states: 100, shows: "resumes below, holds what was carried"},
	{name: "carried, stubs", remember: remembered, sorts: "iC", stored: true, before: resumesBelow, most: counts{requests: 2, crashes: 2, carries: 1, deads: 1, flushes: 1}, short: 4, deep: 6, states: 100, shows: "resumes below, holds what was carried"},
	{name: "carried, with a store that fails", sorts: "ac", stored: true, before: resumesBelow, most: counts{requests: 1, crashes: 2, failures: 1, shortages: 1, rereads: 1, carries: 1}, short: 4, deep: 6, states: 100, shows: "resumes below"},
	{name: "carried, lost", sorts: "a", stored: true, before: resumesBelow, most: counts{requests: 1, crashes: 2, carries: 2, losses: 1}, short: 4, deep: 6, states: 60, shows: "resumes below"},
	{name: "carried, followed", sorts: "ac", stored: true, followed: true, before: followedBelow, most: counts{requests: 2, crashes: 2, carries: 1}, short: 4, deep: 6, states: 100, shows: "resumes below"},
	{name: "carried since", sorts: "ac", stored: true, before: carriedSince, most: counts{requests: 2, crashes: 2, carries: 1, cuts: 1, flushes: 1}, short: 4, deep: 6, states: 100, shows: "holds what was carried"},
	{name: "carried since, ids", sorts: "iC", stored: true, before: carriedSince, most: counts{requests: 2, crashes: 2, carries: 1, flushes: 1}, short: 4, deep: 6, states: 100, shows: "holds what was carried"},
	{name: "carried since, stubs", remember: remembered, sorts: "iC", stored: true, before: carriedSince, most: counts{requests: 2, crashes: 2, carries: 1, deads: 1, flushes: 1}, short: 4, deep: 6, states: 100, shows: "holds what was carried"},
	{name: "carried since, lost", sorts: "a", stored: true, before: carriedSince, most: counts{requests: 1, crashes: 2, carries: 2, losses: 1}, short: 4, deep: 6, states: 60, shows: "holds what was carried"},
}

// Records for two targets, of which more is due than fits into a part: those of one overtake those of the other.
var scopesOfTargets = []scope{
	{name: "targets, in memory", fair: true, sorts: "be", before: severalDue, most: counts{requests: 5, crashes: 1, refusals: 1}, short: 5, deep: 9, states: 100, shows: "overtakes, taken beside, repeated, repeated in parts"},
	{name: "targets, late ones", fair: true, sorts: "pal", before: oneDelivered, most: counts{requests: 5, crashes: 1, refusals: 1}, short: 6, deep: 9, states: 100, shows: "overtakes, late, repeated, repeated in parts"},
	{name: "targets, clock", fair: true, sorts: "be", before: severalDue, most: counts{requests: 5, crashes: 1, setbacks: 1, shortages: 1, rereads: 1}, short: 5, deep: 8, states: 1000, shows: "overtakes, taken beside, read again"},
	{name: "targets, cancels", fair: true, sorts: "bck", before: severalDue, most: counts{requests: 5, crashes: 1, refusals: 1}, short: 5, deep: 8, states: 100, shows: "overtakes, taken away, repeated"},
	{name: "targets, replacements", fair: true, sorts: "bqQ", before: severalDue, most: counts{requests: 5, crashes: 1}, short: 5, deep: 8, states: 100, shows: "overtakes, taken away"},
	{name: "targets, with a store", fair: true, sorts: "be", stored: true, before: severalLoaded, most: counts{requests: 5, crashes: 1, refusals: 1, flushes: 1}, short: 4, deep: 7, states: 100, shows: "overtakes, taken beside, inherited, repeated"},
	{name: "targets, with a store, twice", fair: true, sorts: "b", stored: true, before: severalLoaded, most: counts{requests: 4, crashes: 2, flushes: 1}, short: 5, deep: 8, states: 100, shows: "overtakes, inherited"},
	{name: "targets, with a store, cancels", fair: true, sorts: "bc", stored: true, before: severalLoaded, most: counts{requests: 5, crashes: 1, shortages: 1, flushes: 1}, short: 4, deep: 7, states: 100, shows: "overtakes, inherited, taken away"},
	{name: "targets, with a store that fails", fair: true, sorts: "b", stored: true, before: severalLoaded, most: counts{requests: 4, crashes: 1, failures: 1, shortages: 1, rereads: 1}, short: 4, deep: 7, states: 100, shows: "overtakes, inherited, read again"},
	{name: "targets, followed", fair: true, sorts: "be", stored: true, followed: true, before: severalLoaded, most: counts{requests: 4, crashes: 1}, short: 5, deep: 8, states: 100, shows: "overtakes, handed over"},
	{name: "targets, ids", fair: true, sorts: "BC", stored: true, before: severalLoaded, most: counts{requests: 5, crashes: 1, flushes: 1}, short: 4, deep: 7, states: 100, shows: "overtakes, inherited, taken away, duplicate"},
	{name: "targets, ids that replace", fair: true, onDuplicate: topics.DuplicateReplaces, sorts: "BR", before: severalDue, most: counts{requests: 5, crashes: 1, refusals: 1}, short: 4, deep: 7, states: 100, shows: "overtakes, taken away"},
	{name: "targets, stubs", fair: true, remember: remembered, sorts: "bBC", stored: true, before: severalLoaded, most: counts{requests: 5, crashes: 1, deads: 1}, short: 4, deep: 7, states: 100, shows: "overtakes, remembered"},
	{name: "targets, copies", fair: true, sorts: "b", before: severalDue, most: counts{requests: 3, crashes: 1, carries: 2, cuts: 1}, short: 6, deep: 10, states: 100, shows: "overtakes, carried, cut"},
	{name: "targets, copies, with a store", fair: true, sorts: "bk", stored: true, before: severalLoaded, most: counts{requests: 4, crashes: 1, flushes: 1, carries: 1, cuts: 1}, short: 5, deep: 8, states: 100, shows: "overtakes, carried"},
	{name: "targets, audit", fair: true, audit: true, sorts: "be", before: severalDue, most: counts{requests: 5, crashes: 1, refusals: 1}, short: 5, deep: 8, states: 100, shows: "overtakes, accepted"},
	{name: "targets, early", fair: true, tight: true, sorts: "be", stored: true, before: severalEarly, most: counts{requests: 6, crashes: 1, refusals: 1, flushes: 1}, short: 3, deep: 6, states: 30, shows: "early, inherited, repeated"},
	{name: "targets, early, spilled", fair: true, tight: true, sorts: "b", stored: true, before: severalEarly, most: counts{requests: 6, crashes: 1, setbacks: 1, shortages: 2}, short: 4, deep: 6, states: 30, shows: "early, inherited"},
	{name: "targets, early, cancels", fair: true, tight: true, sorts: "bck", stored: true, before: severalEarly, most: counts{requests: 6, crashes: 1, shortages: 1}, short: 3, deep: 6, states: 30, shows: "early, inherited, taken away"},
	{name: "targets, early, with a store that fails", fair: true, tight: true, sorts: "be", stored: true, before: severalEarly, most: counts{requests: 5, crashes: 1, failures: 1, shortages: 1, rereads: 1}, short: 3, deep: 6, states: 30, shows: "early, inherited, read again"},
	{name: "targets, early, followed", fair: true, tight: true, sorts: "be", stored: true, followed: true, before: severalEarly, most: counts{requests: 5, crashes: 1}, short: 3, deep: 6, states: 30, shows: "early, handed over"},
	{name: "targets, early, ids", fair: true, tight: true, sorts: "BC", stored: true, before: severalEarly, most: counts{requests: 6, crashes: 1, flushes: 1}, short: 3, deep: 6, states: 30, shows: "early, inherited, taken away, duplicate"},
	{name: "targets, early, stubs", fair: true, tight: true, remember: remembered, sorts: "bBC", stored: true, before: severalEarly, most: counts{requests: 6, crashes: 1, deads: 1}, short: 3, deep: 6, states: 30, shows: "early, forgotten"},
	{name: "targets, early, copies", fair: true, tight: true, sorts: "bk", stored: true, before: severalEarly, most: counts{requests: 5, crashes: 1, flushes: 1, carries: 1, cuts: 1}, short: 3, deep: 6, states: 30, shows: "early, carried"},
}

func TestSmallScopesOfTargets(t *testing.T) { exploreAll(t, scopesOfTargets) }

func TestSmallScopesBelow(t *testing.T) { exploreAll(t, scopesBelow) }

func TestSmallScopesOfCopies(t *testing.T) { exploreAll(t, scopesOfCopies) }

func TestSmallScopesOfAudit(t *testing.T) { exploreAll(t, scopesOfAudit) }

func TestSmallScopes(t *testing.T) { exploreAll(t, scopes) }

// Records with an id, cancels and replacements that name it.
var scopesOfIDs = []scope{
	{name: "ids, in memory", sorts: "iIyC", most: counts{requests: 3, crashes: 1, refusals: 1}, short: 5, deep: 7, states: 1000, shows: "taken away, duplicate, repeated"},
	{name: "ids, after a delivery", sorts: "iyCR", before: oneDelivered, most: counts{requests: 3, crashes: 1, refusals: 1}, short: 5, deep: 8, states: 1000, shows: "late, taken away, duplicate"},
	{name: "ids, refused", sorts: "iZC", most: counts{requests: 3, crashes: 1, refusals: 1}, short: 5, deep: 7, states: 1000, shows: "taken away, duplicate"},
	{name: "ids, short of memory", sorts: "iC", most: counts{requests: 3, crashes: 1, shortages: 1, rereads: 1}, short: 5, deep: 8, states: 750, shows: "read again, taken away, duplicate"},
	{name: "ids, with a store", sorts: "iICk", stored: true, most: counts{requests: 3, crashes: 1, flushes: 1}, short: 5, deep: 7, states: 1000, shows: "inherited, taken away, duplicate"},
	{name: "ids, with a store, half of it delivered", sorts: "iIC", stored: true, before: halfNamedDelivered, most: counts{requests: 3, crashes: 1, shortages: 1, flushes: 1}, short: 5, deep: 7, states: 300, shows: "taken away, duplicate"},
	{name: "ids, with a store that fails", sorts: "iC", stored: true, most: counts{requests: 3, crashes: 1, failures: 1, shortages: 1, rereads: 1}, short: 5, deep: 8, states: 1000, shows: "read again, taken away, duplicate"},
	{name: "ids, followed", sorts: "iC", stored: true, followed: true, most: counts{requests: 3, crashes: 1}, short: 5, deep: 8, states: 1000, shows: "handed over, taken away, duplicate"},
	{name: "ids that replace, in memory", onDuplicate: topics.DuplicateReplaces, sorts: "iIyC", most: counts{requests: 3, crashes: 1, refusals: 1}, short: 5, deep: 7, states: 1000, shows: "taken away, repeated"},
	{name: "ids that replace, with a store", onDuplicate: topics.DuplicateReplaces, sorts: "iIZR", stored: true, most: counts{requests: 3, crashes: 1, flushes: 1}, short: 5, deep: 7, states: 1000, shows: "inherited, taken away"},
	{name: "ids that replace, followed", onDuplicate: topics.DuplicateReplaces, sorts: "iR", stored: true, followed: true, most: counts{requests: 3, crashes: 1}, short: 5, deep: 8, states: 1000, shows: "handed over, taken away"},
	{name: "ids that are ignored, with a store", onDuplicate: topics.DuplicateIgnored, sorts: "iIR", stored: true, most: counts{requests: 3, crashes: 1, flushes: 1}, short: 5, deep: 7, states: 1000, shows: "inherited, taken away, duplicate"},
	{name: "ids that are ignored, short of memory", onDuplicate: topics.DuplicateIgnored, sorts: "iyC", most: counts{requests: 3, crashes: 1, shortages: 1, rereads: 1}, short: 5, deep: 7, states: 1000, shows: "read again, taken away, duplicate"},
}

// Ids that are remembered when their records were delivered.
var scopesOfStubs = []scope{
	{name: "stubs, in memory", remember: remembered, sorts: "IyC", most: counts{requests: 3, crashes: 1, refusals: 1, deads: 1}, short: 5, deep: 7, states: 300, shows: "remembered, forgotten, duplicate, dead-lettered, repeated"},
	{name: "stubs, cancels", remember: remembered, sorts: "IikQ", most: counts{requests: 3, crashes: 1}, short: 5, deep: 7, states: 300, shows: "remembered, duplicate, taken away"},
	{name: "stubs, replacements", remember: remembered, sorts: "IiRZ", most: counts{requests: 3, crashes: 1}, short: 5, deep: 7, states: 300, shows: "remembered, duplicate, taken away"},
	{name: "stubs, short of memory", remember: remembered, sorts: "IC", most: counts{requests: 3, crashes: 1, shortages: 1, rereads: 1}, short: 5, deep: 7, states: 300, shows: "remembered, read again, duplicate"},
	{name: "stubs, with a store", remember: remembered, sorts: "IyC", stored: true, most: counts{requests: 3, crashes: 1, flushes: 1, deads: 1}, short: 5, deep: 7, states: 300, shows: "remembered, forgotten, duplicate, dead-lettered"},
	{name: "stubs, with a store, half of it delivered", remember: remembered, sorts: "ICk", stored: true, before: halfLeftDelivered, most: counts{requests: 5, crashes: 1, shortages: 1, flushes: 1, deads: 1}, short: 4, deep: 6, states: 100, shows: "remembered, duplicate"},
	{name: "stubs, with a store that fails", remember: remembered, sorts: "IiC", stored: true, most: counts{requests: 3, crashes: 1, failures: 1, shortages: 1, rereads: 1}, short: 5, deep: 7, states: 300, shows: "remembered, read again, duplicate"},
	{name: "stubs, followed", remember: remembered, sorts: "IiC", stored: true, followed: true, most: counts{requests: 3, crashes: 1, deads: 1}, short: 5, deep: 7, states: 300, shows: "remembered, handed over, duplicate"},
	{name: "stubs, ignored", remember: remembered, onDuplicate: topics.DuplicateIgnored, sorts: "IyC", stored: true, most: counts{requests: 3, crashes: 1, refusals: 1}, short: 5, deep: 7, states: 300, shows: "remembered, duplicate"},
}

func TestSmallScopesOfStubs(t *testing.T) { exploreAll(t, scopesOfStubs) }

func TestSmallScopesOfIDs(t *testing.T) { exploreAll(t, scopesOfIDs) }

func TestSmallScopesOfCancels(t *testing.T) { exploreAll(t, scopesOfCancels) }

func exploreAll(t *testing.T, scopes []scope) {
	for _, atLeastOnce := range []bool{false, true} {
		for _, s := range scopes {
			if s.atLeastOnce = atLeastOnce; atLeastOnce {
				s.name += ", at least once"
				s.shows += ", comes again"
			}
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.prepare(t)
				depth := s.deep
				if testing.Short() {
					depth = s.short
				}
				x := &explorer{scope: &s, t: t, visited: map[uint64]bool{}}
				x.explore(depth)
				t.Logf("%d states within %d steps, in %d lives: %v", len(x.visited), depth, x.played, s.seen)
				if len(x.visited) < s.states {
					t.Errorf("%d states are too few", len(x.visited))
				}
				for _, what := range strings.Split(s.shows, ", ") {
					if s.seen[what] == 0 {
						t.Errorf("it never shows: %s", what)
					}
				}
			})
		}
	}
}

func (s *scope) prepare(t *testing.T) {
	s.ready(t)
	t.Cleanup(s.close)
}

// ready makes a scope ready for lives.
func (s *scope) ready(t *testing.T) {
	s.usual = settings{fixed: s.fixed || s.queue, onDuplicate: s.onDuplicate, remember: s.remember, prefix: s.prefix, keyed: s.keyed}
	s.otherwise = Env{Route: mustRoute(s.routeWith(s.others)), Mark: testMark, Skew: 1000, Audit: s.audit}
	s.env = Env{Route: mustRoute(s.routeWith(s.usual)), Mark: testMark, Skew: 1000, Audit: s.audit}
	s.made, s.seen = map[requestKey]entry{}, map[string]int{}
	s.openStore(t)
}

func (s *scope) close() {
	if s.store != nil {
		s.store.Close()
	}
}

// livesAStore are so many: what the parts of those before have deleted is looked at by each scan.
const livesAStore = 24

func (s *scope) openStore(t *testing.T) {
	if !s.stored {
		return
	}
	if s.store != nil {
		must(t, s.store.Close())
	}
	var err error
	s.store, err = state.Open(state.Options{Dir: "state", FS: vfs.NewMem(), MemoryBudget: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
}

// note counts that something has happened.
func (s *scope) note(what string) { s.seen[what]++ }

// node is a state: the shortest list of steps to it, and the steps that may follow.
type node struct{ path, next []byte }

// explorer visits the states of a scope.
type explorer struct {
	*scope
	t        *testing.T
	visited  map[uint64]bool
	played   int
	inTheEnd bool // all that is left to do is being done
}

// explore visits every state within some steps.
func (x *explorer) explore(depth int) {
	root, _ := x.visit(nil)
	for level := []node{root}; depth > 0; depth-- {
		var deeper []node
		for _, n := range level {
			for _, step := range n.next {
				if d, fresh := x.visit(append(slices.Clone(n.path), step)); fresh {
					deeper = append(deeper, d)
				}
			}
		}
		level = deeper
	}
}

// visit plays a list of steps. If they lead to a state that is new, it lets everything happen that is left to do, too.
func (x *explorer) visit(path []byte) (n node, fresh bool) {
	defer x.tell(path)
	v := x.play(path)
	if v.nothing {
		return n, false
	}
	v.check()
	id := v.fingerprint()
	if x.visited[id] {
		return n, false
	}
	x.visited[id] = true
	n = node{path: path, next: v.mayFollow()}
	x.inTheEnd = true
	v.drain()
	x.inTheEnd = false
	return n, true
}

// play plays a list of steps, from the beginning.
func (x *explorer) play(path []byte) *life {
	if x.played++; x.played%livesAStore == 0 {
		x.openStore(x.t)
	}
	v := x.begin()
	for _, n := range path {
		v.nothing = false
		steps[n].do(v)
	}
	return v
}

// tell fails the test for a fault, or for a panic of the partition, with the steps that have led to it.
func (x *explorer) tell(path []byte) {
	why := recover()
	if why == nil {
		return
	}
	trace := &strings.Builder{}
	for _, n := range path {
		fmt.Fprintf(trace, "\n  %s", steps[n].name)
	}
	if x.inTheEnd {
		trace.WriteString("\n  and then all that is left to do")
	}
	if _, is := why.(fault); !is {
		fmt.Fprintf(trace, "\n%s", debug.Stack())
	}
	x.t.Fatalf("%v%s", why, trace)
}

// mayFollow are the steps that may come next.
func (v *life) mayFollow() (out []byte) {
	for i := range steps {
		if steps[i].may(v) {
			out = append(out, byte(i))
		}
	}
	return out
}
