package processor

import (
	"runtime"
	"testing"

	"github.com/duewheel/duewheel/state"
)

// A program runs as many goroutines more at once as there may be compactions, however often it is told, and as many as GOMAXPROCS says if that is set.
func TestParallelize(t *testing.T) {
	was := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(was)
	runtime.SetDefaultGOMAXPROCS()
	usual := runtime.GOMAXPROCS(0)
	t.Setenv("GOMAXPROCS", "")
	for range 2 {
		Parallelize()
		equal(t, "at once", runtime.GOMAXPROCS(0), usual+state.Compactions)
	}
	runtime.GOMAXPROCS(usual)
	t.Setenv("GOMAXPROCS", "1")
	Parallelize()
	equal(t, "at once, where it is set", runtime.GOMAXPROCS(0), usual)
}
