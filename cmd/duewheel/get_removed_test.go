package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/topics"
)

// What has become of a record that was trimmed the audit topic knows, where there is one. Of several topics it is the one that it names.
func TestGetOfARemovedRecordReadsTheAuditTopic(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "others": 1, "orders": 1, "audit": 3})
	cl := client(t, addr)
	due := int64(1767225605123)
	handle := func(offset int64) topics.Handle { return topics.Handle{Offset: offset, Due: due} }
	for _, topic := range []string{"delays", "others"} {
		for range 5 {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		var offsets kadm.Offsets
		offsets.AddOffset(topic, 0, 4, -1)
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
		{topics.Audit{Event: topics.AuditDelivered, Of: handle(2), In: topics.AppendAuditIn(nil, "delays", "g-for-a-while", due+5), Target: "orders"}, due + 5},
		{topics.Audit{Event: topics.AuditRetried, Of: handle(3), In: topics.AppendAuditIn(nil, "delays", "g", due+5), NextDue: due + 1000}, due + 5},
		{topics.Audit{Event: topics.AuditAccepted, Of: handle(2), In: topics.AppendAuditIn(nil, "delays", "another", due-8000)}, due - 8000},
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
	if out, err = get(handle(3), "--audit", "audit", "-t", "delays"); err != nil || !strings.Contains(out, "the audit topic says retried, due again at 2026-01-01T00:00:06.123Z; what stands for it was not found, so ") {
		t.Errorf("retried, and lost: %v\n%s", err, out)
	}
	// Another group has told more, which may be what this one was called in between.
	for offset, want := range map[int64]string{0: "", 2: "note: the group g-for-a-while has told of it that it was delivered in orders/2@7; that counts if it is a former name of this one\n"} {
		_, notes, _ := both(t, "get", "-b", addr, "-g", "g", handle(offset).String(), "-t", "delays", "--audit", "audit", "-X", "routes[0].topic=delays", "-X", "routes[0].target=orders")
		if !strings.Contains(notes, want) || strings.Count(notes, "has told of it") != min(len(want), 1) {
			t.Errorf("of offset %d notes are %q", offset, notes)
		}
	}
}

// Of a request that the log has lost, and that waits to be tried again, it is told what stands for it, and what it was.
func TestGetOfARemovedRecordThatIsTriedAgain(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	cl := client(t, addr)
	written, due := time.Now().Add(-time.Hour).UnixMilli(), time.Now().Add(-time.Minute).UnixMilli()
	next := time.Now().Add(time.Hour).UnixMilli()
	id := c.TopicInfo("delays").TopicID
	mark := topics.NewMark([4]byte(id[:4]), "g", 0)
	for offset := range int64(4) {
		r := &kgo.Record{Topic: "delays", Key: []byte("k"), Value: []byte("mine"), Headers: []kgo.RecordHeader{
			{Key: "delay-until", Value: strconv.AppendInt(nil, due, 10)}, {Key: "delay-target-topic", Value: []byte("orders")}, {Key: "trace", Value: []byte("17")}}}
		if offset == 3 {
			r.Headers, _ = topics.AppendRetry(nil, r.Headers, mark, topics.Retry{Due: next, Attempt: 1, Origin: topics.Origin{Offset: 1, Timestamp: written, Due: due}}, nil)
		}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.DeleteRecords("delays", 0, 3); err != nil {
		t.Fatal(err)
	}
	get := func(offset int64, more ...string) (string, error) {
		return command(t, "", append([]string{"get", "-b", addr, "-g", "g", "-t", "delays", topics.Handle{Offset: offset, Due: due}.String()}, more...)...)
	}
	out, err := get(1)
	if err != nil || !strings.HasPrefix(out, "delays/0@1, written ") || !strings.Contains(out, "offset 3 stands for it") || !strings.Contains(out, "trace") || !strings.Contains(out, "mine") || strings.Contains(out, "delay-retry") {
		t.Errorf("%v\n%s", err, out)
	}
	want := fmt.Sprintf(`"handle":"0-1-%d","state":"retried"`, due)
	if out, err = get(1, "-o", "json"); err != nil || !strings.Contains(out, want) || !strings.Contains(out, fmt.Sprintf(`"timestamp":%d`, written)) || !strings.Contains(out, fmt.Sprintf(`"by":3,"next_due":%d`, next)) {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = get(0); err == nil || !strings.Contains(err.Error(), "retention or trimming has removed it") {
		t.Errorf("another one: %v\n%s", err, out)
	}
}

// What the log has lost while it may have been pending is not said to be resolved, nor is anything of a group that has no checkpoint.
func TestGetOfALostRecord(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1})
	fill(t, addr, "delays", 1, 6)
	commit(t, addr, "delays", 0, 4, metadataOf(t, c, "delays", 2))
	if err := c.DeleteRecords("delays", 0, 4); err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct{ group, handle, want string }{
		{"g", "0-2-1767225605123", "unknown: the log of delays/0 begins at offset 4, and 0-2-1767225605123 lay before that: it may have been pending, since the topic has lost what was from offset 2 on (`duewheel checkpoints`); a replica whose state directory has it delivers it"},
		{"g", "0-1-1767225605123", "unknown: the log of delays/0 begins at offset 4, and 0-1-1767225605123 lay before that: retention or trimming has removed it, so it was resolved, unless the topic had lost pending records before, and a replica went on without them (`run --accept-loss`)"},
		{"new", "0-2-1767225605123", "unknown: the log of delays/0 begins at offset 4, and 0-2-1767225605123 lay before that: retention or trimming has removed it, and whether it was resolved the group new cannot tell, which has committed nothing there (-g chooses another group)"},
	} {
		_, err := command(t, "", "get", "-b", addr, "-g", s.group, "-t", "delays", s.handle)
		if got := errText(err); got != s.want {
			t.Errorf("%s of group %s:\ngot  %s\nwant %s", s.handle, s.group, got, s.want)
		}
	}
}

// Brokers are not asked for times before 1970, which mean something else to them, or nothing.
func TestTimesBefore1970AreNotAskedFor(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "delays.dead": 1, "audit": 1})
	if err := client(t, addr).ProduceSync(t.Context(), &kgo.Record{Topic: "delays", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteRecords("delays", 0, 1); err != nil {
		t.Fatal(err)
	}
	c.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for _, topic := range req.(*kmsg.ListOffsetsRequest).Topics {
			for _, p := range topic.Partitions {
				if p.Timestamp < -2 {
					t.Errorf("brokers are asked where %d is in %s", p.Timestamp, topic.Topic)
				}
			}
		}
		return nil, nil, false
	})
	if out, err := command(t, "", "get", "-b", addr, "-g", "g", "-t", "delays", "--audit", "audit", "0-0-1767225605123"); err == nil || !strings.Contains(err.Error(), "has removed it") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := command(t, "", "dlq", "ls", "-b", addr, "-t", "delays.dead", "--since", "30000d"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// An id of what does not wait any more is told by the audit topic alone, under a handle that who asks does not know.
func TestGetAnIDThatTheAuditTopicHas(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "audit": 1})
	get := func(id string, more ...string) string {
		out, err := command(t, "", append([]string{"get", "-b", addr, "-g", "g", "-t", "delays", id}, more...)...)
		if exitCode(err) != 1 || out != "" {
			t.Fatalf("%v\n%s", err, out)
		}
		return err.Error()
	}
	const beside = "; the audit topic tells ids beside handles"
	if said := get("reminder-17", "--audit", "audit"); !strings.HasSuffix(said, beside+": kcat -C -q -e -b "+addr+` -t audit | grep -F '"id":"reminder-17"'`) {
		t.Error(said)
	}
	if said := get("it's", "--audit", "audit"); !strings.HasSuffix(said, beside) {
		t.Error(said)
	}
	if said := get("reminder-17"); strings.Contains(said, "audit") {
		t.Error(said)
	}
}
