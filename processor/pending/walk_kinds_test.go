package pending

import "testing"

// A checkpoint is set to a copy, and the route has a fixed delay by then, or had one meanwhile.
func TestWalksToAQueue(t *testing.T) {
	defer smallBlocks()()
	fixed := settings{fixed: true}
	const carried = `
		a request comes that is due later
		a checkpoint
		it carries the first record
		the turn happens
		the marker comes`
	for _, c := range []struct {
		name, path, refused string
		scope
	}{
		{"a queue refuses what was given up", carried + `
			the next owner is configured otherwise
			the checkpoint is reset to a copy
			it goes live`,
			"refused as a copy", scope{sorts: "a", others: fixed, most: counts{requests: 1, carries: 1, resets: 1, changes: 1}}},
		{"a queue refuses what was given up and has an id", `
			a request with the id comes that is due later
			a checkpoint
			it carries the first record
			the turn happens
			the marker comes
			the next owner is configured otherwise
			the checkpoint is reset to a copy
			it goes live`,
			"refused as a copy", scope{sorts: "i", others: fixed, most: counts{requests: 1, carries: 1, resets: 1, changes: 1}}},
		{"a queue refuses once what was given up and carried twice", `
			it carries the last record
			a request comes with a timestamp ahead of the clock
			it crashes when the turn has happened
			retention takes what was carried
			the next owner is configured otherwise
			it crashes
			the marker comes
			it goes live
			it takes one
			the turn happens
			it takes one
			the turn happens
			it crashes
			the marker comes
			it goes live`,
			"refused as a copy", scope{sorts: "aifW", before: cancelledFirst, others: fixed, most: counts{requests: 11, crashes: 4, carries: 2, losses: 1, changes: 1}}},
		{"what was given up is pending again when the route has no fixed delay any more", carried + `
			the second due time has come
			the next owner is configured otherwise
			the checkpoint is reset to a copy
			the next owner is configured otherwise
			it crashes
			it goes live`,
			"", scope{sorts: "a", others: fixed, most: counts{requests: 1, crashes: 1, carries: 1, resets: 1, changes: 2}}},
		{"what was given up and has an id is dead-lettered when it is due, as a fixed delay had it read", `
			a request with the id comes that is due later
			a checkpoint
			it carries the first record
			the turn happens
			the marker comes
			the next owner is configured otherwise
			the checkpoint is reset to a copy
			the next owner is configured otherwise
			it crashes
			it goes live`,
			"", scope{sorts: "i", others: fixed, most: counts{requests: 1, crashes: 1, carries: 1, resets: 1, changes: 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.walksAgain(t, c.path)
			if c.refused != "" {
				equal(t, c.refused, c.seen[c.refused], 1)
			}
		})
	}
}
