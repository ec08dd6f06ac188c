package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Ids of records lie in parts of their own, each beside the part of its partition: the same number with the highest bit set.
const (
	idsBit    = part(1) << 31
	keySuffix = keyLen - partLen
	idPrefix  = partLen + 1 // before the id; its last byte is the length of the id less one
)

// appendIDKey appends the key under which the database has that a record has an id.
func appendIDKey(dst []byte, p part, id []byte, k Key) []byte {
	dst = appendIDPrefix(dst, p, id)
	dst = binary.BigEndian.AppendUint64(dst, uint64(k.Due)^signBit)
	return binary.BigEndian.AppendUint64(dst, uint64(k.Seq)^signBit)
}

// appendIDPrefix appends what all of one id begin with.
func appendIDPrefix(dst []byte, p part, id []byte) []byte {
	dst = appendPart(dst, p|idsBit)
	dst = append(dst, byte(len(id)-1))
	return append(dst, id...)
}

// splitID is the length of what a key has in common with those that a lookup finds with it: of an id all but the record's key, else
// all of it. It belongs to the form of tables, as filters are made of it.
func splitID(key []byte) int {
	if len(key) <= idPrefix || part(binary.BigEndian.Uint32(key))&idsBit == 0 {
		return len(key)
	}
	return min(len(key), idPrefix+int(key[partLen])+1)
}

// comparer orders keys as bytes, and knows which part of a key filters are made of.
var comparer = func() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "duewheel"
	c.Split = splitID
	c.Separator = func(dst, a, b []byte) []byte { // a shorter key of one id would be of another one
		if bytes.Equal(a[:splitID(a)], b[:splitID(b)]) {
			return append(dst, a...)
		}
		return pebble.DefaultComparer.Separator(dst, a, b)
	}
	return &c
}()

// PutID adds to the open batch that a record has an id, of 1 to 256 bytes, with a note of the caller's.
func (p *Partition) PutID(id []byte, key Key, note int64) {
	p.open().putID(p.slot.part.idKey(id, key), note)
	if c, err := p.Counts(); err == nil && !c.identified {
		c.identified, p.tally.identified = true, true
	}
	p.moved += idPrefix + len(id) + keySuffix
}

func (p part) idKey(id []byte, key Key) []byte {
	return appendIDKey(make([]byte, 0, idPrefix+len(id)+keySuffix), p, id, key)
}

// DeleteID adds to the open batch that a record is not found by its id any more.
func (p *Partition) DeleteID(id []byte, key Key) {
	p.open().deleteID(p.slot.part.idKey(id, key))
}

// FindIDs calls fn for each committed record that has one of some ids: with the place of the id among them, and the note that PutID was given. What
// Trim has removed it does not find. The ids come in any order.
func (p *Partition) FindIDs(ids iter.Seq2[int, []byte], fn func(i int, key Key, note int64)) error {
	if err := p.write("find", nil, nil); err != nil {
		return err
	}
	e := p.engine
	if err := e.enterToRead(); err != nil {
		return p.wrap("find", err)
	}
	defer e.leave()
	if err := p.findIDs(ids, fn); err != nil {
		e.fail(err)
		return p.wrap("find", e.failure())
	}
	return nil
}

// sought is an id that is looked for: its place among all, and where its prefix lies among theirs.
type sought struct{ i, from, to int }

func (p *Partition) findIDs(ids iter.Seq2[int, []byte], fn func(i int, key Key, note int64)) error {
	it, err := p.engine.db.NewIter(&pebble.IterOptions{
		LowerBound: appendPart(nil, p.slot.part|idsBit),
		UpperBound: appendPart(nil, (p.slot.part+1)|idsBit),
		// A small store lies in the last level alone, and most ids that are looked for are new.
		UseL6Filters: true,
	})
	if err != nil {
		return err
	}
	var prefixes []byte
	var all []sought
	for i, id := range ids {
		from := len(prefixes)
		prefixes = appendIDPrefix(prefixes, p.slot.part, id)
		all = append(all, sought{i, from, len(prefixes)})
	}
	// In the order of the database one after the other mostly lies in the same table of each level, which is opened already.
	slices.SortFunc(all, func(a, b sought) int { return bytes.Compare(prefixes[a.from:a.to], prefixes[b.from:b.to]) })
	for _, s := range all {
		prefix := prefixes[s.from:s.to]
		for found := it.SeekPrefixGE(prefix); found; found = it.Next() {
			var value []byte
			if value, err = it.ValueAndErr(); err != nil {
				break
			}
			suffix := it.Key()[len(prefix):]
			if len(suffix) != keySuffix || len(value) != 8 {
				err = fmt.Errorf("%w: an id with %d and %d bytes behind it", ErrCorrupt, len(suffix), len(value))
				break
			}
			key := Key{int64(binary.BigEndian.Uint64(suffix) ^ signBit), int64(binary.BigEndian.Uint64(suffix[8:]) ^ signBit)}
			if p.trimmed.Less(key) {
				fn(s.i, key, int64(binary.BigEndian.Uint64(value)))
			}
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}
