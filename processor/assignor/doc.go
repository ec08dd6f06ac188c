// Package assignor says which member of a group gets which partition, and which replica keeps a partition warm that is another's.
//
// An Assignor stands in for the client's own (kgo.GroupBalancer), in the classic protocol: cooperative-sticky (KIP-429), but what has to
// move goes to a replica whose store knows most of it. The client calls it, one call at a time. A View is the group as its coordinator
// describes it; every replica computes from it for itself what it keeps warm.
//
// On the wire: what a member's replica holds and where its presence is, as JSON behind the user data of its subscription. A member that says
// nothing, or something else, holds nothing; one that holds too much to say (64 KiB) says only who it is and where.
package assignor
