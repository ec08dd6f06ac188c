package integration

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
)

// An EndTxn that arrives late, on the last Kafka where an id keeps its epoch from one transaction to the next: it decides whatever
// transaction the id has open in that epoch (seen by hand), so a lane renews its producers when a copy may be on its way.
func TestLateEndTxn(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	t.Parallel()
	c := brokers.Start(t, brokers.Options{Version: brokers.Old, Faults: true})
	for _, test := range []struct {
		name    string
		renewed bool
		end     int64 // of what a read_committed consumer sees: a record, its marker, and the same again
	}{{"by hand in its epoch", false, 4}, {"by hand after a renewal", true, 2}} {
		t.Run(test.name, func(t *testing.T) {
			s := newTenant(t, c, setting{partitions: 1, seed: newSeed(t)})
			end := s.twoTransactions(test.renewed)
			err := end()
			if test.renewed && !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) || !test.renewed && err != nil {
				t.Errorf("the late EndTxn is answered: %v", err)
			}
			eventually(t, func() string {
				stable, err := s.admin.ListCommittedOffsets(t.Context(), s.name+".by-hand")
				if err != nil {
					t.Fatal(err)
				}
				if o, _ := stable.Lookup(s.name+".by-hand", 0); o.Offset < test.end {
					return "the last stable offset to move on"
				} else if o.Offset > test.end {
					t.Fatalf("the last stable offset is %d, want %d", o.Offset, test.end)
				}
				return ""
			})
		})
	}
	for _, test := range []struct {
		name string
		held int
		want string
	}{{"of a lane where a second copy is answered", 1, "committed"}, {"of a lane where no copy is answered", 100, "unknown"}} {
		t.Run(test.name, func(t *testing.T) {
			s := newTenant(t, c, setting{partitions: 1, seed: newSeed(t)})
			l := newLate(test.held)
			p := s.start(s.replica(func(c *replicaConfig) { c.Lanes, c.Dial = 1, l.dial }))
			s.awaitLive(p, 1)
			one := load.Config{Records: 1, TargetPartitions: -1, Due: []load.Due{{Weight: 1, From: -time.Second, To: -time.Millisecond}}}
			s.load(one)
			eventually(t, func() string {
				if p.Stats().Transactions[test.want] == 0 {
					return "a turn that is " + test.want
				}
				return ""
			})
			// Until the id has its offsets in a transaction again, and its record is on its way; or until it is clear that the writer has exchanged it, as it does
			// with one that waits for the end of its last transaction for long.
			l.holdRecords()
			for tries := 0; !l.open(); tries++ {
				if tries == mostTries {
					t.Log("the writer has exchanged the id: nothing is open in it when the late EndTxn comes")
					break
				}
				s.load(one)
			}
			close(l.arrive)
			select {
			case code := <-l.answers:
				if err := kerr.ErrorForCode(code); !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
					t.Errorf("the late EndTxn is answered: %v", err)
				}
			case <-time.After(patience):
				t.Error("the late EndTxn has not arrived")
			}
			close(l.record)
			s.arrive()
			p.stop()
			s.judge()
			l.wg.Wait()
		})
	}
}

// mostTries is how many transactions a lane may do until both of its ids have had a turn, and more.
const mostTries = 20

// twoTransactions commits one transaction, opens another of the same id, which is renewed between them or not, and gives back what
// sends the decision of the first once more.
func (s *tenant) twoTransactions(renew bool) (end func() error) {
	s.t.Helper()
	topic, id := s.name+".by-hand", s.name+"-by-hand"
	s.create(1, nil, topic)
	s.t.Cleanup(func() { s.admin.DeleteTopics(context.Background(), topic) })
	var was *kmsg.EndTxnRequest
	var cl *kgo.Client
	for range 2 {
		var err error
		if cl == nil {
			if cl, err = kgo.NewClient(append(s.opts(), kgo.TransactionalID(id))...); err != nil {
				s.t.Fatal(err)
			}
			s.t.Cleanup(cl.Close)
		}
		if err := cl.BeginTransaction(); err != nil {
			s.t.Fatal(err)
		}
		if err := cl.ProduceSync(s.t.Context(), &kgo.Record{Topic: topic, Value: []byte("value")}).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
		if was != nil {
			break
		}
		was = kmsg.NewPtrEndTxnRequest()
		was.TransactionalID, was.Commit = id, true
		if was.ProducerID, was.ProducerEpoch, err = cl.ProducerID(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		if err := cl.EndTransaction(s.t.Context(), kgo.TryCommit); err != nil {
			s.t.Fatal(err)
		}
		if renew {
			cl = nil
		}
	}
	return func() error {
		resp, err := was.RequestWith(s.t.Context(), s.client)
		if err != nil {
			s.t.Fatal(err)
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	}
}

// late holds back the first EndTxn that is sent, and as many copies of it as it is told to; later the records of the same id.
type late struct {
	*post
	arrive, record chan struct{} // closed: what was held back goes on

	mu      sync.Mutex
	left    int
	id      string // transactional id of what is held back
	records bool
	opened  chan struct{}
}

func newLate(copies int) *late {
	l := &late{arrive: make(chan struct{}), record: make(chan struct{}), left: copies, opened: make(chan struct{})}
	l.post = &post{hold: l.holds, answers: make(chan int16, copies)}
	return l
}

func (l *late) holds(q kmsg.Request) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch q := q.(type) {
	case *kmsg.EndTxnRequest:
		if q.Commit && l.left > 0 && !l.records && (l.id == "" || l.id == q.TransactionalID) { // what asks for the time aborts
			l.id = q.TransactionalID
			l.left--
			return l.arrive
		}
	case *kmsg.ProduceRequest:
		if l.records && q.TransactionID != nil && *q.TransactionID == l.id {
			l.records = false
			close(l.opened)
			return l.record
		}
	}
	return nil
}

func (l *late) holdRecords() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.records = 0, true
}

// open waits for a moment and reports whether records are held back.
func (l *late) open() bool {
	select {
	case <-l.opened:
		return true
	case <-time.After(200 * time.Millisecond):
		return false
	}
}
