// Package local is what lies of partitions on this machine's disk: the store of the process, which every lane and every standby has a part
// of, and whether it is there.
//
// Make a [Store] with [New], open it, and let [Store.Run] look after it. A disk that is full or fails takes the store away, never records: who
// meets the failure says so with [Store.Failed], and goes on with what memory holds and the log. [Store.Works] says when it is there again.
//
//	open ──► works ──► away ──► it is tried again: at once, then every 10 to 30 s, later where it fails again soon
//	           ▲                  │
//	           └──────────────────┘ partitions take it up one after the other
//
// It is a cache: what it lacks is read from the log. So a mistake of a person at start is an error, and nothing else ever is. Only where the
// log has lost what is pending ([ErrLogTruncated]) it may have the only copy, and then nothing here gives that up.
//
// # Who owns what
//
// Every goroutine may use a Store. A part of it (state.Partition) belongs to the one who has opened it last, which ends the handle before: a lane
// opens its parts without asking, and what is no lane with [Store.PartitionUnlessOurs], so that it never takes one from a lane. One goroutine
// is in Run, which tries a store that is away and brings one to the disk that is far behind the logs; another one is in [Leftovers.Run], which
// gives back what is held of partitions that are elsewhere, and of topics that are gone. An [Heir] belongs to whom it goes on for.
//
// What is assigned (picture.Set) is asked for while nothing here is locked, or locked first. What may take long, as to measure a part or to open
// the store, is done without it: lanes and probes wait for that.
package local
