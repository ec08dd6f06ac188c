package state

import (
	"encoding/binary"
	"fmt"
)

// Position goes with each batch, atomically. After a crash the store is what it was after some batch, so the position that
// it then shows belongs to exactly the records that it holds.
type Position struct {
	Resume    int64 // the smallest offset that was held only in memory: a replay from here gives what the store has not
	Offset    int64 // the checkpoint's offset at that time
	Epoch     int32 // and its epoch
	Watermark Key   // the committed watermark at that time
	LowWater  int64
	Parsers   string // which held from which offset on at that time: a ParserList
}

// OnTheWay is a position of a store that is being brought to a later checkpoint than it bears: a replay from there is as good, but what the store
// has forgotten on the way was not resolved by that checkpoint.
func (p Position) OnTheWay() Position {
	p.Parsers = ""
	return p
}

// IsCheckpoint reports whether what the store holds belongs to the checkpoint that it bears, so that an owner may go on from that without any other.
func (p Position) IsCheckpoint() bool { return p.Parsers != "" }

// Position tells what was last committed with a partition, false when that is nothing. It only reads: handles stay good.
func (s *Store) Position(id PartitionID) (pos Position, used bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.engine.enter(); err != nil {
		return pos, false, fmt.Errorf("position of %v: %w", id, err)
	}
	defer s.engine.leave()
	sl := s.slots[id.name()]
	if sl == nil || sl.id.TopicID != id.TopicID {
		return pos, false, nil
	}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.position, sl.used, nil
}

// Positions tells for each partition that the store has something of what was last committed with it.
func (s *Store) Positions() map[PartitionID]Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[PartitionID]Position, len(s.slots))
	for _, sl := range s.slots {
		sl.mu.Lock()
		if sl.used {
			out[sl.id] = sl.position
		}
		sl.mu.Unlock()
	}
	return out
}

// PartitionID names what the store keeps apart.
type PartitionID struct {
	Group     string // its identity: the name that it had first
	Topic     string
	TopicID   [16]byte
	Partition int32
}

// String is group/topic/partition, for logs and errors.
func (id PartitionID) String() string {
	return fmt.Sprintf("%s/%s/%d", id.Group, id.Topic, id.Partition)
}

// The keys of part 0: a letter, and for the last two the part that they tell about.
const (
	layoutTag   = 'a' // sorts first, and is the first that is written
	idTag       = 'i'
	positionTag = 'p'
)

// layout names the bytes of doc.go.
const layout = "duewheel 5"

func layoutKey() []byte { return append(appendPart(nil, 0), layoutTag) }

func idKey(p part) []byte { return appendPart(append(appendPart(nil, 0), idTag), p) }

func positionKey(p part) []byte { return appendPart(append(appendPart(nil, 0), positionTag), p) }

// positionLen is what comes before the parsers.
const positionLen = 5*8 + 4

func appendPosition(dst []byte, p Position) []byte {
	for _, n := range [...]int64{p.Resume, p.Offset, p.Watermark.Due, p.Watermark.Seq, p.LowWater} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.Epoch))
	return append(dst, p.Parsers...)
}

func decodePosition(b []byte) (Position, error) {
	if len(b) < positionLen {
		return Position{}, fmt.Errorf("%w: a position of %d bytes, want %d at least", ErrCorrupt, len(b), positionLen)
	}
	parsers := string(b[positionLen:])
	if _, err := ParseParserList(parsers); err != nil {
		return Position{}, fmt.Errorf("position: %w", err)
	}
	epoch := int32(binary.BigEndian.Uint32(b[5*8:]))
	n := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
	return Position{Resume: n(0), Offset: n(1), Watermark: Key{Due: n(2), Seq: n(3)}, LowWater: n(4), Epoch: epoch, Parsers: parsers}, nil
}

func appendID(dst []byte, id PartitionID) []byte {
	dst = append(dst, id.TopicID[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(id.Partition))
	dst = binary.AppendUvarint(dst, uint64(len(id.Topic)))
	dst = append(dst, id.Topic...)
	return append(dst, id.Group...)
}

func decodeID(b []byte) (PartitionID, error) {
	var id PartitionID
	fixed := len(id.TopicID) + 4
	if len(b) < fixed {
		return PartitionID{}, fmt.Errorf("%w: a partition's name of %d bytes", ErrCorrupt, len(b))
	}
	copy(id.TopicID[:], b)
	id.Partition = int32(binary.BigEndian.Uint32(b[len(id.TopicID):]))
	b = b[fixed:]
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return PartitionID{}, fmt.Errorf("%w: a partition's name ends within the topic", ErrCorrupt)
	}
	id.Topic = string(b[used : used+int(n)])
	id.Group = string(b[used+int(n):])
	return id, nil
}
