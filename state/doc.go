// Package state holds what one partition of a delay topic must remember: the checkpoint, the far part of the pending
// records, and the counts that tell how much of the log is still needed and how much is due when.
package state
