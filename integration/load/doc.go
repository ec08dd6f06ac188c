// Package load writes requests into delay topics as a crowd of users would: good and bad, due in the past, soon and far ahead,
// for several targets, through plain and transactional producers of which a part aborts.
//
// What it makes follows from Config.Seed, but for the times, which follow the clock, and the interleaving of producers. It keeps
// no account of single records: the delay topics are that account, and package check reads it there.
//
//	totals, err := load.Run(ctx, load.Config{Seed: 1, Topics: ..., Targets: ..., Records: 100_000, Bad: 0.01}, kgo.SeedBrokers(addrs...))
//
// A [Generator] makes the same records without a cluster, for a simulation. It belongs to one goroutine. Run starts the goroutines
// it needs and returns when all have ended. A cluster that fails for a while is waited for; until ctx ends.
package load
