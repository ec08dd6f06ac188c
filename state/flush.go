package state

// Flush makes everything that was committed durable.
func (s *Store) Flush() error {
	s.mu.Lock()
	e := s.engine
	reached := make(map[*slot]int64, len(s.slots))
	for _, sl := range s.slots {
		reached[sl] = sl.resumes()
	}
	s.mu.Unlock()
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	if err := e.flush(); err != nil {
		return err
	}
	for sl, at := range reached {
		sl.mu.Lock()
		if min(sl.position.Resume, sl.position.Offset) >= at { // else it was dropped meanwhile
			sl.durable = at
		}
		sl.mu.Unlock()
	}
	return nil
}

// Unflushed is how many offsets of the logs would have to be read again after a crash that were passed since the last Flush, at most: what a
// memtable that was full has made durable meanwhile is in it.
func (s *Store) Unflushed() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sl := range s.slots {
		at := sl.resumes()
		sl.mu.Lock()
		n += max(at-sl.durable, 0)
		sl.mu.Unlock()
	}
	return n
}

// resumes is from where on the log is to be read, by the position.
func (sl *slot) resumes() int64 {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return min(sl.position.Resume, sl.position.Offset)
}
