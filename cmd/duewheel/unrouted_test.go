package main

import (
	"strings"
	"testing"
)

// A delay topic of which the group has checkpoints, and that no route names, is told of: what is pending there waits for nobody.
func TestTopicWithoutARoute(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"orders": 1, "before": 2})
	config := func(group, topic string) string {
		return writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: "+group+"}\nroutes: [{topic: "+topic+", target: orders}]\n")
	}
	if _, err := command(t, "", "topics", "create", "-c", config("g", "delays"), "--partitions", "1"); err != nil {
		t.Fatal(err)
	}
	check := func(group string) string {
		t.Helper()
		out, err := command(t, "", "topics", "check", "-c", config(group, "delays"))
		if err != nil {
			t.Errorf("group %s: %v", group, err)
		}
		return out
	}
	const says = "warning: before: group g has checkpoints on 1 partition of it, and no route names it"
	commit(t, addr, "before", 0, 4, "") // of a consumer
	if out := check("g"); strings.Contains(out, "no route") {
		t.Errorf("offsets that are no checkpoints:\n%s", out)
	}
	commit(t, addr, "before", 1, 4, metadataOf(t, c, "before", 0))
	commit(t, addr, "delays", 0, 4, metadataOf(t, c, "delays", 0))
	if out := check("g"); strings.Count(out, "no route") != 1 || !strings.Contains(out, says) || !strings.Contains(out, `kafka-consumer-groups.sh --delete-offsets --group "g" --topic "before"`) {
		t.Errorf("check does not tell of it:\n%s", out)
	}
	if out := check("another"); strings.Contains(out, "no route") {
		t.Errorf("of another group:\n%s", out)
	}
}
