package topics

import (
	"encoding/json"
	"strings"
	"testing"
)

// The bytes of an audit record are a promise to those who read them.
func TestAuditRecords(t *testing.T) {
	of := Handle{Partition: 3, Offset: 8812, Due: 1767225605123}
	for _, c := range []struct {
		audit Audit
		place *Place
		want  string
	}{
		{audit: Audit{Event: AuditAccepted, Of: of}, want: `{"event":"accepted","handle":"3-8812-1767225605123","topic":"requests","group":"g","at":1767225605125,"due":1767225605123}`},
		{audit: Audit{Event: AuditDelivered, Of: of, Target: "orders"}, place: &Place{2, 77},
			want: `{"event":"delivered","handle":"3-8812-1767225605123","topic":"requests","group":"g","at":1767225605125,"due":1767225605123,"target":"orders","target_partition":2,"target_offset":77}`},
		{audit: Audit{Event: AuditCancelled, Of: of, ID: []byte("order-\"4\""), By: Place{3, 9000}, HasBy: true},
			want: `{"event":"cancelled","handle":"3-8812-1767225605123","id":"order-\"4\"","topic":"requests","group":"g","at":1767225605125,"due":1767225605123,"by":"3-9000"}`},
		{audit: Audit{Event: AuditAccepted, Of: of, ID: []byte("\x00\xff")}, // ids that differ look different, also where they are no text
			want: `{"event":"accepted","handle":"3-8812-1767225605123","id_base64":"AP8=","topic":"requests","group":"g","at":1767225605125,"due":1767225605123}`},
		{audit: Audit{Event: AuditCancelled, Of: of, By: Place{3, 9000}, HasBy: true},
			want: `{"event":"cancelled","handle":"3-8812-1767225605123","topic":"requests","group":"g","at":1767225605125,"due":1767225605123,"by":"3-9000"}`},
		{audit: Audit{Event: AuditRetried, Of: of, NextDue: 1767225606123, Attempt: 2},
			want: `{"event":"retried","handle":"3-8812-1767225605123","topic":"requests","group":"g","at":1767225605125,"due":1767225605123,"next_due":1767225606123,"attempt":2}`},
		{audit: Audit{Event: AuditDeadLettered, Of: Handle{Partition: 3, Offset: 8812}, Refusal: &Refusal{Code: CodeNoDue, Message: "a \"quote\"\\\n\x1f\xff"}, Target: "dead"}, place: &Place{0, 5},
			want: `{"event":"dead_lettered","handle":"3-8812","topic":"requests","group":"g","at":1767225605125,"code":"no_due","message":"a \"quote\"\\\u000a\u001f�","target":"dead","target_partition":0,"target_offset":5}`},
	} {
		c.audit.In = AppendAuditIn(nil, "requests", "g", 1767225605125)
		b, key := c.audit.Append(nil)
		if c.place != nil {
			b = AppendPlace(b, *c.place)
		}
		if got := string(b); got != c.want || !json.Valid(b) || string(AppendPlace(b, Place{1, 1})) != c.want {
			t.Errorf("%v is\n%s, want\n%s", c.audit.Event, got, c.want)
		}
		var read struct{ Handle string }
		if err := json.Unmarshal(b, &read); err != nil || read.Handle != string(key) {
			t.Errorf("the key is %s, and the handle %s: %v", key, read.Handle, err)
		}
	}
	if n := len(AppendPlace([]byte("{"), Place{1<<31 - 1, 1<<63 - 1})) - 1; n != AuditPlaceBytes {
		t.Errorf("a place takes %d bytes, and room is for %d", n, AuditPlaceBytes)
	}
}

// Whatever a group is called, and whatever a message says, it is JSON of a bounded size.
func FuzzAuditText(f *testing.F) {
	f.Add("g", "the topic x takes 5")
	f.Add("\"\\\x00\u2028", strings.Repeat("é", 1000))
	f.Fuzz(func(t *testing.T, group, message string) {
		a := Audit{Event: AuditExpired, In: AppendAuditIn(nil, "t", group, 1), Refusal: &Refusal{Code: CodeExpired, Message: message}}
		b, _ := a.Append(nil)
		var read struct{ Group string }
		if err := json.Unmarshal(b, &read); err != nil || read.Group != strings.ToValidUTF8(group, "") && !strings.Contains(read.Group, "\ufffd") {
			t.Fatalf("%q: %v, %q", b, err, read.Group)
		}
		if most := 200 + 6*(len(group)+maxAuditMessage); len(b) > most {
			t.Errorf("%d bytes, and %d are the most", len(b), most)
		}
	})
}

// Every event has a word of its own, and a dead letter the one that its code has.
func TestAuditEvents(t *testing.T) {
	seen := map[string]bool{}
	for e := range AuditEvents {
		word := AuditEvent(e).String()
		if word == "" || seen[word] {
			t.Errorf("event %d is called %q", e, word)
		}
		seen[word] = true
	}
	for code, want := range map[Code]AuditEvent{CodeExpired: AuditExpired, CodeExhausted: AuditParked, CodeTooLate: AuditTooLate, CodeDuplicateID: AuditDuplicate, CodeNoDue: AuditDeadLettered} {
		if got := AuditOf(&Refusal{Code: code}); got != want {
			t.Errorf("%s is %v, want %v", code, got, want)
		}
	}
}

// The audit topic is nothing else: no pattern of targets reaches it.
func TestReserveAudit(t *testing.T) {
	for topic, why := range map[string]string{
		"": "", "audit": "", "__audit": "is not a topic name", "a b": "is not a topic name", "d": "is the delay topic", "dead": `is the dead letter topic of route "d"`,
		"parking": "is the dead letter topic", "out": `is a target of route "d"`,
	} {
		routes := expect(t, Route{Topic: "d", DeadLetter: "dead", Allow: []string{"*", "out"}},
			Route{Topic: "r", DeadLetter: "dead", Target: "out", Retry: &Retrying{Backoff: Backoff{Initial: 1e9, Factor: 2, Max: 1e10}, MaxAttempts: 3, Parking: "parking"}}).Routes
		err := ReserveAudit(topic, routes)
		if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", topic, err, why)
		}
		if err == nil && topic != "" && routes[0].Allowed([]byte(topic)) {
			t.Errorf("%q may be a target", topic)
		}
	}
}
