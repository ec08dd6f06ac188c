// Package group is a consumer group as one of its members sees it: it joins, is given partitions and has them taken away, and leaves.
//
// A [Group] is made by New and joined by Join; each [Stay] has a client of its own, which heartbeats and never reads. Handovers tells what the
// group has assigned, revoked and given away already, one [Handover] after the other. The group waits with a revocation until its Handover is
// Done, so that no other member is given a partition while this one still writes for it. How a member stands with its group is in its
// [Standing]; an [Entrance] finds out what keeps members from getting there.
//
// The client calls back on goroutines of its own, and these touch nothing: they hand over. A Group and its stays belong to the goroutine that
// takes the handovers; a Standing and an Entrance may be asked by every goroutine. Wait returns when the last stay is over.
//
// On the wire is the group protocol, classic (KIP-429) or consumer (KIP-848), by the client. What a partition is for, where its checkpoint
// stands and what is pending in it is not known here.
//
// What the group refuses is told with what a person can do, and tried again by the client. Only a protocol that brokers do not serve is an
// error of AwaitProtocol.
package group
