// Package ahead tells what is pending in the partitions of delay topics, from Kafka alone: any machine that may read knows it, whether a
// replica runs or not.
//
// A [Partition] is a fold over the log of one partition, and knows nothing of Kafka's protocol. Records come in, in the order of the log,
// from the low water of a checkpoint on; what is pending comes out. It holds 48 bytes for each pending record, and some 40 more for one
// with an id: what a record says has to be read again where it lies. It belongs to one goroutine.
//
//	New                 Accept                 Follow              Decide            All, Fates
//	checkpoint ──► [L, O) of the log ──► a later checkpoint ──► [O, end) is ──► what is pending,
//	                                     before O is passed     judged           what became of one
//
// It is a second reading of the rules that package pending has for an owner, since an owner holds the bytes of what is pending, in memory
// or in a store, and forgets what becomes too much. The tests hold both against each other.
//
//   - Below O all is decided. What is at or below W is resolved, resolve records, cancels and replacements take away what they name.
//   - At or above O nothing is. What comes there with a key at or below W is late: pending, until O passes it. What names others, or
//     has an id, is answered in the order of the log when all of it is read, as an owner does that begins now.
//   - A fixed delay is a queue: all at or above O waits in the order of the log.
//
// A [Looker] reads checkpoints and logs with a client, joins no group and writes nothing. Owners go on meanwhile. So it asks for the
// checkpoint again before it passes O, until O stays where it is or nearly so, and the answer is about that moment: what an owner has
// resolved since is still in it. What was carried on since is in it once, since the copy names its origin.
package ahead
