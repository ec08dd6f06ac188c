package verify

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
)

// restate has a checkpoint say something else.
func (s *fakeGroup) restate(topic string, partition int32, change func(metadata string) string) {
	s.Helper()
	committed, err := s.adm.FetchOffsets(s.Context(), group)
	if err != nil {
		s.Fatal(err)
	}
	at := committed[topic][partition].Offset
	at.Metadata = change(at.Metadata)
	var offsets kadm.Offsets
	offsets.Add(at)
	if err := s.adm.CommitAllOffsets(s.Context(), group, offsets); err != nil {
		s.Fatal(err)
	}
}

// What a checkpoint leaves behind nothing will deliver: it is missing, however long it is until it is due. So it is only where all is known that had become of it; else it is
// pending, or overdue, as it was.
func TestLeftBehind(t *testing.T) {
	missing, overdue := map[string]int64{"missing": 1}, map[string]int64{"overdue": 1}
	for name, tt := range map[string]struct {
		act  func(s *fakeGroup)
		want map[string]int64
		says string
	}{
		"not due yet": {func(s *fakeGroup) {
			s.ask(0, 500)
			s.resolve("delays", 0, 1, 4, 1)
		}, missing, "the checkpoint says that nothing below offset 1 is pending"},
		"due": {func(s *fakeGroup) {
			s.ask(0, 30)
			s.resolve("delays", 0, 1, 4, 1)
		}, missing, "the checkpoint says that nothing below offset 1 is pending"},
		"not what the checkpoint names": {func(s *fakeGroup) {
			s.ask(0, 500)
			s.resolve("delays", 0, 1, 4, 0)
		}, nil, "1 pending"},
		"with its copy": {func(s *fakeGroup) {
			s.carry(s.ask(0, 500), 0, 500)
			s.resolve("delays", 0, 2, 4, 2)
		}, missing, "below offset 2 is"},
		"not with a copy above": {func(s *fakeGroup) {
			s.carry(s.ask(0, 500), 0, 500)
			s.resolve("delays", 0, 2, 4, 1)
		}, nil, "1 pending"},
		"with the copy of its copy": {func(s *fakeGroup) {
			s.carry(s.carry(s.ask(0, 500), 0, 500), 0, 500)
			s.resolve("delays", 0, 3, 4, 3)
		}, missing, "below offset 3 is"},
		"not with the copy of its copy above": {func(s *fakeGroup) {
			s.carry(s.carry(s.ask(0, 500), 0, 500), 0, 500)
			s.resolve("delays", 0, 3, 4, 2)
		}, nil, "1 pending"},
		"with its retry record": {func(s *fakeGroup) {
			s.carryOn(s.ask(0, 10), 10, 500)
			s.resolve("delays", 0, 2, 20, 2)
		}, missing, "below offset 2 is"},
		"not with a retry record above": {func(s *fakeGroup) {
			s.carryOn(s.ask(0, 10), 10, 500)
			s.resolve("delays", 0, 2, 20, 1)
		}, nil, "1 pending"},
		"with the copy of its retry record": {func(s *fakeGroup) {
			s.carry(s.carryOn(s.ask(0, 10), 10, 500), 1, 500)
			s.resolve("delays", 0, 3, 20, 3)
		}, missing, "below offset 3 is"},
		"not with the copy of its retry record above": {func(s *fakeGroup) {
			s.carry(s.carryOn(s.ask(0, 10), 10, 500), 1, 500)
			s.resolve("delays", 0, 3, 20, 2)
		}, nil, "1 pending"},
		"nor is what was cancelled": {func(s *fakeGroup) {
			s.ask(0, 500)
			s.request(1, "delay-cancel=0-0-"+millis(s.at(500)))
			s.resolve("delays", 0, 2, 4, 2)
		}, nil, "1 cancelled"},
		"nor what is to be cancelled": {func(s *fakeGroup) {
			s.ask(0, 500)
			s.request(1, "delay-cancel=0-0-"+millis(s.at(500)))
			s.resolve("delays", 0, 1, 4, 1)
		}, nil, "1 requested"},
		"nor what was delivered": {func(s *fakeGroup) {
			s.write(s.delivered(s.ask(0, 30), 30))
			s.resolve("delays", 0, 1, 4, 1)
		}, nil, "1 delivered"},
		"nor what was dead-lettered": {func(s *fakeGroup) {
			s.write(s.condemned(s.ask(0, 500), "too_large"))
			s.resolve("delays", 0, 1, 4, 1)
		}, nil, "1 dead-lettered"},
		"nor what has left the log": {func(s *fakeGroup) {
			s.left(500)
			s.resolve("delays", 0, 2, 4, 2)
		}, nil, "1 pending"},
		"nor what was given up": {func(s *fakeGroup) {
			s.ask(0, 500)
			s.resolve("delays", 0, 1, 4, 1)
			s.restate("delays", 0, func(metadata string) string { return metadata + " g=1" })
		}, nil, "1 pending"},
		"but what was not given up is": {func(s *fakeGroup) {
			s.ask(0, 500)
			s.write(s.delivered(s.ask(0, 2), 2))
			s.ask(0, 500)
			s.resolve("delays", 0, 3, 4, 3)
			s.restate("delays", 0, func(metadata string) string { return metadata + " g=1" })
		}, missing, "delays/0@2: due"},
		"nor what has an id": {func(s *fakeGroup) {
			s.ask(0, 30, "delay-id=a")
			s.resolve("delays", 0, 1, 4, 1)
		}, overdue, "delays/0@0: due"},
		"nor what says nothing of itself": {func(s *fakeGroup) {
			s.config.Routes[0].Emit = "none"
			s.ask(0, 500)
			s.resolve("delays", 0, 1, 4, 1)
		}, nil, "1 pending"},
		"nor where the log has lost its end": {func(s *fakeGroup) {
			s.ask(0, 500)
			s.resolve("delays", 0, 3, 4, 3)
		}, map[string]int64{"cut": 1}, "1 pending"},
		"nor where its target is cut": {func(s *fakeGroup) {
			s.ask(0, 30)
			came := s.write(s.delivered(s.ask(0, 2), 2))
			s.cut("orders", came.Partition, came.Offset+1)
			s.resolve("delays", 0, 2, 4, 2)
		}, nil, "the older part of their target is gone"},
		"nor by a checkpoint of another tool": {func(s *fakeGroup) {
			s.ask(0, 30)
			s.resolve("delays", 0, 1, 4, 1)
			s.restate("delays", 0, func(metadata string) string { return strings.Replace(metadata, " t=", " u=", 1) })
		}, overdue, "cannot be read"},
		"what came to a retry route at a time that is not known": {func(s *fakeGroup) {
			s.config.Routes[0] = check.Route{Topic: "delays", Allow: []string{"orders"}, Target: "orders", Retry: &check.Retry{Initial: 10 * time.Minute, Max: 10 * time.Minute, Factor: 1, MaxAttempts: 8}}
			s.request(0, "trace=1")
			s.resolve("delays", 0, 1, 0, 1)
		}, missing, "should be delivered to orders"},
		"not what was written there again": {func(s *fakeGroup) {
			s.config.Routes[0] = check.Route{Topic: "delays", Allow: []string{"orders"}, Target: "orders", Retry: &check.Retry{Initial: 10 * time.Hour, Max: 10 * time.Hour, Factor: 1, MaxAttempts: 8}}
			s.tryAgain(s.request(0, "trace=1"), 1, 601, 0, 601)
			s.resolve("delays", 0, 1, 0, 1)
		}, nil, "1 pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			tt.act(s)
			v := s.verifier()
			for range 2 {
				s.expect(s.pass(v), tt.want, tt.says)
			}
		})
	}
}

// An open transaction may keep back a copy, or what has cancelled a request.
func TestLeftBehindBesideAnOpenTransaction(t *testing.T) {
	t.Parallel()
	s := newFakeGroup(t)
	s.ask(0, 500)
	s.resolve("delays", 0, 1, 4, 1)
	s.open(&kgo.Record{Topic: "delays", Timestamp: s.at(1)})
	s.expect(s.pass(s.verifier()), nil, "1 pending")
}

// removeUnread writes a record that is removed before its transaction ends, so that nothing has read it.
func (s *fakeGroup) removeUnread(r *kgo.Record) {
	s.Helper()
	cl := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(s.Name()))
	if err := cl.BeginTransaction(); err != nil {
		s.Fatal(err)
	}
	if err := cl.ProduceSync(s.Context(), r).FirstErr(); err != nil {
		s.Fatal(err)
	}
	s.cut(r.Topic, r.Partition, r.Offset+1)
	if err := cl.EndTransaction(s.Context(), kgo.TryCommit); err != nil {
		s.Fatal(err)
	}
}

// What was removed before it was read may have been a copy, or what has cancelled a request.
func TestLeftBehindOfWhatWasNotRead(t *testing.T) {
	for name, unread := range map[string]bool{"all was read": false, "not all was": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			s.ask(0, 500)
			s.resolve("delays", 0, 1, 4, 0)
			v := s.verifier()
			s.expect(s.pass(v), nil, "1 pending")
			want, says := map[string]int64{"missing": 1}, "delays/0@0: due"
			if unread {
				s.removeUnread(&kgo.Record{Topic: "delays", Timestamp: s.at(1), Headers: headers("delay-cancel=0-0-" + millis(s.at(500)))})
				want, says = nil, "1 pending"
			} else {
				s.cut("delays", 0, 1)
			}
			last := s.ask(0, 2)
			s.write(s.delivered(last, 2))
			s.resolve("delays", 0, last.Offset+1, 4, last.Offset+1)
			s.expect(s.pass(v), want, says)
			s.expect(s.pass(v), want, says)
		})
	}
}

// What is left behind may have arrived where it was not read yet.
func TestLeftBehindBeforeAllWasRead(t *testing.T) {
	s := newFakeGroup(t)
	s.ask(0, 500)
	s.resolve("delays", 0, 1, 4, 1)
	v := s.verifier()
	s.pass(v)
	u := check.Unseen{Source: check.Source{Topic: "delays"}, Due: s.at(500).UnixMilli(), Target: "orders", Partition: -1, MayArrive: true, Delivered: s.at(500).UnixMilli()}
	for partial, want := range map[bool]check.Fate{false: check.Lost, true: check.Waits} {
		if v.seen.partial = partial; v.seen.Unseen(u).Fate != want {
			t.Errorf("partial: %v, and it is %d, want %d", partial, v.seen.Unseen(u).Fate, want)
		}
	}
}

// What had a copy is judged by the next checkpoint, too, when its page of offsets was given up.
func TestLeftBehindLater(t *testing.T) {
	s := newFakeGroup(t)
	q := s.ask(0, 500)
	var all []*kgo.Record
	for range 200 {
		all = append(all, s.request(0, "delay-target-topic=orders"))
	}
	for _, r := range slices.Backward(all) {
		s.write(s.condemned(r, "no_due"))
	}
	c := s.carry(q, 0, 500)
	s.resolve("delays", 0, c.Offset+1, 4, c.Offset)
	v := s.verifier()
	s.expect(s.pass(v), nil, "1 pending")
	s.expect(s.pass(v), nil, "1 pending")
	s.resolve("delays", 0, c.Offset+1, 4, c.Offset+1)
	s.expect(s.pass(v), map[string]int64{"missing": 1}, "delays/0@0: due")
}
