package standby

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/telling"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Set is the standbys that a process keeps. One goroutine reads and follows for all of
// them; lanes take from them what they take over. A nil one keeps none.
type Set struct {
	allotment // owned by Run; what is in Env is set once

	// Set once.
	coordinator *kafka.Coordinator

	mu sync.Mutex
	m  map[kafka.TopicPartition]*standby // guarded by mu, and so is each of them

	// Owned by Run.
	reader    *kgo.Client
	reading   map[kafka.TopicPartition]bool // false: paused
	notBefore map[kafka.TopicPartition]time.Time
	gaveUp    map[kafka.TopicPartition]string // why it was said last that one is given up, until it follows
	unseen    telling.Lasting                 // why checkpoints cannot be looked up
}

const (
	// followInterval is how often checkpoints are looked up, in one request for all partitions. A
	// takeover reads again what has come since.
	followInterval = 500 * time.Millisecond
	// retryAfter is how long a standby rests after an error.
	retryAfter = 10 * time.Second
	// fetchBytes bounds what one fetch holds for all standbys.
	fetchBytes = 4 << 20
)

// New makes those of a process, which keeps none yet.
func New(env *Env) *Set {
	s := &Set{
		coordinator: kafka.NewCoordinator(env.Group), m: map[kafka.TopicPartition]*standby{},
		reading: map[kafka.TopicPartition]bool{}, notBefore: map[kafka.TopicPartition]time.Time{}, gaveUp: map[kafka.TopicPartition]string{},
	}
	s.allotment = allotment{Env: env, log: env.Log.With("standbys", env.Copies), kept: s.Pictures, rebalance: -1, evenPause: evenInterval}
	return s
}

// Run keeps the standbys until ctx ends; client are the options that every client of the process is made with.
func (s *Set) Run(ctx context.Context, client []kgo.Opt) (err error) {
	var closeReader func()
	if s.reader, closeReader, err = kafka.NewReader(client, fetchBytes); err != nil {
		return fmt.Errorf("make reader of standbys: %w", err)
	}
	defer closeReader()
	var allotted time.Time
	for ctx.Err() == nil {
		if time.Since(allotted) >= allotInterval || s.rebalance != s.Rebalances.Load() {
			allotted = time.Now()
			s.allot(ctx, s.reader)
		}
		s.follow(ctx)
		s.read(ctx, time.Now().Add(followInterval))
	}
	return nil
}

// follow looks up the checkpoints and brings every standby up to its own. It asks for committed
// values, whatever transactions are open: they are behind, never ahead.
func (s *Set) follow(ctx context.Context) {
	s.mu.Lock()
	for tp := range s.m {
		if !slices.Contains(s.wanted, tp) && !s.mine[tp] && !s.Assigned.Has(tp) { // else a lane is about to take it
			delete(s.m, tp)
		}
	}
	s.mu.Unlock()
	if len(s.ids) > 0 {
		got, err := s.coordinator.Fetch(ctx, s.reader, s.ids, false)
		if ctx.Err() == nil {
			s.unseen.Tell(s.log, err, "checkpoints cannot be looked up, so standbys fall behind; asking again")
		}
		for tp, f := range got {
			s.followOne(ctx, tp, s.ids[tp], f)
		}
	}
	s.steer()
}

func (s *Set) followOne(ctx context.Context, tp kafka.TopicPartition, id kafka.TopicID, f kafka.Fetched) {
	if f.Err != nil || f.Offset < 0 || time.Now().Before(s.notBefore[tp]) {
		return
	}
	c, err := state.ParseCheckpoint(f.Offset, f.Epoch, f.Metadata)
	if err != nil || c.TopicID != id.Short() {
		return // its owner says what there is to be said
	}
	if b := s.of(tp); b == nil || b.id != id {
		err = s.begin(ctx, tp, id, c)
	} else {
		err = s.step(b, func() error {
			jumped, err := b.Follow(c)
			if jumped {
				delete(s.reading, tp)
			}
			return err
		})
	}
	s.restAfter(tp, err)
}

// step does something with a standby, unless a lane has taken it over.
func (s *Set) step(b *standby, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[b.TP] != b {
		return nil
	}
	err := do()
	if err != nil {
		delete(s.m, b.TP)
	}
	return err
}

// restAfter leaves a standby alone for a while that something went wrong with: it is not worth a second try at once.
func (s *Set) restAfter(tp kafka.TopicPartition, err error) {
	if err == nil || errors.Is(err, state.ErrEnded) { // a lane has it now
		return
	}
	s.notBefore[tp] = time.Now().Add(retryAfter)
	if kafka.IsTopicGone(err) { // the reader holds on to the id that it has seen first
		s.reader.PurgeTopicsFromConsuming(tp.Topic)
		maps.DeleteFunc(s.reading, func(other kafka.TopicPartition, _ bool) bool { return other.Topic == tp.Topic })
	}
	if errors.Is(err, state.ErrFailed) || errors.Is(err, local.ErrNoStore) {
		s.Store.Failed(err) // and it says so, once
		return
	}
	level := slog.LevelWarn
	if s.gaveUp[tp] == err.Error() {
		level = slog.LevelDebug // what the log has lost its owner may hold for a month
	}
	s.gaveUp[tp] = err.Error()
	s.log.Log(context.Background(), level, "standby is given up for a while", "topic", tp.Topic, "partition", tp.Partition, "error", err)
}

// begin starts a standby, unless this process has partitions of its own to bring back: those come
// first.
func (s *Set) begin(ctx context.Context, tp kafka.TopicPartition, id kafka.TopicID, c state.Checkpoint) error {
	for _, p := range s.Assigned.All() {
		if p.Phase == picture.Restoring || p.Phase == picture.CatchUp {
			return nil
		}
	}
	asking, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	bounds, err := kafka.AskBounds(asking, s.reader, []kafka.TopicPartition{tp})
	if err != nil {
		return err
	}
	if err := bounds[tp].Err; err != nil {
		return err
	}
	return s.open(ctx, tp, id, c, bounds[tp])
}

// open starts a standby. Counting what the store holds may take long and is done without the lock;
// a lane that takes the partition over meanwhile ends the handle.
func (s *Set) open(ctx context.Context, tp kafka.TopicPartition, id kafka.TopicID, c state.Checkpoint, bounds kafka.Bounds) error {
	store, err := s.Store.PartitionUnlessOurs(s.Store.ID(tp, id))
	if store == nil || err != nil {
		return err
	}
	b := &standby{
		Heir: local.Heir{TP: tp, Route: s.Routes[tp.Topic], Store: store, Reader: s.reader, Epochs: s.Epochs, Log: s.log.With("topic", tp.Topic, "partition", tp.Partition)},
		id:   id, mark: topics.NewMark(id.Short(), cmp.Or(c.Identity, s.Group), tp.Partition),
	}
	if err := b.ForgetLost(ctx, c, state.NoEpoch, bounds.High); err != nil {
		return err
	}
	if err := b.open(ctx, c, bounds.Start); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Assigned.Has(tp) {
		return nil
	}
	s.m[tp] = b
	delete(s.reading, tp)
	delete(s.gaveUp, tp)
	b.Log.Info("standby follows", "from", b.Marks().Position, "offset", c.Offset, "pending", b.Pending())
	return nil
}

// Take gives a standby to the lane that takes its partition over; nil when there is none. From
// then on nothing is done with it here. The lane has the partition among the assigned ones.
func (s *Set) Take(tp kafka.TopicPartition, id kafka.TopicID) *pending.Follower {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.m[tp]
	delete(s.m, tp)
	if b == nil || b.id != id {
		return nil
	}
	return b.Follower
}

// Advance has a standby take in what its owner has accepted by a checkpoint, as far as it has read that: the log may not have it any more.
func (s *Set) Advance(tp kafka.TopicPartition, id kafka.TopicID, c state.Checkpoint) error {
	b := s.of(tp)
	if b == nil || b.id != id {
		return nil
	}
	return s.step(b, func() error { return b.Advance(c) })
}

// of is the standby of a partition; nil when there is none.
func (s *Set) of(tp kafka.TopicPartition) *standby {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[tp]
}

// Has reports whether one is kept of a partition.
func (s *Set) Has(tp kafka.TopicPartition) bool { return s.of(tp) != nil }

// steer makes the reader read what the standbys want.
func (s *Set) steer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tp := range s.reading {
		if s.m[tp] == nil {
			s.reader.RemoveConsumePartitions(tp.Alone())
			delete(s.reading, tp)
		}
	}
	add := map[string]map[int32]kgo.Offset{} // in one call: see announce
	for tp, b := range s.m {
		pause := b.unread.Rests(s.reader, tp) || b.Waiting() > 0
		switch reads, known := s.reading[tp]; {
		case !known:
			s.reader.RemoveConsumePartitions(tp.Alone())
			s.reader.ResumeFetchPartitions(tp.Alone())
			if add[tp.Topic] == nil {
				add[tp.Topic] = map[int32]kgo.Offset{}
			}
			add[tp.Topic][tp.Partition] = kgo.NewOffset().At(b.Marks().Position)
			s.reading[tp] = true
		case reads && pause:
			s.reader.PauseFetchPartitions(tp.Alone())
			s.reading[tp] = false
		case !reads && !pause:
			s.reader.ResumeFetchPartitions(tp.Alone())
			s.reading[tp] = true
		}
	}
	s.reader.AddConsumePartitions(add)
}

// read takes in what the reader has until it is time to look at the checkpoints again.
func (s *Set) read(ctx context.Context, until time.Time) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for ctx.Err() == nil {
		if !s.Store.HasRoom() {
			wait.For(ctx, local.RoomPause)
			continue
		}
		fs := kafka.PollSome(ctx, s.reader)
		fs.EachPartition(func(ftp kgo.FetchTopicPartition) {
			tp := kafka.TopicPartition{Topic: ftp.Topic, Partition: ftp.Partition}
			b := s.of(tp)
			if b == nil || ftp.Err != nil && (kafka.IsShutdown(ftp.Err) || errors.Is(ftp.Err, context.DeadlineExceeded)) {
				return
			}
			s.restAfter(tp, s.step(b, func() error {
				if err := b.read(ftp.Records); err != nil || ftp.Err == nil || errors.Is(ftp.Err, kafka.ErrCut) {
					return err
				}
				return b.refused(ftp.Err, s.SessionTimeout)
			}))
		})
		s.steer()
	}
}

// Pictures are those of the standbys, by topic and partition.
func (s *Set) Pictures() []picture.Standby {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []picture.Standby
	for tp, b := range s.m {
		m := b.Marks()
		out = append(out, picture.Standby{Topic: tp.Topic, Partition: tp.Partition, Offset: m.Committed.Offset, Position: m.Position, Pending: b.Pending()})
	}
	slices.SortFunc(out, func(a, b picture.Standby) int {
		return kafka.Compare(kafka.TopicPartition{Topic: a.Topic, Partition: a.Partition}, kafka.TopicPartition{Topic: b.Topic, Partition: b.Partition})
	})
	return out
}
