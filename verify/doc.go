// Package verify tells whether a group keeps its promises, from Kafka alone: it reads the delay topics of a configuration, their targets and
// their dead letter topics, as a read_committed consumer, and compares what was requested with what has arrived. The judgement is that of
// package check, which tests of the project use, too. It shares no code with what it judges: no parser, no checkpoint, no engine.
//
// Less formally: is all well?
//
// # Use
//
//	v, err := verify.New(verify.Config{Routes: ..., Group: "duewheel"}, kgo.SeedBrokers(addrs...))
//	defer v.Close()
//	report, err := v.Pass(ctx)     // all that is there now; again, for what has come since
//
// # What can be told
//
// A delivered record says of which request it is (delay-source) and when that was due (delay-due), so that it is compared with it: key,
// value, headers, target, due time. A request of which nothing is seen
//
//	waits      is not due, or for less than Config.Grace
//	overdue    is due, and the group's checkpoint does not say that it is resolved: replicas are down, or late
//	missing    is resolved, by the checkpoint, and lies in no topic
//	untold     may have arrived where it cannot be seen any more: the older part of its target, or of a dead letter topic, is gone
//
// How late a delivery was is told by its timestamp. With Route.Timestamp "due" or "original" that is another one, so only delay-fired tells,
// or a broker that writes its own time (LogAppendTime); of all others it is counted that nothing does, and they are judged but for when they
// came. What is there more than a minute before it is due, by the clock of this machine, is early whatever it says.
//
// The checkpoint is the one thing that is read besides records: the committed offset, and of its metadata the watermark, the low water and the
// topic's id. Of metadata of another version than "dw1" nothing is believed.
//
// A pass asks for the checkpoints first, then where the delay topics end, then where the targets do. So what a checkpoint says
// is resolved lies below these ends, in whatever order they are read. Records of open transactions are waited for, for Config.Patience.
//
// # Where the window begins
//
// Requests are judged that lie in the delay topics, or in the part of them that Config.From and Config.To choose by the records' timestamps.
// Targets are read from an hour before the earliest of them on, or, with a Route.Timestamp, from their beginning. Where the older part of a
// target is gone, the first delivered record that is still there tells since when it is whole.
//
// # Who owns what
//
// A Verifier belongs to one goroutine. A Metrics may be scraped by any other.
//
// # Memory
//
// 50 bytes for a request that waits, 400 more if it names another one or has an id, and one bit for each offset of what is settled.
// Delay topics and targets are read by turns, so that no more is held at a time than Config.Memory; what needs more, because so much is
// pending, is [ErrMemory].
//
// # On failure
//
// New and Pass return errors where it cannot be told whether all is well: brokers that cannot be reached, rights, topics that are missing.
// Pass may be called again after one: it goes on where it was. After [ErrAnew] only a new Verifier can tell.
package verify
