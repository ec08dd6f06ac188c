package state

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// loadSlots reads part 0, and writes the layout into a database that is new.
func loadSlots(e *engine) (map[name]*slot, part, error) {
	iter, err := e.db.NewIter(nil)
	if err != nil {
		return nil, 0, err
	}
	t := table{slots: map[name]*slot{}, parts: map[part]*slot{}, next: 1}
	for iter.First(); iter.Valid() && err == nil && !(t.known && isRecord(iter.Key())); iter.Next() {
		err = t.read(iter.Key(), iter.Value())
	}
	if err = errors.Join(err, iter.Close()); err != nil {
		return nil, 0, err
	}
	if !t.known {
		err = e.db.Set(layoutKey(), []byte(layout), pebble.NoSync)
	}
	return t.slots, t.next, err
}

// isRecord tells that a key lies behind part 0.
func isRecord(key []byte) bool { return len(key) >= partLen && decodePart(key) != 0 }

// table is part 0 as it is being read, in the order of the tags.
type table struct {
	known bool // the layout was there
	slots map[name]*slot
	parts map[part]*slot
	next  part
}

func (t *table) read(key, value []byte) error {
	if string(key) == string(layoutKey()) {
		if t.known = string(value) == layout; !t.known {
			return fmt.Errorf("%w: layout %q, want %q", ErrCorrupt, value, layout)
		}
		return nil
	}
	if !t.known || len(key) != len(idKey(0)) {
		return fmt.Errorf("%w: key %x in the table of partitions", ErrCorrupt, key)
	}
	p := decodePart(key[partLen+1:])
	switch tag := key[partLen]; tag {
	case idTag:
		id, err := decodeID(value)
		if err != nil {
			return err
		}
		if p == 0 || t.slots[id.name()] != nil {
			return fmt.Errorf("%w: part %d is %v", ErrCorrupt, p, id)
		}
		sl := &slot{id: id, part: p}
		t.slots[id.name()], t.parts[p] = sl, sl
		t.next = max(t.next, p+1)
		return nil
	case positionTag:
		position, err := decodePosition(value)
		if err != nil {
			return err
		}
		sl := t.parts[p]
		if sl == nil {
			return fmt.Errorf("%w: a position of part %d, which has no name", ErrCorrupt, p)
		}
		sl.position, sl.used, sl.durable = position, true, min(position.Resume, position.Offset)
		return nil
	default:
		return fmt.Errorf("%w: tag %q in the table of partitions", ErrCorrupt, tag)
	}
}
