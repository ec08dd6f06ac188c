//go:build !synctests

package processor

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The simulation is not in a binary without its build tag, so that a run of it would match no test, and pass.
func TestMain(m *testing.M) {
	flag.Parse()
	if run := flag.Lookup("test.run").Value.String(); strings.Contains(run, "Sim") {
		fmt.Fprintf(os.Stderr, "-run %s: the simulation needs -tags synctests\n", run)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
