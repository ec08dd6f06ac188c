package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// To a group that has committed nothing all waits. So it is said of one record as it is of all, for its name may be mistyped, and with what another group has told of it.
func TestGetOfAGroupThatNeverWas(t *testing.T) {
	fixTime(t)
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1, "audit": 1})
	s := &lookStory{T: t, c: c, addr: addr}
	s.write(&datadriven.TestData{Input: "v", CmdArgs: []datadriven.CmdArg{{Key: "due", Vals: []string{"-10m"}}, {Key: "delay-target-topic", Vals: []string{"orders"}}}})
	s.checkpoint(&datadriven.TestData{CmdArgs: []datadriven.CmdArg{{Key: "o", Vals: []string{"1"}}, {Key: "w", Vals: []string{"-5m:0"}}}})
	handle := topics.Handle{Due: lookNow.Add(-10 * time.Minute).UnixMilli()}
	a := topics.Audit{Event: topics.AuditDelivered, Of: handle, In: topics.AppendAuditIn(nil, "delays", "g", handle.Due+5), Target: "orders"}
	value, key := a.Append(nil)
	r := &kgo.Record{Topic: "audit", Key: slices.Clone(key), Value: topics.AppendPlace(value, topics.Place{Offset: 7}), Timestamp: lookNow}
	if err := client(t, addr).ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	const fresh, told = "note: delays/0: the group mistyped has committed nothing there, so all that the log holds counts as new (-g chooses another group)\n", "note: the group g has told of it that it was delivered in orders/0@7; "
	get := func(group string) (out, notes string) {
		out, notes, err := both(t, "get", "-b", addr, "-g", group, "-t", "delays", "--audit", "audit", handle.String())
		if err != nil {
			t.Errorf("%s: %v", group, err)
		}
		return out, notes
	}
	if out, notes := get("mistyped"); strings.Count(notes, fresh) != 1 || strings.Count(notes, told) != 1 || !strings.Contains(out, "no replica has read it yet") {
		t.Errorf("%s\n%s", out, notes)
	}
	if out, notes := get("g"); strings.Contains(notes, "has committed nothing") || strings.Contains(notes, told) || !strings.Contains(out, "delivered in orders/0@7") {
		t.Errorf("%s\n%s", out, notes)
	}
	_, notes, err := both(t, "deliver-now", "-b", addr, "-g", "mistyped", "-t", "delays", handle.String())
	if err != nil || strings.Count(notes, fresh) != 1 {
		t.Errorf("%v\n%s", err, notes)
	}
}
