package integration

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
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
		{Key: topics.HeaderUntil, Value: fmt.Append(nil, due)}, {Key: "trace", Value: []byte("7")}, {Key: topics.HeaderID, Value: p.id(due)},
	}})
}

func (*predecessor) id(due int64) []byte { return fmt.Append(nil, "id ", due) }

// forward passes on a cancel that lay in another partition, and is gone there.
func (p *predecessor) forward(name []byte) { p.forwardAs(topics.HeaderCancel, name) }

// forwardAs is the same of one that had another name, as the route of then had another prefix.
func (p *predecessor) forwardAs(header string, name []byte) {
	r := &kgo.Record{Topic: p.route.Topic}
	r.Headers, _ = topics.AppendForward(nil, []kgo.RecordHeader{{Key: header, Value: name}}, p.mark, 1, 0, time.Now().UnixMilli(), nil)
	p.write(r)
}

// carry copies a request, or what it has tried, or a copy.
func (p *predecessor) carry(r *kgo.Record, as topics.Copy) (*kgo.Record, topics.Copy) {
	written, _, _ := p.mark.Copied(r.Headers, r.Offset)
	as.From = r.Offset
	copied := &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}
	copied.Headers, _ = topics.AppendCopy(nil, written, p.mark, as, nil)
	return p.write(copied), as
}

// try notes that it has tried to deliver a request in vain.
func (p *predecessor) try(r *kgo.Record, due int64, attempt int) (*kgo.Record, topics.Copy) {
	again := topics.Retry{Due: due + int64(attempt)*1000, Attempt: attempt, Origin: topics.Origin{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Due: due}}
	tried := &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}
	tried.Headers, _ = topics.AppendRetry(nil, r.Headers, p.mark, again, nil)
	tried = p.write(tried)
	return tried, topics.Copy{Seq: tried.Offset, Due: again.Due, Timestamp: tried.Timestamp.UnixMilli()}
}

// A group that is renamed, or is new beside another one, begins where the log begins by then. Of what is gone there the one before has left copies and
// retries: they stand for their records, which are delivered once, unless something has taken them away. So it may have been from another partition, in
// which the cancel is gone.
func TestGroupIsRenamed(t *testing.T) {
	t.Parallel()
	s := newStage(t, shared(t), setting{partitions: 2, groups: true, seed: newSeed(t), check: func(c *check.Config) { c.Inherits = true }})
	detail, err := s.admin.ListTopics(t.Context(), s.route.Topic)
	if err != nil {
		t.Fatal(err)
	}
	id := detail[s.route.Topic].ID
	p := &predecessor{s.newForger(), topics.NewMark([4]byte(id[:4]), "before", 0)}
	const kinds, each = 10, 20
	due := time.Now().Add(5 * time.Second).UnixMilli()
	requests := make([]*kgo.Record, kinds*each)
	var dues []int64
	for i := range int64(kinds * each) {
		dues = append(dues, due+10*i)
		if i%kinds < 8 {
			requests[i] = p.request(due + 10*i)
		}
	}
	cancel := func(r *kgo.Record, due int64) *kgo.Record {
		h := topics.Handle{Partition: r.Partition, Offset: r.Offset, Due: due}
		return p.write(&kgo.Record{Topic: r.Topic, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(h.String())}}})
	}
	by := map[int]int64{} // where that lies which has taken a request away, and is gone
	for i, r := range requests {
		if i%kinds == 5 {
			by[i] = cancel(r, dues[i]).Offset
		}
	}
	begins := p.write(&kgo.Record{Topic: s.route.Topic, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte("0-1-1")}}}).Offset
	for i, r := range requests {
		if r == nil { // it is there when the new group begins
			r = p.request(dues[i])
		}
		as := topics.Copy{Seq: r.Offset, Due: dues[i], Timestamp: r.Timestamp.UnixMilli()}
		handle := topics.Handle{Partition: 0, Offset: r.Offset, Due: dues[i]}.String()
		switch i % kinds {
		case 0:
			p.carry(r, as)
		case 1:
			copied, as := p.carry(r, as)
			p.carry(copied, as)
		case 2:
			p.try(r, dues[i], 1)
			p.try(r, dues[i], 2)
		case 3:
			p.carry(r, as)
			p.carry(p.try(r, dues[i], 1))
		case 4:
			p.carry(r, as)
			cancel(r, dues[i])
		case 5:
			copied, _ := p.carry(r, as)
			taker := by[i]
			if i/kinds%2 == 0 { // a store has spared it the reading of that
				taker = -1
			}
			p.write(&kgo.Record{Topic: r.Topic, Headers: topics.ResolveBy(p.mark, copied.Offset, dues[i], r.Offset, taker)})
		case 6:
			p.carry(r, as)
			p.forwardAs([]string{topics.HeaderCancel, "wheel.cancel"}[i/kinds%2], []byte(handle))
		case 7:
			p.carry(r, as)
			p.forward(p.id(dues[i]))
		case 8:
			p.forward([]byte(handle))
		case 9:
			p.forward(p.id(dues[i]))
		}
	}
	gone := kadm.Offsets{}
	gone.AddOffset(s.route.Topic, 0, begins, -1)
	deleted, err := s.admin.DeleteRecords(t.Context(), gone)
	if err != nil || deleted.Error() != nil {
		t.Fatal(err, deleted.Error())
	}
	replica := s.start(s.replica())
	s.awaitLive(replica, 2)
	later := requests[0]
	p.carry(later, topics.Copy{Seq: later.Offset, Due: dues[0], Timestamp: later.Timestamp.UnixMilli()}) // of what the new group has by now
	replica.stop()
	replica = s.start(s.replica(func(c *replicaConfig) { c.StateDir = filepath.Join(s.dir, "empty") })) // which reads all of it again
	s.arrive()
	replica.stop()
	if report := s.judge(); report.Delivered != 4*each || report.Requested != kinds*each {
		t.Errorf("%d of %d were delivered, want %d", report.Delivered, report.Requested, 4*each)
	}
}
