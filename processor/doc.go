// Package processor delivers the records of delay topics when they are due, exactly once, or at least once where that is enough.
//
// Make a [Processor] with [New] and let [Processor.Run] work until its context ends. It is one replica of a consumer group, or several members
// of one: each of its lanes is a member. Stats and Ready may be asked by any goroutine at any time, and programs are told of partitions by
// [Config.Events]; the log is for people.
//
// # A lane
//
// A lane reads the partitions that the group has given to it, holds what is pending in them, and delivers that in turns, one after the other. It
// is one goroutine: a loop that takes a step (everything that can be done without waiting) and then waits for one of ten events. Whatever takes
// time is done by another goroutine, which hands its result back:
//
//	what                        on a goroutine of                what comes back
//	the group gives and takes   the client of a group.Stay       a group.Handover, which waits until the lane has acted
//	partitions are restored     the restores of a restore.Set    restore.Restored, one partition after the other
//	the reader looks            reading                          kgo.Fetches
//	a turn is carried out       turn                             the turn, decided
//	checkpoints beside turns    turn (at_least_once)             the same
//	producers are renewed       producers                        that they are
//	brokers say where logs end  ends                             logEnds
//	some of a log is read again retention.Carrier                an excerpt, of which what is pending is to be carried
//	others have too much        standbys                         a wish: the stay asks for a rebalance
//	time passes                 a timer, for the next due ms     nothing
//
// # Who owns what
//
//	the lane's goroutine        partitions and what is pending in them, and its own parts: memory, reading, restores, ends, selection,
//	                            checkpoints, turns, producers while they are not renewed
//	a turn's goroutine          its producer and renderer, and what it has been given of partitions: the parts, until it is decided
//	a restore's goroutine       each restore.Partition, until it hands that over and the lane makes a partition of it
//	one goroutine each          standbys, the local store's recovery and its leftovers, targets, clock, entrance, hearing, the watch of other replicas,
//	                            retention's Keeping and Trimming, what is told of dead letters, and a carrier for each lane
//	every goroutine             kit, targets, counters, the clock, the store, what is assigned, standing, published pictures
//
// Nothing that a lane's goroutine owns has a lock. A kit is what a lane lends to its goroutines; what is not in it they cannot touch.
//
// # The phases of a partition
//
//	assigned ──► restoring ──► catching up ──► live ──► dropped, when it is revoked, lost, or starts over
//	                 ▲  │           │           │
//	                 │  └───────────┴───────────┴──► stopped, until a person has decided; it looks again every half minute
//	                 └── starts over ◄── an unknown outcome, a failure
//
// A partition that is restoring has no checkpoint yet; one that is catching up reads [start, E) and delivers nothing; one that is live takes part
// in turns. What was remembered of a partition that starts over is worth nothing, and is made anew from the checkpoint.
//
// # O, W, L and E
//
//   - O, the offset: every record below it has been accepted.
//   - W, the watermark: a key (due, seq); every accepted record with a key at or below it is resolved.
//   - L, the low water: no pending record lies below this offset.
//   - E, the end: up to where a catch-up must read before the partition is live.
//
// DESIGN.md says more of O, W and L under "The log is the state", and of E under "Recovery, step by step".
//
// # The way of a record
//
//  1. reading polls it; acceptAll gives it to its partition, and its memory back to the reader.
//  2. pending accepts it: it is pending, late or refused. Its target is looked up meanwhile.
//  3. What lies beyond the near window goes to the store, and is loaded before it is due.
//  4. When it is due, selection takes it into the next turn, with the checkpoint that says so.
//  5. The turn's Renderer makes the record for its target, a dead letter, or a retry.
//  6. The turn opens a transaction: offsets first, then the records, what is told of them in the audit topic, and the decision.
//  7. turns settles what has happened, repeats what is known not to have, and the lane starts over what is not known.
//
// # What goes wrong
//
// Errors are sorted in one place (kafka.VerdictOf). A bad record is dead-lettered, a target in trouble has its records carried on, a broken store is
// gone without, and a coordinator that refuses is asked again after a pause. Run returns only what this process can do nothing about.
package processor
