package main

import (
	"bytes"
	"strings"
	"testing"
)

// Another group with a checkpoint on a delay topic delivers the same records: `topics check` says so,
// and so does `run`. Offsets of others, of the same group or of an earlier topic mean nothing.
func TestOtherGroups(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"earlier": 1, "orders": 1})
	const warning = "group g (Empty) has checkpoints on 2 partitions of it, too"
	config := func(group string) string {
		return writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: "+group+"}\nroutes: [{topic: delays, target: orders}]\n")
	}
	check := func(group string) string {
		t.Helper()
		out, err := command(t, "", "topics", "check", "-c", config(group))
		if err != nil {
			t.Errorf("group %s: %v", group, err)
		}
		return out
	}
	if _, err := command(t, "", "topics", "create", "-c", config("mine"), "--partitions", "3"); err != nil {
		t.Fatal(err)
	}
	commit(t, addr, "delays", 0, 4, "")
	commit(t, addr, "delays", 1, 4, metadataOf(t, c, "earlier", 0))
	if out := check("mine"); strings.Contains(out, "has checkpoints") {
		t.Errorf("offsets that are no checkpoints of this topic:\n%s", out)
	}
	commit(t, addr, "delays", 1, 4, metadataOf(t, c, "delays", 0))
	commit(t, addr, "delays", 2, 4, metadataOf(t, c, "delays", 0))
	if out := check("mine"); !strings.Contains(out, "warning: delays: "+warning) || !strings.Contains(out, `mend: if it is not meant: stop it, and kafka-consumer-groups.sh --delete --group "g"`) {
		t.Errorf("check does not tell of the other group:\n%s", out)
	}
	if out := check("g"); strings.Contains(out, "has checkpoints") {
		t.Errorf("a group is warned of itself:\n%s", out)
	}

	var log bytes.Buffer
	s, err := (&flags{file: config("mine")}).load()
	opts, clientErr := s.clientOpts()
	if err != nil || clientErr != nil {
		t.Fatal(err, clientErr)
	}
	warnOfTopics(t.Context(), s, opts, s.logger(&log)) // as run does
	if !strings.Contains(log.String(), warning) {
		t.Errorf("run does not tell of the other group:\n%s", &log)
	}
}
