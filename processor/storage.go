package processor

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

	"github.com/duewheel/duewheel/processor/assignor"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
)

// storage is the store of the process, and whether it is there. A disk that is full or fails takes
// the store away, never the records: partitions go on without it, with what memory holds and the
// log (pending/storeless.go), and get it back when it works again. Lanes and standbys ask it for their
// parts and tell it of failures; one goroutine looks now and then whether the disk has recovered.
type storage struct {
	// Set once.
	options state.Options
	log     *slog.Logger
	wake    wait.Wake // asked when the store has failed, or is to be on the disk soon

	trouble atomic.Pointer[storeTrouble] // nil: the store works
	opened  atomic.Pointer[state.Store]  // the same store, for goroutines that only look; nil while it does not work
	soon    atomic.Bool                  // it is to be on the disk, however little that is behind
	flushes flushing

	mu       sync.Mutex // held while the store is being opened, which may take long
	store    *state.Store
	tried    time.Time     // when it was tried to open it, or when it failed
	pause    time.Duration // until the next try
	mended   time.Time     // when it began to work again
	relapses int           // failures that followed soon upon that
}

// storeTrouble is why there is no store, and what a person can do.
type storeTrouble struct {
	err  error
	what string // in a few words
	todo string
}

func (t *storeTrouble) String() string {
	return fmt.Sprintf("%s (%v): %s", t.what, t.err, t.todo)
}

// errNoStore is what a lane gets that asks for the store while it does not work.
var errNoStore = errors.New("processor: the local store cannot be used")

const (
	// probeFirst and probeLast bound how long the disk is left alone between two looks at it.
	probeFirst = 10 * time.Second
	probeLast  = 30 * time.Second
	// relapseWithin: a store that fails again this soon is tried again later each time, up to
	// relapseLast, because each time partitions are read again.
	relapseWithin = 2 * time.Minute
	relapseLast   = 10 * time.Minute
)

func newStorage(o state.Options) *storage {
	return &storage{options: o, log: o.Logger, wake: wait.NewWake()}
}

// open opens the store when the process starts. The error is a mistake of a person, who
// should hear of it at once; with anything else the process goes on without a store.
func (s *storage) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	store, err := state.Open(s.options)
	switch {
	case err == nil:
		s.store = store
		s.opened.Store(store)
		return nil
	case errors.Is(err, state.ErrLocked), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		return err
	}
	s.tried, s.pause = time.Now(), probeFirst
	s.lost(err)
	return nil
}

// Partition opens a partition's part of the store. While the store does not work the error is
// errNoStore; a store that has only just failed is opened again first.
func (s *storage) Partition(id state.PartitionID) (*state.Partition, error) {
	if err := s.try(); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoStore, err)
	}
	p, err := s.store.Partition(id)
	if errors.Is(err, state.ErrFailed) {
		s.failed(err)
		return nil, fmt.Errorf("%w: %w", errNoStore, err)
	}
	return p, err
}

// hasRoom reports whether the store takes what is read without making its reader wait: a disk that is slow, or stands still for a while, keeps nothing
// from being delivered that is in memory.
func (s *storage) hasRoom() bool {
	store := s.opened.Load()
	return store == nil || store.HasRoom()
}

// works reports whether partitions that go without the store can have it back.
func (s *storage) works() bool { return s.trouble.Load() == nil }

// why is what is wrong with the store, and what to do; empty while it works.
func (s *storage) why() string {
	if t := s.trouble.Load(); t != nil {
		return t.String()
	}
	return ""
}

// failed takes note that a call of the store has failed, in whichever goroutine.
func (s *storage) failed(err error) {
	if s.trouble.Load() != nil {
		return // known; the lock may be held for long while the store is opened again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trouble.Load() != nil || s.store.Err() == nil { // known, or mended meanwhile
		return
	}
	s.pause = 0 // most are mended by opening it again
	if time.Since(s.mended) < relapseWithin {
		s.relapses++
		s.pause = min(probeFirst<<min(s.relapses, 10), relapseLast)
	} else {
		s.relapses = 0
	}
	s.tried = time.Now()
	s.lost(err)
}

// without makes a live partition go on without the store when that is what the error asks for; the others do when they meet the failure, too.
func (s *storage) without(p *partition, err error) error {
	if err == nil || !p.live() || !errors.Is(err, state.ErrFailed) {
		return err
	}
	s.failed(err)
	p.Forgo()
	return nil
}

// lost says that there is no store from now on. mu is held.
func (s *storage) lost(err error) {
	t := sortTrouble(err)
	s.opened.Store(nil)
	s.trouble.Store(t)
	s.log.Error("the local store cannot be used; partitions go on with memory and the log alone until it can be", "dir", s.options.Dir, "trouble", t.what, "todo", t.todo, "error", err)
	s.wake.Ask()
}

// sortTrouble says what an error of the store means to a person.
func sortTrouble(err error) *storeTrouble {
	t := &storeTrouble{err: err, what: "the disk fails", todo: "look after the disk of state.dir; the store is tried again by itself"}
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

// try opens a store that has failed, unless that was tried a moment ago, and returns what is wrong
// with it.
func (s *storage) try() error {
	if s.trouble.Load() == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.trouble.Load()
	if t == nil {
		return nil
	}
	if time.Since(s.tried) < s.pause {
		return t.err
	}
	err := s.mend()
	s.tried, s.pause = time.Now(), min(max(2*s.pause, probeFirst), max(probeLast, s.pause))
	if err != nil {
		s.log.Debug("the local store still cannot be used", "error", err)
		s.trouble.Store(sortTrouble(err))
		return err
	}
	s.mended = time.Now()
	s.log.Info("the local store works again; partitions take it up one after the other", "dir", s.options.Dir)
	s.opened.Store(s.store)
	s.trouble.Store(nil)
	return nil
}

// mend opens the store and finds out whether it is of use. mu is held.
func (s *storage) mend() (err error) {
	if s.store == nil {
		store, err := state.Open(s.options)
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
	// flushEvery is how often it is looked how far the store on the disk is behind.
	flushEvery = 10 * time.Second
	// flushBehind is by how many offsets it may be: so many are read again in a fifth of a second. A flush leaves a table that is merged with
	// others, whatever is in it, so it should not be seldom worth its while.
	flushBehind = 100_000
)

// run looks after the store until ctx ends: one that has failed is opened again, and one that works keeps up with the logs.
func (s *storage) run(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
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
		for s.try() != nil {
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
func (s *storage) keepUp() {
	store := s.opened.Load()
	if store != nil && (s.soon.Swap(false) || store.Unflushed() >= flushBehind) {
		s.flush(store)
	}
}

// bear has the store be on the disk soon, however little is behind, or at once, if something waits for that. It returns the flush that does it.
func (s *storage) bear(awaited bool) (flush int64) {
	flush = s.flushes.next()
	s.soon.Store(true)
	if awaited {
		s.wake.Ask()
	}
	return flush
}

// flush brings a store to the disk.
func (s *storage) flush(store *state.Store) {
	if err := s.flushes.run(store.Flush); errors.Is(err, state.ErrFailed) {
		s.failed(err)
	}
}

func (s *storage) untilNext() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.pause-time.Since(s.tried), time.Millisecond)
}

// close flushes and closes the store. That it cannot be is no failure of the process: what it
// loses is in the log.
func (s *storage) close() {
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

// holds is up to which offset this process's store knows the partitions of the group.
func (s *shared) holds() map[assignor.Held]int64 {
	store := s.store.opened.Load()
	if store == nil {
		return nil
	}
	out := map[assignor.Held]int64{}
	for id, pos := range store.Positions() {
		if id.Group == s.cfg.Group {
			out[assignor.Held{TP: kafka.TopicPartition{Topic: id.Topic, Partition: id.Partition}, ID: id.TopicID}] = min(pos.Resume, pos.Offset)
		}
	}
	return out
}

// openUnlessOurs opens a part of the store; nil: a lane has its partition. A lane that gets it at the same time
// opens it afterwards, which ends this handle.
func (s *shared) openUnlessOurs(id state.PartitionID) (part *state.Partition, err error) {
	if !s.store.works() {
		return nil, errNoStore // what opens it again would hold up the lanes here
	}
	_, err = s.assigned.Unless(tpOf(id), func() (err error) {
		part, err = s.store.Partition(id)
		return err
	})
	return part, err
}

// removeUnlessOurs removes a part of the store. The error is errNoStore when the store does not work, and when a lane here has been given the
// partition meanwhile: then it is left alone.
func (s *shared) removeUnlessOurs(id state.PartitionID) error {
	remove := func() error {
		store := s.store.opened.Load()
		if store == nil {
			return errNoStore
		}
		return store.Remove(id)
	}
	if id.Group != s.cfg.Group { // which no lane here has
		return remove()
	}
	if done, err := s.assigned.Unless(tpOf(id), remove); done {
		return err
	}
	return errNoStore
}

func tpOf(id state.PartitionID) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: id.Topic, Partition: id.Partition}
}
