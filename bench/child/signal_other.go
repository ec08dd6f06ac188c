//go:build !unix

package child

import (
	"errors"
	"os"
	"os/exec"
)

// errUnix is what Terminate and Freeze need.
var errUnix = errors.New("child: a process cannot be stopped and ended in order on this system")

func detach(*exec.Cmd) {}

func terminate(*os.Process) error { return errUnix }

func freeze(*os.Process) error { return errUnix }

func thaw(*os.Process) error { return errUnix }
