// Package targets knows the topics that records are produced to: whether each can take records now, what it takes, and how
// that is found out. It knows Kafka, and nothing of partitions and turns.
//
// A [Table] is asked before a record enters a transaction. One goroutine keeps it up to date ([Table.Run]); lanes and
// turns only read, and say what they have seen: that a target has made a turn fail, or has taken records. Everything
// here may be called from any goroutine.
//
//	           metadata is well                  a turn failed
//	Unknown ────────────────────► Ready ───────────────────────► Troubled ──► Missing, Forbidden
//	                                ▲                             │    ▲        brokers have said so
//	                                │ it has taken      left alone│    │        for some time
//	                                │ a record        for a while ▼    │ and fails again
//	                                └────────────────────────── OnTrial
package targets
