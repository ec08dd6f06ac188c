package main

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/duewheel/duewheel/topics"
)

// What is due before now by the jitter of its route may have expired by that: such a record is not written, whatever its place would add.
func TestDeliverNowWhereJitterOutlastsExpiry(t *testing.T) {
	for i, c := range []struct {
		route, says string
	}{
		{"jitter: 1m, expire_after: 59s", "`duewheel reschedule --for 0s` has it delivered within 1m0s"},
		{"jitter: 1m, expire_after: 1m", ""},
		{"expire_after: 59s", ""},
	} {
		cl, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
		s := &lookStory{T: t, c: cl, addr: addr}
		due := max(time.Since(lookNow), 0).Round(time.Second) + 24*time.Hour
		s.write(&datadriven.TestData{Input: "v", CmdArgs: []datadriven.CmdArg{{Key: "due", Vals: []string{due.String()}}}})
		config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, target: orders, "+c.route+"}\n")
		_, err := command(t, "", "deliver-now", "-c", config, topics.Handle{Due: lookNow.Add(due).UnixMilli()}.String())
		if written := lengthOf(t, addr, "delays") - 1; (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) || (written == 0) != (err != nil) {
			t.Errorf("case %d: %d written, %v", i, written, err)
		}
	}
}
