package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
)

// Store is the store of the process, and whether it is there. Every goroutine may use it.
type Store struct {
	// Set once.
	Options  state.Options
	Now      func() time.Time // defaults to time.Now, by which rests are counted; tests step it
	identity string
	assigned *picture.Set
	log      *slog.Logger
	wake     wait.Wake // asked when the store has failed, or is to be on the disk soon

	trouble atomic.Pointer[trouble]     // nil: the store works
	opened  atomic.Pointer[state.Store] // the same store, for goroutines that only look; nil while it does not work
	soon    atomic.Bool                 // it is to be on the disk, however little that is behind
	flushes flushing

	mu       sync.Mutex // held while the store is being opened, which may take long; where what is assigned is locked too, that comes first
	store    *state.Store
	tried    time.Time     // when it was tried to open it, or when it failed
	pause    time.Duration // until the next try
	mended   time.Time     // when it began to work again
	relapses int           // failures that followed soon upon that
}

// trouble is why there is no store, and what a person can do.
type trouble struct {
	err  error
	what string // in a few words
	todo string
}

func (t *trouble) String() string {
	return fmt.Sprintf("%s (%v): %s", t.what, t.err, t.todo)
}

// ErrLogTruncated means that a delay topic has lost records that were pending: a store may have the only copy.
var ErrLogTruncated = errors.New("local: the delay topic has lost pending records")

// ErrNoStore is the answer to what asks for the store while it does not work.
var ErrNoStore = errors.New("local: the local store cannot be used")

const (
	// probeFirst and probeLast bound how long the disk is left alone between two looks at it.
	probeFirst = 10 * time.Second
	probeLast  = 30 * time.Second
	// relapseWithin: a store that fails again this soon is tried again later each time, up to
	// RelapseLast, because each time partitions are read again.
	relapseWithin = 2 * time.Minute
	RelapseLast   = 10 * time.Minute
)

// New makes the store of a process that works for a group of that identity; assigned is what its lanes have. It opens nothing.
func New(o state.Options, identity string, assigned *picture.Set) *Store {
	return &Store{Options: o, Now: time.Now, identity: identity, assigned: assigned, log: o.Logger, wake: wait.NewWake()}
}

// Open opens the store when the process starts. The error is a mistake of a person, who
// should hear of it at once; with anything else the process goes on without a store.
func (s *Store) Open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	store, err := state.Open(s.Options)
	switch {
	case err == nil:
		s.store = store
		s.opened.Store(store)
		return nil
	case errors.Is(err, state.ErrLocked), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		return err
	}
	s.tried, s.pause = s.Now(), probeFirst
	s.lost(err)
	return nil
}

// Partition opens a partition's part of the store. While the store does not work the error is
// ErrNoStore; a store that has only just failed is opened again first.
func (s *Store) Partition(id state.PartitionID) (*state.Partition, error) {
	if err := s.Try(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoStore, err)
	}
	p, err := s.store.Partition(id)
	if errors.Is(err, state.ErrFailed) {
		s.Failed(err)
		return nil, fmt.Errorf("%w: %w", ErrNoStore, err)
	}
	return p, err
}

// ID is a partition's name in the store.
func (s *Store) ID(tp kafka.TopicPartition, id kafka.TopicID) state.PartitionID {
	return state.PartitionID{Group: s.identity, Topic: tp.Topic, TopicID: id, Partition: tp.Partition}
}

// files are those that the store lies among.
func (s *Store) files() vfs.FS {
	if s.Options.FS != nil {
		return s.Options.FS
	}
	return vfs.Default
}

// Opened is the store while it works, for what only looks, or has to do with all of it; nil while it does not.
func (s *Store) Opened() *state.Store { return s.opened.Load() }

// HasRoom reports whether the store takes what is read without making its reader wait: a disk that is slow, or stands still for a while, keeps nothing
// from being delivered that is in memory.
func (s *Store) HasRoom() bool {
	store := s.opened.Load()
	return store == nil || store.HasRoom()
}

// RoomPause is how soon it is looked again whether it has.
const RoomPause = 2 * time.Millisecond

// Works reports whether partitions that go without the store can have it back.
func (s *Store) Works() bool { return s.trouble.Load() == nil }

// Why is what is wrong with the store, and what to do; empty while it works.
func (s *Store) Why() string {
	if t := s.trouble.Load(); t != nil {
		return t.String()
	}
	return ""
}

// Failed takes note that a call of the store has failed, in whichever goroutine.
func (s *Store) Failed(err error) {
	if s.trouble.Load() != nil {
		return // known; the lock may be held for long while the store is opened again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trouble.Load() != nil || s.store.Err() == nil { // known, or mended meanwhile
		return
	}
	s.pause = 0 // most are mended by opening it again
	if s.Now().Sub(s.mended) < relapseWithin {
		s.relapses++
		s.pause = min(probeFirst<<min(s.relapses, 10), RelapseLast)
	} else {
		s.relapses = 0
	}
	s.tried = s.Now()
	s.lost(err)
}

// lost says that there is no store from now on. mu is held.
func (s *Store) lost(err error) {
	t := sortTrouble(err)
	s.opened.Store(nil)
	s.trouble.Store(t)
	s.log.Error("the local store cannot be used; partitions go on with memory and the log alone until it can be", "dir", s.Options.Dir, "trouble", t.what, "todo", t.todo, "error", err)
	s.wake.Ask()
}

// sortTrouble says what an error of the store means to a person.
func sortTrouble(err error) *trouble {
	t := &trouble{err: err, what: "the disk fails", todo: "look after the disk of state.dir; the store is tried again by itself"}
	switch {
	case errors.Is(err, state.ErrNoRoom), vfs.IsNoSpaceError(err), errors.Is(err, syscall.EDQUOT):
		t.what, t.todo = "the disk is full", "make room on the disk of state.dir; the store is used again by itself"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		t.what, t.todo = "the disk cannot be written", "make state.dir writable; the store is used again by itself"
	case errors.Is(err, state.ErrTakenAway):
		t.what, t.todo = "its directory was taken away", "nothing: it is made anew and filled from the log. Delete a state.dir only while no process uses it"
	case errors.Is(err, state.ErrLocked):
		t.what, t.todo = "another process has the directory", "give each process a state.dir of its own, or end the other one"
	case errors.Is(err, state.ErrCorrupt):
		t.what, t.todo = "the store is corrupt", "nothing: it is dropped and rebuilt from the log"
	}
	return t
}

// Try opens a store that has failed, unless that was tried a moment ago, and returns what is wrong
// with it.
func (s *Store) Try() error {
	if s.trouble.Load() == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.trouble.Load()
	if t == nil {
		return nil
	}
	if s.Now().Sub(s.tried) < s.pause {
		return t.err
	}
	err := s.mend()
	s.tried, s.pause = s.Now(), min(max(2*s.pause, probeFirst), max(probeLast, s.pause))
	if err != nil {
		s.log.Debug("the local store still cannot be used", "error", err)
		s.trouble.Store(sortTrouble(err))
		return err
	}
	s.mended = s.Now()
	s.log.Info("the local store works again; partitions take it up one after the other", "dir", s.Options.Dir)
	s.opened.Store(s.store)
	s.trouble.Store(nil)
	return nil
}

// mend opens the store and finds out whether it is of use. mu is held.
func (s *Store) mend() (err error) {
	if s.store == nil {
		store, err := state.Open(s.Options)
		if err != nil {
			return err
		}
		s.store = store
	} else if err := s.store.Reopen(); err != nil {
		return err
	}
	return s.store.Try()
}

const (
	// FlushEvery is how often it is looked how far the store on the disk is behind.
	FlushEvery = 10 * time.Second
	// flushBehind is by how many offsets it may be: so many are read again in a fifth of a second. A flush leaves a table that is merged with
	// others, whatever is in it, so it should not be seldom worth its while.
	flushBehind = 100_000
)

// Run looks after the store until ctx ends: one that has failed is opened again, and one that works keeps up with the logs.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(FlushEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.wake:
		case <-tick.C:
			s.keepUp()
			continue
		case <-ctx.Done():
			return
		}
		for s.Try() != nil {
			if !wait.For(ctx, s.untilNext()) {
				return
			}
		}
		if s.soon.Load() {
			s.keepUp()
		}
	}
}

// keepUp flushes a store that is far behind. A memtable is flushed when it is full, and where little is due beyond the near window that is after hours:
// all that the log has got in them would be read again after a kill.
func (s *Store) keepUp() {
	store := s.opened.Load()
	if store != nil && (s.soon.Swap(false) || store.Unflushed() >= flushBehind) {
		s.flush(store)
	}
}

// Bear has the store be on the disk soon, however little is behind, or at once, if something waits for that. It returns the flush that does it.
func (s *Store) Bear(awaited bool) (flush int64) {
	flush = s.flushes.next()
	s.soon.Store(true)
	if awaited {
		s.wake.Ask()
	}
	return flush
}

// Flushed reports whether a flush that Bear has told of is done, or a later one.
func (s *Store) Flushed(flush int64) bool { return s.flushes.has(flush) }

// Flush brings the store to the disk, if it works.
func (s *Store) Flush() {
	if store := s.opened.Load(); store != nil {
		s.flush(store)
	}
}

func (s *Store) flush(store *state.Store) {
	if err := s.flushes.run(store.Flush); errors.Is(err, state.ErrFailed) {
		s.Failed(err)
	}
}

func (s *Store) untilNext() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.pause-s.Now().Sub(s.tried), time.Millisecond)
}

// Close flushes and closes the store. That it cannot be is no failure of the process: what it
// loses is in the log.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened.Store(nil)
	if s.store == nil {
		return
	}
	if err := s.store.Close(); err != nil && s.trouble.Load() == nil {
		s.log.Warn("the local store was not closed as it should be; what it lacks is read from the log", "error", err)
	}
}
