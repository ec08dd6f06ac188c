// Package check tells whether a delayed topic processor kept its promises, from topics alone: what was requested in the
// delay topics, as a read_committed consumer sees it, against what a read_committed consumer sees in the target topics and
// the dead-letter topics. It knows nothing of the processor's code, state or checkpoints, and imports none of it; the few
// header forms that it must understand are parsed here once more, simply.
//
// Less formally: every request must arrive exactly once, where and when it asked to, as it was; and what cannot be
// delivered must be found, as it was, in the dead-letter topic.
//
// # Use
//
// [Checker] is the checker itself, fed record by record by a test that has them (a simulation, a unit test):
//
//	c, err := check.New(check.Config{Routes: ..., Targets: ...})
//	c.Requested(record)          // from a delay topic
//	c.Delivered(record, seen)    // from a target topic
//	c.DeadLettered(record)       // from a dead-letter topic
//	report := c.Report()
//
// The order in which the topics are read does not matter, but each partition must be read in offset order.
// [Watch] feeds a Checker from a cluster in the background, and [Read] feeds one with all that is there now:
//
//	w, err := check.Start(ctx, config, kgo.SeedBrokers(addrs...))
//	...                          // produce requests, run processors, kill them
//	err = w.Wait(ctx)            // until every request has arrived
//	...                          // stop the processors
//	report, err := w.Stop(ctx)   // reads all topics to their ends once more
//
// # What it finds
//
//	Missing           requested and due, seen nowhere
//	Doubled           seen more than once
//	Early             delivered before it was due
//	Altered           key, value, headers, target, due time or provenance differ from what was requested
//	GoodDeadLettered  dead-lettered although it could be delivered
//	BadDelivered      delivered although it had to be refused
//	Disordered        of one source partition, key, target topic and due time, the later request was delivered first
//	Stray             arrived without a committed request
//	Late              delivered long after it was due, in a world that was well
//	Ahead             says that it was delivered later than it was seen
//	Insistent         put off too often
//	Uncovered         accepted or delivered, and the checkpoint does not say so in time
//	Overdue           due, seen nowhere, and the group does not say that it is done with it: of a [Survey]
//
// Late, Insistent and Uncovered are ceilings, which Config sets. They are judged by the clock of the test that feeds the
// checker. What is due while the world is ill, from [Checker.Ill] to [Checker.Well], may come as late after its end.
//
// Each kind is counted, and the first few faults of each are kept in full.
//
// # Who owns what
//
// A Checker belongs to one goroutine. A Watch may be used by several.
//
// # Memory
//
// 48 bytes for each offset between the first and the last request of a partition, in pages without pointers, whatever the
// size of the records: hashes of key, value and headers, the due time, and where the record was first seen. A hash of 32
// bits means that one altered value or header in four thousand million goes unseen; a processor that alters records does
// not alter only one. Report sorts deliveries to judge their order, a bounded number at a time.
//
// # Records that processors write into a delay topic
//
// A resolve record asks for nothing and is passed over. A retry record is its origin on a later attempt: it asks for
// nothing new, and the delivered record still names the origin. Order is judged by the key of the last attempt, which is
// what the processor promises.
package check
