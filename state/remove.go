package state

import (
	"errors"
	"fmt"
	"slices"
)

// Remove takes a partition's part of the store away, ends its handle, and returns how much room it took on the disk, about. What
// is held of a topic of the same name and another id is left alone.
func (s *Store) Remove(id PartitionID) (bytes int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.slots[id.name()]
	if sl == nil || sl.id != id {
		return 0, nil
	}
	e := s.engine
	if err := e.enter(); err != nil {
		return 0, fmt.Errorf("remove %v: %w", id, err)
	}
	defer e.leave()
	sl.mu.Lock()
	defer sl.mu.Unlock()
	for _, p := range []part{sl.part, sl.part | countsBit, sl.part | idsBit} {
		n, _ := e.db.EstimateDiskUsage(appendPart(nil, p), appendPart(nil, p+1)) // for people to read
		bytes += int64(n)
	}
	b := e.db.NewBatch()
	defer b.Close()
	if err := errors.Join(forget(b, sl.part), b.Delete(idKey(sl.part), nil)); err != nil {
		return 0, fmt.Errorf("remove %v: %w", id, err)
	}
	if err := e.apply(b); err != nil {
		return 0, fmt.Errorf("remove %v: %w", id, err)
	}
	sl.holder = nil
	delete(s.slots, id.name())
	return bytes, nil
}

// RemoveDir removes a store that is not open, and its directory when nothing else lies in it. It returns how large the files were. While another
// process has the store the error is ErrLocked. One that opens it at the same time makes it anew: so whoever knows of such processes keeps them away.
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
