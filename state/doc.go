// Package state holds what one partition of a delay topic must remember: the checkpoint, the far part of the pending
// records, and the counts that tell how much of the log is still needed and how much is due when.
//
// A [Checkpoint] is all that must survive. It is written as an offset commit, and its text is made and read here. A
// [Store] is a cache of records that are due far ahead, one Pebble database for all partitions of a process; a
// [Partition] is a handle on one partition's part of it. A [Ledger] counts pending records by their place in the log and by
// stretch of due time. Less formally: the checkpoint says where the log must be read from, the store spares reading most
// of it, and the ledger says what the next checkpoint is.
//
// # Use
//
//	s, err := state.Open(state.Options{Dir: dir, MemoryBudget: 128 << 20})
//	p, err := s.Partition(state.PartitionID{Group: group, Topic: topic, TopicID: id, Partition: 3})
//	pos, ok := p.Position()               // what it holds, if it holds anything
//	err = p.Put(key, value)               // as often as needed, and then
//	err = p.Commit(position)              // all of it together with the position
//	err = p.Scan(watermark, func(k state.Key, value []byte) bool { ... })
//	err = p.Trim(watermark)               // after the delivery was committed in Kafka
//
// # Who owns what
//
// Key and Checkpoint are values. A Ledger and a Partition belong to the goroutine that owns the partition, and have no
// lock. A Store may be used from anywhere. Opening a partition ends every earlier handle of it: a write through an ended
// handle is refused, and that is decided under the lock under which the write happens, so a lane that lost a partition
// cannot write into what the next lane has read.
//
// No answer about a record depends on the clock. It tells only how much comes at a time: whether there is room for more
// (engine.go), and whether compactions wait (deferral.go).
//
// # What is durable when
//
// The database has no write-ahead log, since Kafka is that. Commit returns when readers of this process see the batch.
// On disk it is after the next flush, of which there is one whenever a memtable is full, by Flush, and by Close. After
// a crash or a power loss the store is what it was after some batch, whole, and the position that it shows is that
// batch's: it may lag behind the checkpoint in Kafka (Unflushed says by how much at most), and never leads it as long as Commit and Trim come after the
// commit there. A replay from the position's Resume gives what is missing.
//
// # On disk
//
// All keys begin with a part number of 4 bytes. Part 0 is the database's own, the others are partitions, numbered as they
// come and never used again while the database is open. All numbers are big-endian.
//
//	key                                            value
//	0 (4)   'a'                                    "duewheel 5": the layout, this one
//	0 (4)   'i'   part (4)                         topic id (16), partition (4), topic (length as uvarint, bytes), group
//	0 (4)   'p'   part (4)                         resume (8), offset (8), watermark due (8), watermark seq (8), low water (8), epoch (4), parsers, as c below; no parsers: it bears no checkpoint
//	part (4)   due ^ 2^63 (8)   seq ^ 2^63 (8)     the value given to Put
//	part | 2^30 (4)   'a'                          the counts: number of the first changes that they do not have, and the agenda
//	part | 2^30 (4)   'c'   number (8)             what a batch has changed of them
//	part | 2^30 (4)   'r'   page (8)               offsets of records, of a quarter of a million; 's': of stubs
//	part | 2^30 (4)   't'   number (8)             what an owner has laid aside, of no use to the next one
//	part | 2^31 (4)   length of the id - 1 (1)   id   due ^ 2^63 (8)   seq ^ 2^63 (8)     a note of the caller (8): pending has when it was written, in ms, times 2, and 1 more for a stub
//
// What is above the watermark of a position is counted with it: each batch bears what it changes of that, and now and then one bears all. So
// the counts that a crash leaves are those of the records that it leaves.
//
// The flipped sign bits make signed numbers sort as bytes, so that the order of the database is the order of delivery.
// The positions and ids lie apart from the records so that a table of trimmed records holds nothing else, and is dropped
// without being read. Trim does not reach the ids: the caller deletes
// that of what was delivered, and what a crash has left of it is at or below the watermark, and so names nothing. A database of another layout, or one that does not open, is removed and made anew.
//
// # In the commit metadata
//
// Text of at most 4096 bytes, words with one space between them; what is left of these has room for the largest numbers, all
// fields, and a writer's name of 768 bytes. The first word is the version; then come fields in any order,
// written in this one. Any other field, and any other version, is [ErrUnknownVersion].
//
//	dw1 t=1f00ab09 w=1767225605123:8812 l=7001 x=billing-0%404f a=1 g=6500 c=0:p1;8000:p1+300000 n=invoices
//
//	t   the first 4 bytes of the topic id, as 8 digits of lower case hex
//	w   watermark: due in milliseconds, and seq; of a fixed-delay route: when, and up to which offset, the log was seen
//	l   low water, at most the offset that is committed
//	x   writer who may have an open transaction; absent when there is none. Bytes but letters, digits and ._- as %XX
//	a   1 when records of ours may lie at or above the offset; else absent
//	g   what lies below this offset was given up, and copies of it may lie at or above the offset that is committed; absent when nothing was
//	c   parser configurations: the offset from which each holds, in rising order; absent when none is known
//	n   the name by which the group knows what it has written into the topic for itself, as x; absent where that is the name of the group
//	m   the group that was given this checkpoint, as x: this one does not go on from it; else absent
//
// # Versions
//
// Replicas of two releases share a group for the length of a rollout, and read what the other one has written. So:
//
//   - A release reads the version that it writes, and all before it.
//   - What is new (a version, a field, a parser's spec) is only read by the release that brings it, which does what it
//     asks for, and written from the next release on. A field is new with a version of its own: no version gets another
//     field once it has been released.
//   - Who only reads a version may have to write what it has read of it. What would be wrong if it were lost, it writes in
//     that version for as long as it holds; else in the version that it writes.
//
// Then neighbouring releases understand each other in both directions, so a rollout can be taken back by one release. Who
// skips one has partitions stopped where the older release has them: with ErrUnknownVersion, untouched, and they go on where
// a replica that understands them gets them. Less formally: first all releases in use can read it, then one writes it.
//
// The table is versions in checkpoint.go. The local store is a cache and needs no such rule: another layout is dropped.
//
// # Failure
//
// A disk that is full, fails or gives wrong bytes is an error of the call that needs it, ErrFailed. From then on nothing on
// disk changes, every other call gets the same error, and what was committed since the last flush is lost; Reopen
// goes on from what is there, or from nothing when it was corrupt, and Try tells whether that is of use. A full disk drops
// nothing. The owner of a partition then treats it as after a restart. Metadata that is wrong, or not ours, is an error that says which of these it is.
package state
