// Package turn carries out what a lane has decided to do at one moment: the records that are due in its partitions, where they go, and the checkpoints that
// say so. It knows nothing of lanes.
//
// A lane makes a [Turn] of [Part]s, and [Turn.Start] carries it out on a goroutine of its own, which hands it back when it is decided:
//
//	parts ──► rendered ──► offsets ──► records ──► what is told of them ──► resolve records ──► decided
//	            │                         └── all of a stage are acknowledged before the next one is sent (stages.go)
//	            └── a part of which a record can go nowhere now is held, as if the turn had not begun for it
//
// In exactly_once that is one transaction (KIP-98, with the group's metadata of KIP-447), whose offsets come first; in at_least_once the records are sent
// by themselves, and the lane commits the checkpoints when they have been acknowledged. A turn without a record is an offset commit alone.
//
// What became of it is its [Outcome]: it happened; it is known not to have happened; or that is not known, and then what was remembered of its partitions
// is worth nothing. Beside that a turn says whom to blame: targets that did not take their records, checkpoints that were refused, a record that is
// refused for what it is (rejected.go).
//
// A Turn, its producer and its [Renderer] belong to one goroutine at a time: the lane's, then the turn's until it is handed back. An [Env] may be shared.
// Times of records are in ms since 1970, sizes in bytes.
package turn
