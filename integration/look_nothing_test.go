package integration

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/duewheel/duewheel/topics"
)

// A topic that nothing was ever written to has nothing pending, and whatever else stands in the place of a checkpoint is told of its partition,
// while the others are shown.
func TestLookAtNothingAndAtForeignCheckpoints(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{partitions: 3, seed: newSeed(t)})
	o := &lookout{tenant: s}
	look := func(code int, wants []string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), buildBinary(t), append(args, "-b", s.cluster.Addrs()[0], "-g", s.name, "-t", s.route.Topic)...)
		out, _ := cmd.CombinedOutput()
		for _, want := range wants {
			if got := cmd.ProcessState.ExitCode(); got != code || strings.Count(string(out), want) != 1 {
				t.Errorf("%v: exit code %d, and want %d with once %q:\n%s", args, got, code, want, out)
			}
		}
	}
	look(0, []string{"nothing is pending"}, "ls")
	look(0, []string{"nothing is pending"}, "agenda")
	look(1, []string{"ends at offset 0"}, "get", "0-0-1")
	look(1, []string{`nothing has the id "reminder-7"`}, "get", "reminder-7")

	handles, due := make([]string, 3), time.Now().Add(time.Hour).UnixMilli()
	for p := range int32(3) {
		r := o.request(p, due)
		o.produce(r)
		handles[p] = topics.Handle{Partition: p, Offset: r.Offset, Due: due}.String()
	}
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: s.route.Topic, Partition: 0, At: 1, LeaderEpoch: -1, Metadata: "dw9 t=00000000 w=0:0 l=0"})
	offsets.Add(kadm.Offset{Topic: s.route.Topic, Partition: 1, At: 1, LeaderEpoch: -1, Metadata: "of another consumer"})
	if err := s.admin.CommitAllOffsets(t.Context(), s.name, offsets); err != nil {
		t.Fatal(err)
	}
	look(2, []string{"1 record is pending", "this release reads dw1", "commit metadata is not ours"}, "ls")
	look(2, []string{"1 record pending", "this release reads dw1", "commit metadata is not ours"}, "agenda")
	look(2, []string{"this release reads dw1"}, "get", handles[0])
	look(2, []string{"commit metadata is not ours"}, "get", handles[1])
	look(0, []string{"pending"}, "get", handles[2])
}
