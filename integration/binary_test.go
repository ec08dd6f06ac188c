package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/duewheel/duewheel/bench/child"
)

// binary is the duewheel command, built once for all tests.
var binary struct {
	once sync.Once
	dir  string
	path string
	err  error
}

func buildBinary(t *testing.T) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "duewheel-binary-"); binary.err != nil {
			return
		}
		binary.path = filepath.Join(binary.dir, "duewheel")
		build := exec.Command("go", "build", "-o", binary.path, "github.com/duewheel/duewheel/cmd/duewheel")
		if out, err := build.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("%v: %w\n%s", build.Args, err, out)
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return binary.path
}

func removeBinary() {
	if binary.dir != "" {
		os.RemoveAll(binary.dir)
	}
}

// command is how duewheel is run: a configuration file, and what is said beside it.
type command struct {
	yaml string // without group, state and admin port
	args []string
	env  []string
}

// runBinary runs `duewheel run` for the group of this tenant.
func (s *tenant) runBinary(c command) *child.Process {
	s.t.Helper()
	dir := s.t.TempDir()
	file := filepath.Join(dir, "duewheel.yaml")
	yaml := c.yaml + fmt.Sprintf(`
group:
  id: %s
state:
  dir: %s
admin:
  listen: 127.0.0.1:0
near_window: 1s
unknown_target_after: 3s
`, s.name, filepath.Join(dir, "state"))
	if err := os.WriteFile(file, []byte(yaml), 0o644); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(buildBinary(s.t), append([]string{"run", "-c", file}, c.args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), c.env...)
	return s.run(cmd, "duewheel run")
}
