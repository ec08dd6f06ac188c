// Package telling has the log say what people need to know, and no more of it than they can read: lines that repeat are left out and counted, troubles
// that go on are said once, and dead letters by their reasons.
package telling
