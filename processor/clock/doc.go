// Package clock tells what time it is: by the wall clock, as long as that is not further off the brokers' clocks than is allowed, and else by
// theirs. A Clock is what the process asks, from any goroutine; a Keeper, with one goroutine of its own (Run), asks the brokers and tells it.
//
// Before brokers have answered for the first time the wall clock is all there is; Await waits for them. When they do not answer any more,
// monotonic time goes on from their last answer, and gets less exact by 200 ppm. It says so in its Picture, and stops nothing.
//
// On the wire: an empty transaction begun and aborted about once a minute (KIP-98), whose coordinator tells when it began (KIP-664).
package clock
