// Package bench measures duewheel on a real cluster: throughput against a plain copy loop, what
// is written for each delayed record, lateness at a steady rate, what happens when very many
// records are due at one instant, and what it costs when replicas are killed, restarted and added.
//
//	results, err := bench.Run(ctx, bench.Options{Client: []kgo.Opt{kgo.SeedBrokers(addrs...)}})
//	bench.WriteTable(os.Stdout, results)
//
// The case hot, too, has its processor in a process of its own, as those of Failover are: what memory that takes is measured.
//
// Ask is the same for what requests may ask for besides a delay: cancels and retries.
//
// Size is the same for a process in which very many records are pending, beside one in which none are.
//
// Soak is one process in which very many records are pending for long, looked at each second. Its table and its drawing are made of the
// samples alone ([Soaked]), so they can be made again.
//
// Failover is the same for several processes: each replica is a child of this one, the same program once more, which calls
// ServeReplica. It is told what to do on its standard input, and its processor's events, as JSON on its standard output, say when what
// has happened (package child). A replica whose standard input ends has lost its parent, and ends.
//
//	      config, one line                   ┌─ replica 0 ─┐
//	parent ───────────────────► stdin ───────┤ replica 1   ├─── group ─── cluster
//	       ◄────────── events, stdout ───────┤ replica 2   │                 │
//	   ▲                                     └─────────────┘                 │
//	   └──────── requests, and what a read_committed consumer sees ──────────┘
//
// A case of Run makes topics and consumer groups of its own, all of whose names begin with
// "duewheel-bench-", runs a processor in this process, has every record judged by the checker
// of check, and deletes what it made, also when it fails or its context ends. Only a
// killed process leaves something behind.
//
// # How it is measured
//
// Less formally: against what one would write by hand, on the same records, in the same
// minutes, because machines differ more than programs do.
//
//   - Records have 100 bytes that no compression can make smaller, all of them different, and no
//     key. Clients keep franz-go's defaults except where the code says why not.
//   - What is compared with something is run several times, alternating with it, and the medians
//     are reported. Before each run the garbage of the one before is collected.
//   - Lateness is what a read_committed consumer in this process sees: the moment at which its poll
//     returns the record, less the due time that the record's value names. Percentiles are exact:
//     every single lateness is kept, and sorted at the end.
//   - A kill is a kill -9 that hits an open transaction: the replica is frozen first, again and again, until the brokers say that
//     it has one. Its last sign of life is the moment before.
//   - Nothing is taken out but warm-ups, which come first: a round of their own, or records that are told
//     apart by a mark in their value.
//   - A case whose records were due before all were accepted would measure something else: it is begun again with
//     more time.
//
// # Who owns what
//
// Run and Failover belong to one goroutine. Two runs on one cluster do not disturb each other's topics, only each
// other's figures.
//
// # Failure
//
// An error of one case does not keep the others from running. A case whose records were not all
// delivered once, on time, in order and unaltered reports no figures but the faults.
package bench
