package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/duewheel/duewheel/bench/child"
)

// Three releases in a row, as far as the checkpoint is concerned: this tree, one that reads a next version, and one that writes it.
const (
	present    = "present"
	nextReads  = "next-reads"
	nextWrites = "next-writes"
)

// wrote is the version of the checkpoints of a release.
var wrote = map[string]string{present: "dw1", nextReads: "dw1", nextWrites: "dw2"}

// edits turn state/checkpoint.go into that of a later release: its versions get another one, with one more field.
var edits = map[string][][2]string{
	nextReads: {
		{`	{"dw1", "twlxagcnm"},`, "	{\"dw1\", \"twlxagcnm\"},\n	{\"dw2\", \"twlxagcnmz\"},"},
		{`	case "c":`, "	case \"z\":\n		_, err = parseCount(value)\n	case \"c\":"},
	},
	nextWrites: {
		{`const written = "dw1"`, `const written = "dw2"`},
		{`	b = fmt.Appendf(b, " l=%d", c.LowWater)`, `	b = fmt.Appendf(b, " l=%d z=%d", c.LowWater, c.Offset)`},
	},
}

// Neighbouring releases share a group for the length of a rollout. Partitions move both ways, one of the replicas being killed.
func TestRollout(t *testing.T) {
	t.Parallel() // the test below does not: both build releases to the same places
	for _, rollout := range [][2]string{{present, nextReads}, {nextReads, nextWrites}} {
		t.Run(rollout[0]+" to "+rollout[1], func(t *testing.T) {
			s := newTenant(t, shared(t), setting{partitions: 6, targets: 2, seed: newSeed(t)})
			old := s.runRelease(rollout[0])
			old.awaitLive(6)
			stop := s.keepLoading(soon())
			next := s.runRelease(rollout[1])
			old.awaitLive(3)
			next.awaitLive(3)
			s.awaitDelivered(300)
			t.Logf("committed: %v", s.committed())
			next.Kill()
			old.awaitLive(6)
			s.awaitDelivered(300)
			t.Logf("committed: %v", s.committed())
			next = s.runRelease(rollout[1])
			next.awaitLive(3)
			s.terminate(old.Process)
			next.awaitLive(6)
			s.awaitDelivered(300)
			versions := s.committed()
			t.Logf("committed: %v", versions)
			if want := wrote[rollout[1]]; versions[want] != 6 {
				t.Errorf("committed: %v, and %s writes %s", versions, rollout[1], want)
			}
			stop()
			s.arrive()
			s.terminate(next.Process)
			s.judge()
		})
	}
}

// A rollout that skips a release stops those partitions that the older release has, says so, and leaves them as they are. They go on
// where a replica has them that understands them.
func TestRolloutSkipsRelease(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{partitions: 6, targets: 2, seed: newSeed(t)})
	newer := s.runRelease(nextWrites)
	newer.awaitLive(6)
	stop := s.keepLoading(soon())
	s.awaitDelivered(300)
	older := s.runRelease(present)
	newer.awaitLive(3)
	what := "it is dw2, and this release reads dw1; a newer one wrote it: run one that reads dw2"
	eventually(t, func() string {
		_, body := older.ready()
		if n := strings.Count(body, what); n != 3 {
			return fmt.Sprintf("/readyz names %d partitions that are stopped: %s", n, body)
		}
		return ""
	})
	s.awaitDelivered(300) // of the others
	if versions := s.committed(); versions["dw2"] != 6 {
		t.Errorf("committed: %v, and the older release must not have written any", versions)
	}
	if out, err := s.duewheel("checkpoints", "-g", s.name, "-t", s.route.Topic); err != nil || strings.Count(out, what) != 6 {
		t.Errorf("duewheel checkpoints: %v\n%s", err, out)
	}
	s.terminate(older.Process)
	newer.awaitLive(6)
	stop()
	s.arrive()
	s.terminate(newer.Process)
	s.judge()
}

// committed counts the partitions by the version of their checkpoints.
func (s *tenant) committed() map[string]int {
	s.t.Helper()
	versions := map[string]int{}
	offsets, err := s.admin.FetchOffsets(s.t.Context(), s.name)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, o := range offsets.Sorted() {
		version, _, _ := strings.Cut(o.Metadata, " ")
		versions[version]++
	}
	return versions
}

// released is a process that runs some release.
type released struct {
	*child.Process
	tenant *tenant
	log    *journal
}

// runRelease runs `duewheel run` of a release for the group of this tenant, with one lane.
func (s *tenant) runRelease(release string) *released {
	s.t.Helper()
	dir := s.t.TempDir()
	file := filepath.Join(dir, "duewheel.yaml")
	yaml := fmt.Sprintf(`
kafka: {brokers: [%s]}
group: {id: %s, session_timeout: 2s, heartbeat_interval: 200ms}
state: {dir: %s}
admin: {listen: "127.0.0.1:0"}
transaction_timeout: 5m
near_window: 1s
unknown_target_after: 3s
lanes: 1
routes: [{topic: %s, targets: {allow: [%s.target-*]}}]
`, strings.Join(s.cluster.Addrs(), ", "), s.name, filepath.Join(dir, "state"), s.route.Topic, s.name)
	if err := os.WriteFile(file, []byte(yaml), 0o644); err != nil {
		s.t.Fatal(err)
	}
	r := &released{tenant: s, log: &journal{}}
	cmd := exec.Command(buildRelease(s.t, release), "run", "-c", file)
	cmd.Dir, cmd.Stderr = dir, io.MultiWriter(s.log, r.log)
	r.Process = s.run(cmd, release)
	return r
}

var adminLine = regexp.MustCompile(`msg=starting .*admin=(http://\S+)`)

// ask gets a page of the admin port; empty when it does not answer.
func (r *released) ask(path string) (code int, body string) {
	m := adminLine.FindStringSubmatch(r.log.text())
	if m == nil {
		return 0, ""
	}
	resp, err := http.Get(m[1] + path)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(b)
}

func (r *released) ready() (bool, string) {
	code, body := r.ask("/readyz")
	return code == http.StatusOK, body
}

// awaitLive waits until a process has so many partitions and all are live.
func (r *released) awaitLive(partitions int) {
	r.tenant.t.Helper()
	eventually(r.tenant.t, func() string {
		select {
		case <-r.Exited():
			r.tenant.t.Fatalf("%s has ended: %v", r.Name(), r.Err())
		default:
		}
		ready, why := r.ready()
		_, metrics := r.ask("/metrics")
		if !ready || !strings.Contains(metrics, fmt.Sprintf("\nduewheel_assigned_partitions %d\n", partitions)) {
			return fmt.Sprintf("%s does not have %d partitions, all live: %s", r.Name(), partitions, why)
		}
		return ""
	})
}

// buildRelease builds the command as a release has it, beside the present one.
func buildRelease(t *testing.T, release string) string {
	t.Helper()
	path := buildBinary(t)
	if release == present {
		return path
	}
	path += "-" + release
	if _, err := os.Stat(path); err == nil {
		return path
	}
	source, err := filepath.Abs("../state/checkpoint.go")
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	changed := filepath.Join(t.TempDir(), "checkpoint.go")
	b, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed}})
	if err == nil {
		err = os.WriteFile(overlay, b, 0o644)
	}
	if err == nil {
		err = os.WriteFile(changed, []byte(laterSource(t, source, release)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", overlay, "-o", path, "github.com/duewheel/duewheel/cmd/duewheel")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	return path
}

// laterSource is the text of state/checkpoint.go as a later release has it.
func laterSource(t *testing.T, source, release string) string {
	t.Helper()
	b, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	releases := []string{nextReads, nextWrites}
	if release == nextReads {
		releases = releases[:1]
	}
	for _, release := range releases {
		for _, e := range edits[release] {
			if strings.Count(text, e[0]) != 1 {
				t.Fatalf("%s does not have one line %q", source, e[0])
			}
			text = strings.Replace(text, e[0], e[1], 1)
		}
	}
	return text
}
