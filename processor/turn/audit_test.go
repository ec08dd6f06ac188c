package turn

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// What records have in common that tell of one turn is that of its own delay topic and time.
func TestTellerOpens(t *testing.T) {
	var a auditor
	for _, c := range []struct {
		of string
		at int64
	}{{"requests", 1000}, {"others", 1000}, {"others", 2000}} {
		a.open("bills", c.of, "g", time.UnixMilli(c.at))
		equal(t, "in common", string(a.in), string(topics.AppendAuditIn(nil, c.of, "g", c.at)))
	}
}

// The key of a record is its handle, however large its value is: also where that only just fits into the room for it, and where it lies in its target does not.
func TestAuditKeyOfALargeValue(t *testing.T) {
	var a auditor
	a.open("bills", "requests", "g", time.UnixMilli(testNow))
	of := func(i int) topics.Handle { return topics.Handle{Partition: 3, Offset: int64(1000 + i), Due: testNow} }
	const most = 2 * usualValue
	for i := range most {
		a.render(nil, nil, topics.Audit{Event: topics.AuditDelivered, Of: of(i), ID: bytes.Repeat([]byte("x"), i), Target: "orders"}, &kgo.Record{})
	}
	for i, o := range a.outputs {
		if want := of(i).String(); string(o.Record.Key) != want || !strings.Contains(string(o.Record.Value), `"handle":"`+want+`"`) {
			t.Errorf("with an id of %d bytes: key %s, value %.60s, want %s", i, o.Record.Key, o.Record.Value, want)
		}
	}
}

// What could not be audited is kept: the memory that it was rendered into is used again.
func TestUnauditedIsKept(t *testing.T) {
	key, value := []byte("3-0-5"), []byte(`{"event":"delivered"}`)
	o := Output{Record: &kgo.Record{Key: key, Value: value}, audited: audited{Event: topics.AuditDelivered}}
	u := o.unaudited()
	clear(key)
	clear(value)
	equal(t, "key", string(u.Key), "3-0-5")
	equal(t, "value", string(u.Value), `{"event":"delivered"}`)
	o.Record.Value, o.Record.Partition, o.Record.Offset, o.Of = []byte(`{"event":"delivered","target":"orders"`), 5, 9, &kgo.Record{Partition: 2, Offset: 7}
	equal(t, "with where it was delivered to", string(o.unaudited().Value), `{"event":"delivered","target":"orders","target_partition":2,"target_offset":7}`)
}

// A copy stands for a request that was told of as accepted before.
func TestCopyIsNotAccepted(t *testing.T) {
	var a auditor
	a.open("bills", "requests", "g", time.UnixMilli(testNow))
	a.noted(&Part{}, &pending.Item{Effect: pending.EffectCarried, Offset: 7, Key: state.Key{Due: testNow + time.Hour.Milliseconds(), Seq: 3}})
	equal(t, "told", len(a.outputs), 0)
}

// At least once, what is audited follows what it is about, but for what is pending; a transaction makes both at once.
func TestStageOfWhatIsAudited(t *testing.T) {
	for _, tt := range []struct {
		atLeastOnce bool
		event       topics.AuditEvent
		want        int
	}{
		{true, topics.AuditCancelled, stageAudit}, {true, topics.AuditForwarded, stageAudit}, {true, topics.AuditAccepted, stageRecords},
		{false, topics.AuditCancelled, stageRecords},
	} {
		equal(t, tt.event.String(), (&Turn{Env: &Env{AtLeastOnce: tt.atLeastOnce}}).stage(&Output{Kind: OutAudit, audited: audited{Event: tt.event}}), tt.want)
	}
}
