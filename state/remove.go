package state

import (
	"errors"
	"fmt"
	"slices"
)

// Size is how much room a partition's part of the store takes on the disk, in bytes, about; 0 where that cannot be told. It reads the disk.
func (s *Store) Size(id PartitionID) (bytes int64) {
	s.mu.Lock()
	sl, e := s.slots[id.name()], s.engine
	s.mu.Unlock()
	if sl == nil || sl.id != id || e.enter() != nil {
		return 0
	}
	defer e.leave()
	for _, p := range []part{sl.part, sl.part | countsBit, sl.part | idsBit} {
		n, _ := e.db.EstimateDiskUsage(appendPart(nil, p), appendPart(nil, p+1))
		bytes += int64(n)
	}
	return bytes
}

// Remove takes a partition's part of the store away, and ends its handle. What is held of a topic of the same name and another id is left alone.
func (s *Store) Remove(id PartitionID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.slots[id.name()]
	if sl == nil || sl.id != id {
		return nil
	}
	e := s.engine
	if err := e.enter(); err != nil {
		return fmt.Errorf("remove %v: %w", id, err)
	}
	defer e.leave()
	sl.mu.Lock()
	defer sl.mu.Unlock()
	b := e.db.NewBatch()
	defer b.Close()
	if err := errors.Join(forget(b, sl.part), b.Delete(idKey(sl.part), nil)); err != nil {
		return fmt.Errorf("remove %v: %w", id, err)
	}
	if err := e.apply(b); err != nil {
		return fmt.Errorf("remove %v: %w", id, err)
	}
	sl.holder = nil
	delete(s.slots, id.name())
	return nil
}

// RemoveDir removes a store that is not open, and its directory when nothing else lies in it. It returns how large the files were. While another
// process has the store the error is ErrLocked. A process that opens the store at the same time makes it anew, so the caller must keep others from
// opening it (duewheel run holds the lock of its number).
func RemoveDir(dir string) (bytes int64, err error) {
	o, err := Options{Dir: dir}.withDefaults()
	if err != nil {
		return 0, err
	}
	lock := dirLock{files: o.FS, dir: o.Dir}
	if err := lock.take(); err != nil {
		return 0, err
	}
	names, err := o.FS.List(o.Dir)
	slices.Sort(names) // the marker, by which a store is known, goes after the tables
	for _, name := range names {
		if !own.MatchString(name) {
			continue
		}
		path := o.FS.PathJoin(o.Dir, name)
		if info, err := o.FS.Stat(path); err == nil {
			bytes += info.Size()
		}
		err = errors.Join(err, o.FS.Remove(path))
	}
	if err = errors.Join(err, o.FS.Remove(lock.path()), lock.release()); err != nil {
		return bytes, fmt.Errorf("remove store %s: %w", o.Dir, err)
	}
	_ = o.FS.Remove(o.Dir) // something else lies in it, or another process has just made it its own
	return bytes, nil
}
