package processor

// wake wakes the goroutine that receives from it. However often that was asked for before it looks, it
// is woken once.
type wake chan struct{}

func newWake() wake { return make(wake, 1) }

func (w wake) ask() {
	select {
	case w <- struct{}{}:
	default: // it is about to wake
	}
}
