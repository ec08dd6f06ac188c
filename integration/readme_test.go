package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/brokers"
)

// What the README has for a cluster of one's own is one script: as a shell runs it in an empty directory on a real Kafka, with the tools of others that it
// names, it takes a new user within two minutes to two records that are delivered, and to one that is seen in the agenda and cancelled; then verify says that all
// is well. Only the address of the broker is another one, and go build is left out: all tests share one program.
func TestReadmeAsOneScript(t *testing.T) {
	c := shared(t)
	if c.Provider() != brokers.JVM {
		t.Skip("without a JVM there is no kafka-topics.sh")
	}
	t.Parallel()
	w, began := newWalk(t, c.Addrs()[0]), time.Now()
	end := w.run()
	for _, said := range []string{"Created topic orders.", "█ orders ", "asks to cancel the id reminder-1\n"} {
		eventually(t, func() string {
			if text := w.log.text(); !strings.Contains(text, said) {
				return fmt.Sprintf("it does not say %q:\n%s", said, text)
			}
			return ""
		})
	}
	eventually(t, func() string { return w.not("ls", "nothing is pending\n") })
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %v", took)
	} else {
		t.Logf("it took %v", took.Round(time.Millisecond))
	}
	eventually(t, func() string { return w.not("verify", "3 requested\n  2 delivered\n") })
	if missing := w.not("verify", "\nall is well\n"); missing != "" {
		t.Error(missing)
	}
	end()
}

// walk is a new user who does what the README says.
type walk struct {
	t      *testing.T
	dir    string
	script string
	log    *journal // what is printed
}

// newWalk makes a directory that has nothing but the program and the README's file, on a broker.
func newWalk(t *testing.T, broker string) *walk {
	t.Helper()
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(strings.ReplaceAll(string(b), "127.0.0.1:9092", broker), "```yaml\n")
	yaml, rest, _ := strings.Cut(rest, "```\n")
	w := &walk{t: t, dir: t.TempDir(), log: newJournal(t)}
	for line := range strings.Lines(rest) {
		line, is := strings.CutPrefix(line, "    ")
		switch {
		case !is || strings.HasPrefix(line, "go build "):
		case strings.HasSuffix(line, " &\n"):
			w.script += line + "echo $! >run.pid\n"
		default:
			w.script += line
		}
	}
	if n := strings.Count(w.script, "\n"); n != 9 {
		t.Fatalf("the README has %d lines for a shell:\n%s", n, w.script)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "duewheel.yaml"), []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(buildBinary(t), filepath.Join(w.dir, "duewheel")); err != nil {
		t.Fatal(err)
	}
	return w
}

// tools is a directory that has kafka-topics.sh. Kcat has to be there.
func (w *walk) tools() (dir string) {
	w.t.Helper()
	if _, err := exec.LookPath("kcat"); err != nil {
		w.t.Fatalf("%v: install kcat (Debian: apt-get install kcat)", err)
	}
	classes, err := brokers.ToolClasses(w.t.Context(), brokers.Latest, w.t.Logf)
	if err != nil {
		w.t.Fatal(err)
	}
	dir = w.t.TempDir()
	script := "#!/bin/sh\nexec java -Xmx256m -XX:TieredStopAtLevel=1 -cp '" + classes + "' org.apache.kafka.tools.TopicCommand \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "kafka-topics.sh"), []byte(script), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// run begins the script, which goes on until end ends the replica that it has started.
func (w *walk) run() (end func()) {
	w.t.Helper()
	cmd := exec.Command("sh", "-e", "-c", w.script+"wait $(cat run.pid)")
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.dir, w.log, w.log
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "PATH="+w.tools()+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	ended := false
	w.t.Cleanup(func() {
		if !ended { // the replica outlives a script that has failed
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		}
	})
	return func() {
		w.t.Helper()
		b, err := os.ReadFile(filepath.Join(w.dir, "run.pid"))
		if err != nil {
			w.t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGTERM)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		ended = true
		if err := cmd.Wait(); err != nil || !strings.Contains(w.log.text(), "msg=stopped") {
			w.t.Errorf("the script: %v", err)
		}
	}
}

// not is all that a command says, unless it says what it should.
func (w *walk) not(command, says string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "./duewheel", command, "-c", "duewheel.yaml")
	cmd.Dir = w.dir
	out, err := cmd.CombinedOutput()
	if err == nil && strings.Contains(string(out), says) {
		return ""
	}
	return fmt.Sprintf("%s: %v, and it does not say %q:\n%s", command, err, says, out)
}
