package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// member is a group membership as the broker checks it: id and generation (or epoch, KIP-848).
type member struct {
	id         string
	generation int32
	instance   *string
}

// valid must hold before any offset commit is sent: the broker accepts a commit of generation -1
// without a member although the group is active.
func (m member) valid() bool { return m.id != "" && m.generation >= 0 }

// coordinator sends requests to the coordinator of one group, each exactly once: kgo would
// repeat what was not answered, and a repeated offset commit may arrive late and take a
// checkpoint back. It does the same for the coordinator of a transactional id.
type coordinator struct {
	group string
	id    string // a transactional id; empty: the group's coordinator

	mu     sync.Mutex
	broker int32
	known  bool
}

func (c *coordinator) find(ctx context.Context, cl *kgo.Client) (int32, error) {
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
		return 0, fmt.Errorf("%w: %w", kafka.ErrNoCoordinator, err)
	}
	node, err := coordinatorIn(resp)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", kafka.ErrNoCoordinator, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broker, c.known = node, true
	return node, nil
}

// coordinatorIn reads the answer to a request for one coordinator, old or new.
func coordinatorIn(resp *kmsg.FindCoordinatorResponse) (int32, error) {
	node, code := resp.NodeID, resp.ErrorCode
	if len(resp.Coordinators) > 0 {
		node, code = resp.Coordinators[0].NodeID, resp.Coordinators[0].ErrorCode
	}
	return node, kerr.ErrorForCode(code)
}

// last is the coordinator as last found.
func (c *coordinator) last() (broker int32, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broker, c.known
}

func (c *coordinator) forget() {
	c.mu.Lock()
	c.known = false
	c.mu.Unlock()
}

// send sends req once to the coordinator. An error that wraps errUnanswered means that it may
// have been carried out.
func (c *coordinator) send(ctx context.Context, cl *kgo.Client, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	node, err := c.find(ctx, cl)
	if err != nil {
		return nil, err
	}
	b := cl.Broker(int(node))
	resp, err := b.Request(ctx, req)
	if err == nil {
		return resp, nil
	}
	if kafka.NotSent(err) || unknownBroker(err) {
		kafka.RefreshBrokers(ctx, cl) // it may have another address by now, or be new to the client
		return nil, c.answer(fmt.Errorf("%w: %w", kafka.ErrNoCoordinator, err))
	}
	return nil, c.answer(fmt.Errorf("%w: %w", kafka.ErrUnanswered, err))
}

// answer takes in how the coordinator has answered a request, of whichever kind, and gives the error
// back. One that is not the coordinator any more, or does not answer, is looked up again next time.
func (c *coordinator) answer(err error) error {
	if err != nil && (kafka.Moved(err) || errors.Is(err, kafka.ErrUnanswered)) {
		c.forget()
	}
	return err
}

// unknownBroker reports kgo's "unknown broker", which it does not export: the client has not
// seen that broker in its metadata, so nothing was sent.
func unknownBroker(err error) bool { return err != nil && err.Error() == "unknown broker" }

// retry repeats do, which sends one request, while its answer says that nothing was
// done and that it should be tried again, for as long as ctx allows.
func (c *coordinator) retry(ctx context.Context, cl *kgo.Client, do func() error) error {
	for try := 0; ; try++ {
		err := do()
		if err == nil || kafka.VerdictOf(err) != kafka.Retry {
			return err
		}
		pause := kafka.MarkersPause(try)
		if kafka.Moved(err) || errors.Is(err, kerr.CoordinatorLoadInProgress) {
			pause = wait.Growing(try, 20*time.Millisecond, 500*time.Millisecond)
		} else if try > 20 { // a second or so
			return err
		}
		if !wait.For(ctx, pause) {
			return err
		}
	}
}

// addOffsets adds the group's offsets to the transaction that is open on cl: what a cluster asks
// for whose transaction.version is below 2.
func (c *coordinator) addOffsets(ctx context.Context, cl *kgo.Client, transactionalID string, in identity) error {
	for try := 0; ; try++ {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = transactionalID, in.id, in.epoch, c.group
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return fmt.Errorf("add offsets to transaction %s: %w: %w", transactionalID, kafka.ErrUnanswered, err)
		}
		err = kerr.ErrorForCode(resp.ErrorCode)
		if errors.Is(err, kerr.ConcurrentTransactions) && wait.For(ctx, kafka.MarkersPause(try)) {
			continue
		}
		if err != nil {
			return fmt.Errorf("add offsets to transaction %s: %w", transactionalID, err)
		}
		return nil
	}
}

// fetched is what the coordinator knows of one partition.
type fetched struct {
	offset   int64 // -1: nothing is committed
	metadata string
	unstable bool // a transaction holds the offset (UNSTABLE_OFFSET_COMMIT, KIP-447)
	err      error
}

// fetch reads committed offsets; stable refuses those that an open transaction may change.
func (c *coordinator) fetch(ctx context.Context, cl *kgo.Client, ids map[topicPartition]topicID, stable bool) (map[topicPartition]fetched, error) {
	req := c.fetchRequest(ids)
	req.RequireStable = stable
	nameOf := map[topicID]string{}
	for tp, id := range ids {
		nameOf[id] = tp.Topic
	}
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	resp, err := req.RequestWith(ctx, cl) // kgo maps the request to what the broker speaks, and may repeat it: it changes nothing
	if err != nil {
		return nil, fmt.Errorf("fetch offsets of group %s: %w", c.group, err)
	}
	if len(resp.Groups) != 1 {
		return nil, fmt.Errorf("fetch offsets of group %s: %d groups in the answer", c.group, len(resp.Groups))
	}
	if err := kerr.ErrorForCode(resp.Groups[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("fetch offsets of group %s: %w", c.group, err)
	}
	out := make(map[topicPartition]fetched, len(ids))
	for _, t := range resp.Groups[0].Topics {
		name := t.Topic
		if name == "" {
			name = nameOf[t.TopicID]
		}
		for _, p := range t.Partitions {
			f := fetched{offset: p.Offset}
			if p.Metadata != nil {
				f.metadata = *p.Metadata
			}
			err := kerr.ErrorForCode(p.ErrorCode)
			if f.unstable = errors.Is(err, kerr.UnstableOffsetCommit); !f.unstable {
				f.err = err
			}
			out[topicPartition{Topic: name, Partition: p.Partition}] = f
		}
	}
	return out, nil
}

func (c *coordinator) fetchRequest(ids map[topicPartition]topicID) *kmsg.OffsetFetchRequest {
	parts := map[string][]int32{}
	idOf := map[string]topicID{}
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
