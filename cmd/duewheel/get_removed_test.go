package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// What has become of a record that was trimmed the audit topic knows, where there is one. Of several topics it is the one that it names.
func TestGetOfARemovedRecordReadsTheAuditTopic(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "others": 1, "orders": 1, "audit": 3})
	cl := client(t, addr)
	due := int64(1767225605123)
	handle := func(offset int64) topics.Handle { return topics.Handle{Offset: offset, Due: due} }
	for _, topic := range []string{"delays", "others"} {
		for range 4 {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		var offsets kadm.Offsets
		offsets.AddOffset(topic, 0, 3, -1)
		if _, err := kadm.NewClient(cl).DeleteRecords(t.Context(), offsets); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []struct {
		topics.Audit
		written int64
	}{
		{topics.Audit{Event: topics.AuditAccepted, Of: handle(0), In: topics.AppendAuditIn(nil, "delays", "g", due-9000)}, due - 9000},
		{topics.Audit{Event: topics.AuditDelivered, Of: handle(0), In: topics.AppendAuditIn(nil, "delays", "g", due+5), Target: "orders"}, due + 5},
		{topics.Audit{Event: topics.AuditCancelled, Of: handle(0), In: topics.AppendAuditIn(nil, "delays", "another", due+6)}, due + 6},
		{topics.Audit{Event: topics.AuditCancelled, Of: handle(1), In: topics.AppendAuditIn(nil, "delays", "g", due-8000)}, due - 8000},
		{topics.Audit{Event: topics.AuditAccepted, Of: handle(2), In: topics.AppendAuditIn(nil, "delays", "g", due-8000)}, due - 8000},
	} {
		value, key := a.Append(nil)
		r := &kgo.Record{Topic: "audit", Key: slices.Clone(key), Value: topics.AppendPlace(value, topics.Place{Partition: 2, Offset: 7})}
		r.Timestamp = time.UnixMilli(a.written)
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	get := func(h topics.Handle, more ...string) (string, error) {
		return command(t, "", append([]string{"get", "-b", addr, "-g", "g", h.String(), "-X", "routes[0].topic=delays", "-X", "routes[0].target=orders", "-X", "routes[1].topic=others", "-X", "routes[1].target=orders"}, more...)...)
	}
	out, err := get(handle(0), "--audit", "audit")
	if err != nil || !strings.HasPrefix(out, "delays/0@0, which is not in the log any more\n  state   the audit topic says delivered in orders/2@7\n") || strings.Contains(out, "cancelled") {
		t.Errorf("delivered: %v\n%s", err, out)
	}
	if out, err = get(handle(0), "--audit", "audit", "-o", "json"); err != nil || !strings.Contains(out, `"state":"delivered"`) || strings.Contains(out, `"timestamp"`) {
		t.Errorf("as JSON: %v\n%s", err, out)
	}
	if out, err = get(handle(1), "--audit", "audit", "-t", "delays"); err != nil || !strings.Contains(out, "the audit topic says cancelled") {
		t.Errorf("cancelled before it was due: %v\n%s", err, out)
	}
	for name, more := range map[string][]string{"what is not told": {"--audit", "audit", "-t", "others"}, "no audit topic": {"-t", "delays"}} {
		if out, err = get(handle(0), more...); err == nil || !strings.Contains(err.Error(), "retention or trimming has removed it") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if out, err = get(handle(2), "--audit", "audit", "-t", "delays"); err == nil {
		t.Errorf("nothing but that it was accepted: %s", out)
	}
}
