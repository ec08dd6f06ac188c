package pending

// Among is a partition among the others of its topic.
type Among struct{ *Partition }

// Others tells how many these are: a cancel by an id goes to all of them.
func (p Among) Others(n int) { p.late.others = n }

// Await keeps what is due from being taken, or lets it go: while it waits only what is late is resolved, and so what is passed on to the others. A queue
// passes nothing on, and does not wait.
func (p Among) Await(awaits bool) { p.awaits = awaits }

// Awaits reports whether it does.
func (p Among) Awaits() bool { return p.awaits }

// Passed reports whether all below an offset is decided that this partition may have to pass on to the others.
func (p Among) Passed(offset int64) bool {
	idle := p.turns == 0 && !p.again.any()
	return p.Ordered() || p.done.Offset >= offset || idle && p.order.offset() >= offset
}
