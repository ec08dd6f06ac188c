package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/wait"
)

// Member is a group membership as the broker checks it: id and generation (or epoch, KIP-848).
type Member struct {
	ID         string
	Generation int32
	Instance   *string
}

// Valid must hold before any offset commit is sent: the broker accepts a commit of generation -1
// without a member although the group is active.
func (m Member) Valid() bool { return m.ID != "" && m.Generation >= 0 }

// ProducerID is what brokers tell the transactions of a producer by: it is the same from a
// transaction's first request to its decision, or they are two transactions (design rule 8).
type ProducerID struct {
	ID    int64
	Epoch int16
}

// Coordinator sends requests to the coordinator of one group, each exactly once: kgo would
// repeat what was not answered, and a repeated offset commit may arrive late and take a
// checkpoint back. It does the same for the coordinator of a transactional id.
type Coordinator struct {
	group string
	id    string // a transactional id; empty: the group's coordinator

	mu     sync.Mutex
	broker int32
	known  bool
}

// NewCoordinator is for the requests of one group, from whatever goroutine. It finds out by itself which broker is asked.
func NewCoordinator(group string) *Coordinator { return &Coordinator{group: group} }

// NewCoordinatorOf is for the requests of one transactional id.
func NewCoordinatorOf(id string) *Coordinator { return &Coordinator{id: id} }

func (c *Coordinator) find(ctx context.Context, cl *kgo.Client) (int32, error) {
	if broker, known := c.last(); known {
		return broker, nil
	}
	// Not under the lock: another goroutine that asks meanwhile must not wait longer than its own context.
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKey = 0, c.group
	if c.id != "" {
		req.CoordinatorType, req.CoordinatorKey = 1, c.id
	}
	req.CoordinatorKeys = []string{req.CoordinatorKey}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoCoordinator, err)
	}
	node, err := CoordinatorIn(resp)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoCoordinator, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broker, c.known = node, true
	return node, nil
}

// CoordinatorIn reads the answer to a request for one coordinator, old or new.
func CoordinatorIn(resp *kmsg.FindCoordinatorResponse) (int32, error) {
	node, code := resp.NodeID, resp.ErrorCode
	if len(resp.Coordinators) > 0 {
		node, code = resp.Coordinators[0].NodeID, resp.Coordinators[0].ErrorCode
	}
	return node, kerr.ErrorForCode(code)
}

// last is the coordinator as last found.
func (c *Coordinator) last() (broker int32, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broker, c.known
}

func (c *Coordinator) forget() {
	c.mu.Lock()
	c.known = false
	c.mu.Unlock()
}

// send sends req once to the coordinator. An error that wraps ErrUnanswered means that it may
// have been carried out.
func (c *Coordinator) send(ctx context.Context, cl *kgo.Client, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	node, err := c.find(ctx, cl)
	if err != nil {
		return nil, err
	}
	b := cl.Broker(int(node))
	resp, err := Ask(ctx, b, req)
	if err == nil {
		return resp, nil
	}
	if notSent(err) || unknownBroker(err) {
		RefreshBrokers(ctx, cl) // it may have another address by now, or be new to the client
		return nil, c.answer(fmt.Errorf("%w: %w", ErrNoCoordinator, err))
	}
	return nil, c.answer(fmt.Errorf("%w: %w", ErrUnanswered, err))
}

// answer takes in how the coordinator has answered a request, of whichever kind, and gives the error
// back. One that is not the coordinator any more, or does not answer, is looked up again next time.
func (c *Coordinator) answer(err error) error {
	if err != nil && (moved(err) || errors.Is(err, ErrUnanswered)) {
		c.forget()
	}
	return err
}

// unknownBroker reports kgo's "unknown broker", which it does not export: the client has not
// seen that broker in its metadata, so nothing was sent.
func unknownBroker(err error) bool { return err != nil && err.Error() == "unknown broker" }

// Retry repeats do, which sends one request, while its answer says that nothing was
// done and that it should be tried again (a verdict of Retry), for as long as ctx allows.
func (c *Coordinator) Retry(ctx context.Context, do func() error) error {
	for try := 0; ; try++ {
		err := do()
		if err == nil || VerdictOf(err) != Retry {
			return err
		}
		pause := MarkersPause(try)
		if moved(err) || errors.Is(err, kerr.CoordinatorLoadInProgress) {
			pause = wait.Growing(try, 20*time.Millisecond, 500*time.Millisecond)
		} else if try > 20 { // a second or so
			return err
		}
		if !wait.For(ctx, pause) {
			return err
		}
	}
}

// AddOffsets adds the group's offsets to the transaction that is open on cl, by the coordinator of its id: what a cluster asks
// for whose transaction.version is below 2 (KIP-98, KIP-890). It waits for the markers of the id's last transaction for as long as ctx allows.
func (c *Coordinator) AddOffsets(ctx context.Context, cl *kgo.Client, of *Coordinator, in ProducerID) error {
	add := func() error {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = of.id, in.ID, in.Epoch, c.group
		resp, err := of.send(ctx, cl, req)
		if err != nil {
			return err
		}
		return of.answer(kerr.ErrorForCode(resp.(*kmsg.AddOffsetsToTxnResponse).ErrorCode))
	}
	for try := 0; ; try++ {
		err := of.Retry(ctx, add)
		if errors.Is(err, kerr.ConcurrentTransactions) && wait.For(ctx, MarkersPause(try)) {
			continue
		}
		if err != nil {
			return fmt.Errorf("add offsets to transaction %s: %w", of.id, err)
		}
		return nil
	}
}

// Fetched is what the coordinator knows of one partition: offset, metadata, or why it does not say.
type Fetched struct {
	Offset   int64 // -1: nothing is committed
	Epoch    int32 // the leader epoch below it (KIP-320), or -1
	Metadata string
	Unstable bool // a transaction holds the offset (UNSTABLE_OFFSET_COMMIT, KIP-447)
	Err      error
}

// Fetch reads committed offsets; stable refuses those that an open transaction may change (KIP-447). It may be repeated: it changes
// nothing.
func (c *Coordinator) Fetch(ctx context.Context, cl *kgo.Client, ids map[TopicPartition]TopicID, stable bool) (map[TopicPartition]Fetched, error) {
	req := c.fetchRequest(ids)
	req.RequireStable = stable
	nameOf := map[TopicID]string{}
	for tp, id := range ids {
		nameOf[id] = tp.Topic
	}
	asking, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	resp, err := req.RequestWith(asking, cl) // kgo maps the request to what the broker speaks, and may repeat it: it changes nothing
	if err != nil {
		if notSent(err) || unknownBroker(err) || asking.Err() != nil {
			RefreshBrokers(ctx, cl) // it asks the coordinator that it has found once for as long as it knows that broker
		}
		return nil, fmt.Errorf("fetch offsets of group %s: %w", c.group, err)
	}
	if len(resp.Groups) != 1 {
		return nil, fmt.Errorf("fetch offsets of group %s: %d groups in the answer", c.group, len(resp.Groups))
	}
	if err := kerr.ErrorForCode(resp.Groups[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("fetch offsets of group %s: %w", c.group, err)
	}
	out := make(map[TopicPartition]Fetched, len(ids))
	for _, t := range resp.Groups[0].Topics {
		name := t.Topic
		if name == "" {
			name = nameOf[t.TopicID]
		}
		for _, p := range t.Partitions {
			f := Fetched{Offset: p.Offset, Epoch: p.LeaderEpoch}
			if p.Metadata != nil {
				f.Metadata = *p.Metadata
			}
			err := kerr.ErrorForCode(p.ErrorCode)
			if f.Unstable = errors.Is(err, kerr.UnstableOffsetCommit); !f.Unstable {
				f.Err = err
			}
			out[TopicPartition{Topic: name, Partition: p.Partition}] = f
		}
	}
	return out, nil
}

func (c *Coordinator) fetchRequest(ids map[TopicPartition]TopicID) *kmsg.OffsetFetchRequest {
	parts := map[string][]int32{}
	idOf := map[string]TopicID{}
	for tp, id := range ids {
		parts[tp.Topic] = append(parts[tp.Topic], tp.Partition)
		idOf[tp.Topic] = id
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = c.group
	for topic, ps := range parts {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.TopicID, t.Partitions = topic, idOf[topic], ps
		g.Topics = append(g.Topics, t)
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = append(req.Groups, g)
	return req
}
