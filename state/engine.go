package state

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/duewheel/duewheel/state/internal/malloc"
)

// engine is one opened pebble database, from Open until it fails or is closed.
//
// Pebble has three habits that do not suit a cache behind a log. What it cannot go on from it hands to Logger.Fatalf,
// which is expected to end the process. A flush that fails is tried again at once and for ever. And a writer waits for
// flushes without a way out. So whatever fails marks the engine as failed: from that moment nothing on disk changes any
// more (guard.go), and the database is closed. Writers wait here, for a flush or the failure, before they enter
// pebble, where nothing makes them wait.
type engine struct {
	db  *pebble.DB
	log *slog.Logger

	memTable  uint64
	written   atomic.Int64 // bytes of all batches
	unseen    atomic.Int64 // bytes written since the memtables were last looked at
	sublevels atomic.Int32 // of L0, when they were last looked at: tables that lie one above the other
	roomAt    atomic.Int64 // written, when HasRoom last looked and there was room
	roomed    atomic.Int64 // and when that was, in ns since begun
	begun     time.Time
	deferral  deferral
	scheduler *scheduler
	room      sync.Mutex    // held by the one writer that waits for room; the others queue behind it
	progress  chan struct{} // one token when a flush or a compaction has ended
	failed    chan struct{} // closed at the first failure

	mu     sync.Mutex
	err    error // the first failure
	users  int   // calls that are inside db
	ending bool  // no more users
	idle   sync.Cond
	closed chan struct{} // closed when the database is, err2 being what that gave
	err2   error
}

// Compactions is how many compactions a store runs at once at most.
const Compactions = 2

const (
	minMemTable = 1 << 20
	maxMemTable = 64 << 20
	// mergedSublevels are so many that they are worth a compaction. The first level below is written anew with each, whatever it brings.
	mergedSublevels = 8
	// modestSublevels is how far compactions may fall behind before they give way no longer. Each sublevel makes every read slower.
	modestSublevels = 50
	// roomySublevels is how far they may before there is less room for more.
	roomySublevels = 100
	// mostSublevels is how far they may before writers wait for them.
	mostSublevels = 1000
	// roomBytes is for how many bytes a second there is room when they are one sublevel beyond roomySublevels, which is for all that comes: for a tenth of that,
	// which slows down what comes fast, at ten, for a hundredth at a hundred.
	roomBytes = 640 << 20
	// roomEvery is after how many bytes it is looked again whether there is room, at most.
	roomEvery = 1 << 20
)

// openEngine opens or creates the database. Whatever goes wrong comes back as an error, a panic on wrong bytes too.
func openEngine(o Options, lock *dirLock) (e *engine, err error) {
	e = &engine{
		log:      o.Logger,
		memTable: uint64(min(max(o.MemoryBudget/4, minMemTable), maxMemTable)),
		begun:    time.Now(),
		deferral: deferral{begun: time.Now()},
		progress: make(chan struct{}, 1),
		failed:   make(chan struct{}),
		closed:   make(chan struct{}),
	}
	e.idle.L = &e.mu
	defer func() {
		if r := recover(); r != nil {
			e, err = nil, fmt.Errorf("%w: %v", ErrCorrupt, r)
		}
	}()
	malloc.Bound()
	// Memtables are reserved within the cache, so this is the budget for both.
	cache := pebble.NewCache(o.MemoryBudget)
	defer cache.Unref()
	opts := e.options(&guard{o.FS, e, lock})
	opts.Cache, opts.Lock = cache, lock.lock
	e.scheduler = &scheduler{CompactionScheduler: opts.Experimental.CompactionScheduler, behind: e.behind, defers: e.defers}
	opts.Experimental.CompactionScheduler = e.scheduler
	db, err := pebble.Open(o.Dir, opts)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.db = db
	err = e.err
	e.mu.Unlock()
	e.look()
	e.scheduler.open()
	if err != nil {
		_ = e.close() // the first error tells more
		return nil, err
	}
	return e, nil
}

// options are those that measured best for keys of 20 bytes and values of 100 B to 1 KB that come in any order, are read
// once in rising order, and are then deleted from the low end.
func (e *engine) options(fs vfs.FS) *pebble.Options {
	o := &pebble.Options{
		FS:                          fs,
		Comparer:                    comparer,
		DisableWAL:                  true, // the log is Kafka's
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		MemTableSize:                e.memTable,
		MemTableStopWritesThreshold: 1 << 20, // never: makeRoom does it
		L0CompactionThreshold:       2 * mergedSublevels,
		L0StopWritesThreshold:       math.MaxInt32, // the same
		LBaseMaxBytes:               256 << 20,
		MaxOpenFiles:                256,
		FlushDelayDeleteRange:       5 * time.Second, // else disk space comes back only when the memtable is full
		// With one at a time, those that only drop deleted tables starve behind the others.
		CompactionConcurrencyRange: func() (int, int) { return 1, Compactions },
		Logger:                     (*engineLog)(e),
		EventListener: &pebble.EventListener{
			BackgroundError: e.fail,
			DataCorruption:  func(i pebble.DataCorruptionInfo) { e.fail(fmt.Errorf("%w: %w", ErrCorrupt, i.Details)) },
			FlushEnd:        func(pebble.FlushInfo) { e.deferral.flushed(e.written.Load()); e.ended() },
			CompactionEnd:   func(pebble.CompactionInfo) { e.ended() },
		},
	}
	o.TargetFileSizes[0] = 8 << 20 // of 12 GB there are 1,000 tables or so, and a read opens fewer of them anew
	o.Levels[0].BlockSize = 32 << 10
	o.Levels[0].FilterPolicy = bloom.FilterPolicy(10) // most ids that are looked for are new
	o.Levels[0].Compression = func() *sstable.CompressionProfile { return sstable.MinLZCompression }
	// The usual one also looks ten times a second whether more compactions may run. That costs an idle process its
	// sleep and a simulated day a second; this one looks whenever a compaction ends, and ours has it look when a flush does.
	o.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	o.Experimental.ReadSamplingMultiplier = -1 // everything is read once: compacting what was read is of no use
	return o
}

// ended takes note that a flush or a compaction has ended. The database is locked meanwhile.
func (e *engine) ended() {
	select {
	case e.progress <- struct{}{}:
	default:
	}
	go e.look()
}

// look notes how far compactions have fallen behind, unless the engine has failed.
func (e *engine) look() {
	if e.enter() == nil {
		defer e.leave()
		e.measure()
	}
}

// measure tells what memtables there are, in bytes, and notes how far compactions have fallen behind.
func (e *engine) measure() (tables uint64) {
	m := e.db.Metrics()
	e.sublevels.Store(m.Levels[0].Sublevels)
	return m.MemTable.Size
}

// behind reports whether compactions have fallen so far behind that they are to give way no longer: where more comes, or they have fallen behind very far.
func (e *engine) behind() bool {
	n := e.sublevels.Load()
	return n > 2*mostDeferred || n > modestSublevels && e.deferral.muchNow(e.memTable)
}

// defers reports whether compactions are to wait.
func (e *engine) defers() bool { return e.deferral.is.Load() && e.sublevels.Load() < mostDeferred }

// enterToRead is enter for what reads.
func (e *engine) enterToRead() error {
	err := e.enter()
	if err == nil && e.deferral.reads() {
		go e.scheduler.poke()
	}
	return err
}

// fail marks the engine as failed. What is in memtables is lost, and the database on disk is what it was after some
// batch. Pebble calls this with its own locks held.
func (e *engine) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return
	}
	if pebble.IsCorruptionError(err) && !errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	e.err = fmt.Errorf("%w: %w", ErrFailed, err)
	close(e.failed)
	if e.db != nil && !e.ending {
		e.log.Warn("store failed", "error", err)
		e.ending = true
		go e.end() // else pebble would try its flush again and again
	}
}

// failure is why the engine failed, nil while it works.
func (e *engine) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// enter must succeed before db is used, and leave follows it.
func (e *engine) enter() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.err != nil:
		return e.err
	case e.ending, e.db == nil: // it is still opened
		return ErrClosed
	}
	e.users++
	return nil
}

func (e *engine) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users--; e.users == 0 {
		e.idle.Broadcast()
	}
}

// end closes the database when the last user has left.
func (e *engine) end() {
	e.mu.Lock()
	for e.users > 0 {
		e.idle.Wait()
	}
	e.mu.Unlock()
	e.err2 = e.db.Close()
	close(e.closed)
}

// close ends the engine and waits until the database is closed, here or by another goroutine.
func (e *engine) close() error {
	e.mu.Lock()
	first := !e.ending
	e.ending = true
	e.mu.Unlock()
	if first {
		e.end()
	}
	<-e.closed
	return e.err2
}

// flush makes everything that was written durable.
func (e *engine) flush() error {
	done, err := e.db.AsyncFlush()
	if err != nil {
		e.fail(err)
		return e.failure()
	}
	select {
	case <-done:
		return e.failure() // it may only seem done
	case <-e.failed:
		return e.failure()
	}
}

// apply writes a batch. It returns when readers see it; it is durable with the next flush.
func (e *engine) apply(b *pebble.Batch) error {
	e.unseen.Add(int64(b.Len()))
	e.written.Add(int64(b.Len()))
	if err := e.db.Apply(b, pebble.NoSync); err != nil {
		e.fail(err)
	}
	return e.failure()
}

const (
	// roomyTables are so many memtables, the one that is written included, that there is room for more.
	roomyTables = 2
	// mostTables are so many that writers wait until one is flushed.
	mostTables = 3
)

// keepsUp reports whether flushes and compactions keep up: there are not more than some memtables, and not too many sublevels.
func (e *engine) keepsUp(tables uint64) bool {
	return e.measure() <= tables*e.memTable+e.memTable/2 && e.sublevels.Load() < mostSublevels
}

// makeRoom waits while flushes or compactions are too far behind.
func (e *engine) makeRoom() error {
	if e.unseen.Load() < int64(e.memTable/8) {
		return nil
	}
	e.room.Lock()
	defer e.room.Unlock()
	for {
		seen := e.unseen.Load()
		if e.keepsUp(mostTables) {
			e.unseen.Add(-seen)
			return nil
		}
		select {
		case <-e.progress:
		case <-e.failed:
			return e.failure()
		}
	}
}

// hasRoom looks again when some was written. Where compactions have fallen behind it is room for so much a second, the less the farther they have: what reads
// goes on in small steps, since in all that it reads there may be something that is due soon.
func (e *engine) hasRoom() bool {
	written := e.written.Load()
	since := written - e.roomAt.Load()
	if since < min(int64(e.memTable/8), roomEvery) {
		return true
	}
	if e.enter() != nil {
		return true
	}
	defer e.leave()
	if !e.keepsUp(roomyTables) {
		return false
	}
	roomy := int64(roomySublevels)
	if e.deferral.is.Load() {
		roomy = mostDeferred
	}
	now := time.Since(e.begun)
	if over := int64(e.sublevels.Load()) - roomy; over > 0 && (now-time.Duration(e.roomed.Load())).Seconds() < float64(since*over)/roomBytes {
		return false
	}
	e.roomAt.Store(written)
	e.roomed.Store(int64(now))
	return true
}

// engineLog passes pebble's words on.
type engineLog engine

func (l *engineLog) Infof(format string, args ...any)  { l.log.Debug(fmt.Sprintf(format, args...)) }
func (l *engineLog) Errorf(format string, args ...any) { l.log.Warn(fmt.Sprintf(format, args...)) }

// Fatalf returns, which pebble does not expect. What it is called for, a failed manifest above all, does not get as far
// (guard.go); what is left are a table that is not there and broken promises of pebble to itself.
func (l *engineLog) Fatalf(format string, args ...any) {
	(*engine)(l).fail(fmt.Errorf(format, args...))
}
