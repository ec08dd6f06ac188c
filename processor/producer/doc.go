// Package producer is a producer that may be renewed at any time, and its transactions.
//
// A Producer is made by New, and gets a client by Renew: one with the same transactional id, whose start aborts what the one before has left
// open (KIP-98). Where that was asked to commit, and has not been answered, the same is asked for again first. Open begins a Transaction, with the offsets of a
// group in it before any record; the records are produced with Client; Decide commits it, or Abort makes sure that it cannot happen any more. What neither can
// make sure of is undecided, and its owner has to find out from the offsets what became of it.
//
// Markers, one for all producers of a process, see to it that a transaction that has ended has ended in every partition.
//
// A Producer belongs to one goroutine at a time, its Transaction with it. Spare and Bounds are shared with those of its clients, and a
// BusyID may be asked by every goroutine.
//
// Sizes are in bytes. What the client does by itself, and is not told here, is in the design under "Not obvious".
package producer
