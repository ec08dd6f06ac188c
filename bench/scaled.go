package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// scaled is a store, and the partitions of a process in it.
type scaled struct {
	dir    string
	store  *state.Store
	env    pending.Env
	room   pending.Room
	ps     []*pending.Partition
	ends   []int64            // of the logs
	cs     []state.Checkpoint // as committed
	part   *state.Partition   // of the last partition
	record *kgo.Record
	values []byte
	noise  *rand.Rand
	now    int64

	reading bool // below O: nothing is committed
}

func newScaled(dir string, partitions int) (*scaled, error) {
	routes, err := topics.NewRoutes(topics.Route{Topic: "requests", Allow: []string{"orders"}, DeadLetter: "requests.dead"})
	if err != nil {
		return nil, err
	}
	s := &scaled{
		dir: dir, now: scaleStart, values: make([]byte, 4<<20), noise: rand.New(rand.NewPCG(1, 2)),
		env:  pending.Env{Route: routes[0], Mark: topics.NewMark([4]byte{1}, "g", 0), Skew: 1000},
		room: pending.Room{Window: 60_000, Most: 60_000, Budget: scaleNear, Share: scaleNear / int64(partitions)},
		ps:   make([]*pending.Partition, partitions), ends: make([]int64, partitions), cs: make([]state.Checkpoint, partitions),
		record: &kgo.Record{Key: []byte("customer-1234"), Timestamp: time.UnixMilli(scaleStart), Headers: []kgo.RecordHeader{
			{Key: topics.HeaderUntil}, {Key: topics.HeaderTargetTopic, Value: []byte("orders")}}},
	}
	rand.NewChaCha8([32]byte{1}).Read(s.values)
	for i := range s.cs {
		s.cs[i] = state.Checkpoint{TopicID: [4]byte{1}}
		s.cs[i].Parsers = pending.WithParser(s.cs[i], s.env.Route.Spec(), 0)
	}
	return s, s.open(context.Background())
}

// open opens the store, and brings the partitions up as a process does that is started again, but for what it asks Kafka.
func (s *scaled) open(ctx context.Context) (err error) {
	if s.store, err = state.Open(state.Options{Dir: s.dir, MemoryBudget: scaleStore}); err != nil {
		return err
	}
	for i := range s.ps {
		if s.ps[i], err = pending.New(s.env, s.cs[i], pending.Sighting{End: s.ends[i], At: s.now}); err != nil {
			return err
		}
		part, err := s.store.Partition(state.PartitionID{Group: "g", Topic: "requests", TopicID: [16]byte{1}, Partition: int32(i)})
		if err != nil {
			return err
		}
		got, err := pending.Inherit(ctx.Err, s.env.Route, part, s.cs[i], 0, s.ends[i])
		if err != nil {
			return err
		}
		if got.Unused != nil {
			return fmt.Errorf("the store is of no use: %w", got.Unused)
		}
		s.part = part
		s.ps[i].Trust(math.MaxInt64)
		s.ps[i].Use(part, got, s.now, s.room.Window)
		if s.reading {
			continue
		}
		s.ps[i].Pass(s.ends[i], state.NoEpoch)
		for live := false; !live; {
			if live, err = s.ps[i].Enliven(s.room); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill takes in records that are due within a day, an hour from now at the earliest.
func (s *scaled) fill(ctx context.Context, n int) error {
	return s.take(ctx, n, func() int64 { return s.now + 3_600_000 + s.noise.Int64N(86_400_000) })
}

// take takes in records as fetches bring them, and commits a checkpoint now and then.
func (s *scaled) take(ctx context.Context, n int, due func() int64) error {
	for from := 0; from < n; from += scaleSync {
		i := from / scaleSync % len(s.ps)
		p := s.ps[i]
		for range min(scaleSync, n-from) {
			s.record.Offset = s.ends[i]
			s.record.Value = s.values[s.noise.IntN(len(s.values)-scaleValue):][:scaleValue] // which cannot be compressed
			s.record.Headers[0].Value = strconv.AppendInt(s.record.Headers[0].Value[:0], due(), 10)
			if _, err := p.Accept(s.record, s.now); err != nil {
				return err
			}
			s.ends[i]++
		}
		if err := errors.Join(p.Sync(), ctx.Err()); err != nil {
			return err
		}
		if from/scaleSync%(10*len(s.ps)) < len(s.ps) {
			s.commit(i)
		}
	}
	return nil
}

// commit writes the checkpoint of a partition.
func (s *scaled) commit(i int) {
	if s.reading {
		return
	}
	if pt := s.ps[i].Checkpoint(); pt != nil {
		s.ps[i].Wrote(pt)
		s.cs[i] = pt.To
	}
}

// close ends the process as SIGTERM does.
func (s *scaled) close() error {
	var err error
	for i, p := range s.ps {
		s.commit(i)
		err = errors.Join(err, p.Flush())
		s.ps[i] = nil
	}
	return errors.Join(err, s.store.Close())
}

// pass takes in records that are due soon and delivers them, for so many, and returns how long that took on the CPU.
func (s *scaled) pass(ctx context.Context, n int) (took, cpu time.Duration, err error) {
	began, used := time.Now(), cpuTime()
	items := make([]pending.Item, 0, 20_000)
	for done := 0; done < n; {
		batch := min(n-done, 20_000)
		if err := s.take(ctx, batch, func() int64 { return s.now + 20 + s.noise.Int64N(50) }); err != nil {
			return 0, 0, err
		}
		s.now += 70
		for i, p := range s.ps {
			if err := p.Load(s.now, s.room); err != nil {
				return 0, 0, err
			}
			for pt := p.Take(s.now, items[:0], 20_000, 1<<30); pt != nil; pt = p.Take(s.now, items[:0], 20_000, 1<<30) {
				done += len(pt.Items)
				p.Settle(pt)
				p.Committed(pt)
				s.cs[i] = pt.To
			}
			if err := p.Tidy(false); err != nil {
				return 0, 0, err
			}
		}
	}
	return time.Since(began), cpuTime() - used, nil
}

// settle reads something now and then, until nothing is left to compact.
func (s *scaled) settle(ctx context.Context) error {
	for still := 0; still < 5; still++ {
		if err := s.part.Scan(state.Key{}, func(state.Key, []byte) bool { return false }); err != nil {
			return err
		}
		busy, err := s.store.Compacting()
		if err != nil {
			return err
		}
		if busy {
			still = 0
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// replay has the partitions read again what they have read, into an empty store.
func (s *scaled) replay(ctx context.Context, dir string, n int) error {
	if err := s.store.Close(); err != nil {
		return err
	}
	for i := range s.cs {
		s.cs[i].Offset, s.ends[i] = int64(n), 0
	}
	s.dir, s.reading = dir, true
	return s.open(ctx)
}

// checked says whether as many are pending as there should be.
func (s *scaled) checked(n int) string {
	pending := int64(0)
	for _, p := range s.ps {
		pending += p.Pending()
	}
	if pending != int64(n) {
		return fmt.Sprintf("%s are pending, want %s", thousands(pending), thousands(int64(n)))
	}
	return thousands(pending) + " are pending"
}
