// Package pending knows what is pending in one partition of a delay topic, from its checkpoint and its
// log to the parts of turns.
//
// A [Partition] is a pure state machine. Records, time and outcomes come in as arguments; parts of turns
// and checkpoints come out. Inside there is no client, goroutine, context, clock or logger, and the local
// store is all that it writes to. It belongs to the goroutine that owns the partition, and has no lock.
//
//	 New, Use               Accept               Enliven, Load, Fit          Take, Checkpoint
//	checkpoint, store ──► [L, E) of the log ──► what is due soon is in ──► a Part: records to resolve,
//	                                            memory, the rest in the     and the checkpoint that
//	                                            store                       says so
//	                                                                           │
//	           Settle, Committed, Wrote ◄── happened ──────────────────────────┤
//	                             Repeat ◄── known not to have happened ────────┘
//
// Where it is not known whether a part has happened, the partition is of no further use: another one is
// made of the checkpoint. A [Follower] is the same machine for a partition that another replica owns: it
// takes in what lies below that owner's O.
//
// # The checkpoint
//
//   - O, the offset: every record below it has been accepted. It is pending, was delivered or dead-lettered, or has
//     been applied.
//   - W, the watermark: a key (due, seq). Every accepted record whose key is at or below it is resolved. It never goes
//     back. In a queue, which needs none, it is a sighting of the end of the log.
//   - L, the low water: no pending record lies below this offset.
//
// What is pending is a pure function of log and checkpoint: read [L, O) in order, apply resolve records, drop what is at or
// below W.
//
// # What goes wrong
//
// An error is one of the store (state.ErrFailed: go on with [Partition.Forgo], or begin anew) or says that what the store
// holds is corrupt. A bad record is not an error; it is refused, and dead-lettered by the part that moves O past it.
package pending
