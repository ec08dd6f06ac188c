package bench

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// duewheelOn makes commands of the program as it is.
func duewheelOn(t *testing.T, c *kfake.Cluster) func(...string) *exec.Cmd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "duewheel")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/duewheel/duewheel/cmd/duewheel").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return func(args ...string) *exec.Cmd {
		return exec.Command(path, append(args, "-b", strings.Join(c.ListenAddrs(), ","))...)
	}
}

// Every case of LookAhead measures something that can be, counts what there is, and leaves nothing.
func TestLookAheadCases(t *testing.T) {
	o, c := smallOn(t)
	o.Pending, o.Command = 3000, duewheelOn(t, c)
	results, err := LookAhead(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	judgeResults(t, results[:2], []string{"ls", "agenda"}, []string{"log_per_s", "took_s", "cpu_s", "peak_mib"}, "3,000 records counted")
	judgeResults(t, results[2:3], []string{"get"}, []string{"took_s", "took_max_s"}, "pending")
	judgeResults(t, results[3:4], []string{"get-behind"}, []string{"took_s", "took_max_s"}, "pending")
	judgeResults(t, results[4:], []string{"forms"}, []string{"millis_ns", "other_ns"}, "understood")
	if n := results[4].Figures["millis_allocations"]; n != 0 {
		t.Errorf("a time in milliseconds takes %v allocations", n)
	}
	if names := left(t, o); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
	o.Command = nil
	if _, err := LookAhead(t.Context(), o); err == nil {
		t.Error("without a command")
	}
}

// A program that fails says why.
func TestMeasureFails(t *testing.T) {
	if _, _, err := Measure(exec.Command("sh", "-c", "echo too bad >&2; exit 3")); err == nil || !strings.Contains(err.Error(), "too bad") {
		t.Errorf("got %v", err)
	}
}
