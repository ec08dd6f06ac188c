package state

// Metrics of the database. Sizes are bytes.
type Metrics struct {
	DiskBytes       uint64 // everything in the directory
	CacheBytes      int64  // blocks in the cache, memtables not included
	MemTableBytes   uint64
	Flushes         int64
	Compactions     int64
	CompactionDebt  uint64 // what compactions have yet to rewrite
	Sublevels       int32  // tables that a read may have to merge at the top
	WrittenBytes    uint64 // flushed
	CompactedBytes  uint64 // written again by compactions
	DeletionGarbage uint64 // deleted, but still on disk
}

// Metrics of the database; an error when the store has failed or is closed.
func (s *Store) Metrics() (Metrics, error) {
	s.mu.Lock()
	e := s.engine
	s.mu.Unlock()
	if err := e.enter(); err != nil {
		return Metrics{}, err
	}
	defer e.leave()
	m := e.db.Metrics()
	out := Metrics{
		DiskBytes:       m.DiskSpaceUsage(),
		CacheBytes:      m.BlockCache.Size,
		MemTableBytes:   m.MemTable.Size,
		Flushes:         m.Flush.Count,
		Compactions:     m.Compact.Count,
		CompactionDebt:  m.Compact.EstimatedDebt,
		Sublevels:       m.Levels[0].Sublevels,
		DeletionGarbage: m.Table.Garbage.PointDeletionsBytesEstimate + m.Table.Garbage.RangeDeletionsBytesEstimate,
	}
	for i := range m.Levels {
		out.WrittenBytes += m.Levels[i].TableBytesFlushed
		out.CompactedBytes += m.Levels[i].TableBytesCompacted
	}
	return out, nil
}
