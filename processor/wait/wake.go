package wait

// Wake wakes the goroutine that receives from it. However often that was asked for before it looks, it
// is woken once.
type Wake chan struct{}

// NewWake makes one that has not been asked for.
func NewWake() Wake { return make(Wake, 1) }

// Ask wakes the goroutine, now or when it looks the next time. Any goroutine may call it.
func (w Wake) Ask() {
	select {
	case w <- struct{}{}:
	default: // it is about to wake
	}
}
