package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// predecessor writes what another group would have, which has read the delay topic before this one.
type predecessor struct {
	*forger
	mark topics.Mark
}

// request asks for something to be delivered.
func (p *predecessor) request(due int64) *kgo.Record {
	return p.write(&kgo.Record{Topic: p.route.Topic, Key: fmt.Append(nil, due%7), Value: fmt.Append(nil, due), Headers: []kgo.RecordHeader{
		{Key: topics.HeaderUntil, Value: fmt.Append(nil, due)}, {Key: "trace", Value: []byte("7")},
	}})
}

// carry copies a request.
func (p *predecessor) carry(r *kgo.Record, due int64) {
	as := topics.Copy{Seq: r.Offset, Due: due, Timestamp: r.Timestamp.UnixMilli(), From: r.Offset}
	copied := &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}
	copied.Headers, _ = topics.AppendCopy(nil, r.Headers, p.mark, as, nil)
	p.write(copied)
}

// try notes that it has tried to deliver a request in vain.
func (p *predecessor) try(r *kgo.Record, due int64) {
	again := topics.Retry{Due: due + 1000, Attempt: 1, Origin: topics.Origin{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Due: due}}
	tried := &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}
	tried.Headers, _ = topics.AppendRetry(nil, r.Headers, p.mark, again, nil)
	p.write(tried)
}

// A group that is new begins with what the topic has by then. What another one has carried, or tries again, of what is gone belongs to that one: it is passed over, and told of.
func TestNewGroupSaysWhatAnotherHas(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{partitions: 1, groups: true, seed: newSeed(t)})
	detail, err := s.admin.ListTopics(t.Context(), s.route.Topic)
	if err != nil {
		t.Fatal(err)
	}
	id := detail[s.route.Topic].ID
	p := &predecessor{s.newForger(), topics.NewMark([4]byte(id[:4]), "before", 0)}
	const each = 20
	due := time.Now().Add(2 * time.Second).UnixMilli()
	var requests []*kgo.Record
	for i := range int64(2 * each) {
		requests = append(requests, p.request(due+i))
	}
	begins := p.request(due).Offset
	for i, r := range requests {
		if i%2 == 0 {
			p.carry(r, due+int64(i))
		} else {
			p.try(r, due+int64(i))
		}
	}
	later := p.request(due)
	p.carry(later, due) // which this group has itself
	gone := kadm.Offsets{}
	gone.AddOffset(s.route.Topic, 0, begins, -1)
	if deleted, err := s.admin.DeleteRecords(t.Context(), gone); err != nil || deleted.Error() != nil {
		t.Fatal(err, deleted.Error())
	}
	successor := s.start(s.replica())
	s.awaitLive(successor, 1)
	s.awaitDelivered(2)
	if n := s.log.count(fmt.Sprintf("records=%d group=before", 2*each)); n != 1 {
		t.Errorf("it is said %d times", n)
	}
	successor.stop()
	if n := s.watch.Counts().Delivered; n != 2 {
		t.Errorf("%d were delivered, want the 2 that lie in the topic", n)
	}
}
