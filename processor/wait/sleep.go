// Package wait holds what goroutines rest by: a pause that ends with its context, growing pauses between tries that fail, and a way to
// be woken. It uses the standard library alone; time is that of package time, so that it passes at once in a synctest bubble.
package wait

import (
	"context"
	"time"
)

// For waits for d and reports whether ctx still goes on.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
