// Package standby keeps warm copies of what is pending in partitions that other replicas own. A standby reads the log into the local store and
// follows its owner's checkpoints; it writes nothing to Kafka, and no owner waits for it.
//
// Make a [Set] with [New] and let [Set.Run] keep what the group's members have to keep between them (assignor.View.Allot). A lane that restores
// a partition brings its standby up to the checkpoint with [Set.Advance] where the log has lost something, and takes it over with [Set.Take]:
//
//	allotted ──► begun, from the local store and a checkpoint ──► follows ──► taken over, by a lane of this process
//	                 ▲                                              │   └───► given up, when it is another's to keep
//	                 └────────── rests, after an error ◄────────────┘
//
// It never leads: what lies at or above its owner's O waits until O has passed it, and reading pauses meanwhile.
//
// # Who owns what
//
// One goroutine is in Run, and owns the reader and what is allotted. Each standby is guarded by the Set's lock, since lanes take standbys away at any
// time; what may take long is done before any other goroutine knows of it. A lane that opens the part of the store that a standby has ends that
// handle, so one that goes on all the same writes nothing any more.
//
// # What goes wrong
//
// A standby that fails is given up for a while, and said so once; its owner says what there is to be said of the partition. While the store is away
// there are none. Without the group's or the brokers' word all of them stay as they are.
package standby
