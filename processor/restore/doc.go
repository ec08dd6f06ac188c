// Package restore brings partitions back that the group has assigned, or that start over: what is pending in them is known again, and where to read on.
// It knows nothing of lanes.
//
// Make a [Set] with [New], [Set.Start] a restore of some partitions, and take what comes on Restored: each [Partition] by itself, as soon as it is ready
// to catch up, or stopped until a person decides. [Set.Cancel] gives restores up, and [Set.Has] says of what one has handed over whether it still counts.
//
//	checkpoints, stable ──► where logs begin and end ──► sorted ──► claimed ──► opened ──► handed over
//	     ▲      │                                           │          │                       ▲
//	     └──────┘ held by a transaction: shown, and         └──────────┴── stopped ────────────┘
//	              its writer fenced
//
// DESIGN.md has each step under "Recovery, step by step". [Env.Make] and [Env.Open] are two of them by themselves: what a checkpoint is worth, and what
// the local store spares.
//
// # Who owns what
//
// A Set belongs to a lane's goroutine. Each restore has one of its own, which owns the partitions that it makes until it hands them over; it ends with
// its context, but a claim that is under way is answered first.
//
// # On the wire
//
// OffsetFetch, ListOffsets and OffsetForLeaderEpoch are asked of all partitions together; a claim is one OffsetCommit, in the name of the member that has
// the partitions then. Who has left a transaction open is fenced by InitProducerID with each of its transactional ids.
//
// # What goes wrong
//
// What brokers refuse is asked again, after pauses that grow to a second, and said once. A partition without a leader, or whose topic is gone, holds up no
// other. A claim that is not answered ends the membership ([Restored].LostMembership), since a late copy must find its generation gone. What a person must
// decide on stops the partition that it concerns.
package restore
