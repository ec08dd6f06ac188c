package state

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// These errors can be returned when opening or using a store.
var (
	// ErrLocked: another process has the directory, or another Store of this one.
	ErrLocked = errors.New("state: the store is in use")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("state: the store is closed")
	// ErrFailed: the disk failed or gave wrong bytes. Nothing more can be read or written until Reopen, and what was
	// committed since the last flush is gone: catch up from the position that the store then shows.
	ErrFailed = errors.New("state: the store failed")
	// ErrEnded: the partition was opened again since this handle was.
	ErrEnded = errors.New("state: the partition was opened again")
	// ErrTakenAway: the directory was removed under the store, or another one is in its place.
	ErrTakenAway = errors.New("state: the directory of the store was taken away")
	// ErrNoRoom: the disk has not enough room for a store to be of use.
	ErrNoRoom = errors.New("state: not enough room on the disk")
)

// Options of a store.
type Options struct {
	// Dir holds the database, and is made when it is not there.
	Dir string
	// FS is the file system. Defaults to the operating system's.
	FS vfs.FS
	// MemoryBudget is what block cache and memtables take together. Defaults to 128 MiB. A memtable is a quarter of it, 64
	// MiB at most: smaller ones are flushed more often, and are rewritten more often by compactions.
	MemoryBudget int64
	// Logger gets pebble's words at debug level, and one line when the database is dropped or fails. Defaults to none.
	Logger *slog.Logger
}

const defaultMemoryBudget = 128 << 20

func (o Options) withDefaults() (Options, error) {
	if o.MemoryBudget == 0 {
		o.MemoryBudget = defaultMemoryBudget
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = vfs.Default
		// Locks within one process go by name.
		dir, err := filepath.Abs(o.Dir)
		if err != nil {
			return o, fmt.Errorf("open store: %w", err)
		}
		o.Dir = dir
	}
	return o, nil
}

// Store is the one database of a process, which its lanes share. It may be used from several goroutines.
type Store struct {
	options Options

	mu     sync.Mutex // taken before a slot's
	lock   dirLock
	engine *engine
	slots  map[name]*slot
	next   part // the number of the next new part
	closed bool
}

// name is a PartitionID less the topic id: what can be in the store only once.
type name struct {
	group, topic string
	partition    int32
}

func (id PartitionID) name() name { return name{id.Group, id.Topic, id.Partition} }

// slot is what the store knows of a partition, whichever handle is open.
type slot struct {
	id   PartitionID
	part part

	mu       sync.Mutex
	holder   *Partition // the handle that may write; nil when none was opened yet
	position Position
	used     bool  // position was written
	durable  int64 // from where on the log was read again after a crash, at the last Flush or since the store was opened
}

// Open opens the store in a directory, or makes it. A database that does not open is dropped and made anew, with a line in
// the log: its records are in Kafka.
func Open(o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{options: o, lock: dirLock{files: o.FS, dir: o.Dir}}
	if err := s.lock.take(); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.lock.release())
	}
	return s, nil
}

// open opens the database; when that does not succeed, a new one in its place.
func (s *Store) open() error {
	err := s.load()
	if err == nil {
		return nil
	}
	if isSurroundings(err) {
		return fmt.Errorf("open store %s: %w", s.options.Dir, err)
	}
	s.options.Logger.Warn("store dropped, to be rebuilt from the log", "dir", s.options.Dir, "error", err)
	if err := s.wipe(); err != nil {
		return fmt.Errorf("drop store %s: %w", s.options.Dir, err)
	}
	if err := s.load(); err != nil {
		return fmt.Errorf("make store %s: %w", s.options.Dir, err)
	}
	return nil
}

// isSurroundings reports an error that is not the database's own: it would open if it were let. Dropping it would mend
// nothing, and it may hold what a log has lost.
func isSurroundings(err error) bool {
	if vfs.IsNoSpaceError(err) {
		return true
	}
	for _, is := range []error{fs.ErrPermission, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// load opens the database and reads the table of its partitions.
func (s *Store) load() error {
	e, err := openEngine(s.options, &s.lock)
	if err != nil {
		return err
	}
	slots, next, err := loadSlots(e)
	if err != nil {
		_ = e.close() // the first error tells more
		return err
	}
	s.engine, s.slots, s.next = e, slots, next
	return nil
}

// own matches the names of pebble's files, so that dropping a database leaves everything else in its directory alone.
var own = regexp.MustCompile(`^(\d+\.(sst|blob|log|dbtmp)|\d+-\d+\.log|(MANIFEST|OPTIONS)-\d+|CURRENT(\..*)?|marker\..*|temporary\..*)$`)

// wipe removes the database, but for its lock.
func (s *Store) wipe() error {
	files := s.options.FS
	names, err := files.List(s.options.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if own.MatchString(name) {
			err = errors.Join(err, files.Remove(files.PathJoin(s.options.Dir, name)))
		}
	}
	return err
}

// Partition opens a partition's part of the store, and ends every earlier handle of it. What a topic of the same name and
// another id left behind is dropped.
func (s *Store) Partition(id PartitionID) (*Partition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.engine
	if err := e.enter(); err != nil {
		return nil, fmt.Errorf("open %v: %w", id, err)
	}
	defer e.leave()
	sl := s.slots[id.name()]
	if sl == nil || sl.id.TopicID != id.TopicID {
		var err error
		if sl, err = s.newSlot(id, sl); err != nil {
			return nil, fmt.Errorf("open %v: %w", id, err)
		}
	}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.holder = &Partition{engine: e, slot: sl, stale: sl.used}
	return sl.holder, nil
}

// newSlot gives a partition a part of the store, in place of an old one if there is one.
func (s *Store) newSlot(id PartitionID, old *slot) (*slot, error) {
	if s.next == countsBit-1 {
		return nil, fmt.Errorf("%w: no part numbers left", ErrCorrupt)
	}
	b := s.engine.db.NewBatch()
	defer b.Close()
	if old != nil {
		old.mu.Lock()
		defer old.mu.Unlock()
		if err := errors.Join(forget(b, old.part), b.Delete(idKey(old.part), nil)); err != nil {
			return nil, err
		}
	}
	sl := &slot{id: id, part: s.next}
	if err := b.Set(idKey(sl.part), appendID(nil, id), nil); err != nil {
		return nil, err
	}
	if err := s.engine.apply(b); err != nil {
		return nil, err
	}
	if old != nil {
		old.holder = nil
	}
	s.slots[id.name()] = sl
	s.next++
	return sl, nil
}

// forget deletes the records and the position of a part.
func forget(b *pebble.Batch, p part) error {
	return errors.Join(b.DeleteRange(appendPart(nil, p), appendPart(nil, p+1), nil), b.Delete(positionKey(p), nil),
		b.DeleteRange(appendPart(nil, p|countsBit), appendPart(nil, (p+1)|countsBit), nil),
		b.DeleteRange(appendPart(nil, p|idsBit), appendPart(nil, (p+1)|idsBit), nil))
}

// Err is why the store failed, nil while it works.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.failure()
}

// Reopen opens a store again that has failed, dropping it when it was corrupt. All handles are of no use then. It does
// nothing when the store has not failed, or has been opened again already. The directory is locked anew: it may have been
// taken away, and another process may have the one that is there now.
func (s *Store) Reopen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	cause := s.engine.failure()
	if s.closed || cause == nil {
		return nil
	}
	_ = s.engine.close() // of no interest any more
	if err := s.lock.take(); err != nil {
		return err
	}
	if errors.Is(cause, ErrCorrupt) {
		s.options.Logger.Warn("store dropped, to be rebuilt from the log", "dir", s.options.Dir, "error", cause)
		if err := s.wipe(); err != nil {
			return fmt.Errorf("drop store %s: %w", s.options.Dir, err)
		}
	}
	return s.open()
}

// Try finds out whether a store is of use: whether there is room for what it is about to write, and whether the disk
// takes something. It is for a store that was opened after a failure, which opens more easily than it works.
func (s *Store) Try() error {
	s.mu.Lock()
	e := s.engine
	s.mu.Unlock()
	need := 4 * e.memTable // two that wait for their flush, and what a compaction of them needs
	if disk, err := s.options.FS.GetDiskUsage(s.options.Dir); err == nil && disk.AvailBytes < need {
		return fmt.Errorf("%w: %d MiB are free and %d are needed", ErrNoRoom, disk.AvailBytes>>20, need>>20)
	}
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	b := e.db.NewBatch()
	defer b.Close()
	if err := b.Set(layoutKey(), []byte(layout), nil); err != nil {
		return err
	}
	if err := e.apply(b); err != nil {
		return err
	}
	return e.flush()
}

// Tenure names the lock on the directory: of two processes that have read the same name there, one had ended when the other one took the lock. It holds
// for this machine until that starts again, and not for a copy of the directory. Empty: that cannot be told.
func (s *Store) Tenure() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lock.tenure()
}

// HasRoom reports whether flushes keep up with what is written. Where they do not, little more can be written before writers wait; who can do so
// better comes back later.
func (s *Store) HasRoom() bool {
	s.mu.Lock()
	e := s.engine
	s.mu.Unlock()
	return e.hasRoom()
}

// DiskBytes is what everything in the directory takes; an error when the store has failed or is closed.
func (s *Store) DiskBytes() (int64, error) {
	s.mu.Lock()
	e := s.engine
	s.mu.Unlock()
	if err := e.enter(); err != nil {
		return 0, err
	}
	defer e.leave()
	return int64(e.db.Metrics().DiskSpaceUsage()), nil
}

// Written is what flushes and compactions have written since the store was opened, and what the keys and values were of which that was made.
func (s *Store) Written() (disk, logical int64, err error) {
	s.mu.Lock()
	e := s.engine
	s.mu.Unlock()
	if err := e.enter(); err != nil {
		return 0, 0, err
	}
	defer e.leave()
	m := e.db.Metrics()
	for i := range m.Levels { // their Total counts what a log of its own would be, too
		disk += int64(m.Levels[i].TableBytesFlushed + m.Levels[i].TableBytesCompacted)
	}
	return disk, e.written.Load(), nil
}

// Compacting reports whether compactions are at work.
func (s *Store) Compacting() (bool, error) {
	s.mu.Lock()
	e := s.engine
	s.mu.Unlock()
	if err := e.enter(); err != nil {
		return false, err
	}
	defer e.leave()
	return e.db.Metrics().Compact.NumInProgress > 0, nil
}

// Close flushes and closes the store. A store that has failed is closed as well, and its failure is the error.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if e := s.engine; e.enter() == nil {
		err = e.flush()
		e.leave()
		err = errors.Join(err, e.close())
	} else {
		err = e.failure()
		<-e.closed // what it says on the way out is of no interest any more
	}
	if err = errors.Join(err, s.lock.release()); err != nil {
		return fmt.Errorf("close store %s: %w", s.options.Dir, err)
	}
	return nil
}
