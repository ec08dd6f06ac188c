package processor

import (
	"context"
	"log/slog"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/internal/disk"
	"github.com/duewheel/duewheel/processor/internal/samples"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/restore"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

const (
	testTopic  = "requests"
	testWindow = 4 * time.Second
)

var (
	testID   = kafka.TopicID{1, 2, 3, 4, 5}
	testTP   = kafka.TopicPartition{Topic: testTopic, Partition: 3}
	testMark = topics.NewMark(testID.Short(), "g", testTP.Partition)
)

// testRoute is one whose records say when they are due; bills may be delivered to or not.
func testRoute(bills bool) topics.Route {
	r := topics.Route{Topic: testTopic, Allow: []string{"orders"}, DeadLetter: testTopic + ".dead"}
	if bills {
		r.Allow = append(r.Allow, "bills")
	}
	return r
}

func mustRoute(r topics.Route) *topics.Route {
	routes, err := topics.NewRoutes(r)
	if err != nil {
		panic(err)
	}
	return routes[0]
}

// testLane makes a lane that does not run: tests call its parts. It has a store and no broker.
func testLane(t *testing.T, tune ...func(*Config)) *lane {
	t.Helper()
	return testProcessor(t, tune...).lanes[0]
}

// testProcessor makes the processor of such a lane, the first one.
func testProcessor(t *testing.T, tune ...func(*Config)) *Processor {
	t.Helper()
	cfg := Config{
		Client: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, Group: "g", Routes: []topics.Route{testRoute(true)},
		Lanes: 1, FS: vfs.NewMem(), MemoryBudget: minMemory, NearWindow: testWindow,
		Instance: "me", Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.UnixMilli(testNow) },
	}
	for _, f := range tune {
		f(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.store.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.store.Close)
	l := p.lanes[0]
	cl, closeReader, err := kafka.NewReader(p.cfg.Client, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeReader)
	l.equip(cl)
	return p
}

// onDisk has the store on a disk that may break.
func onDisk(d *disk.Broken) func(*Config) {
	return func(c *Config) { c.FS = d.FS(vfs.NewMem()) }
}

// loseStore takes the store away: its disk fails from now on.
func (l *lane) loseStore(t *testing.T, d *disk.Broken) {
	t.Helper()
	d.Fail(syscall.ENOSPC)
	err := l.store.Opened().Flush()
	if err == nil {
		t.Fatal("the disk works")
	}
	l.store.Failed(err)
	equal(t, "the store works", l.store.Works(), false)
}

// mendStore gives it back, when it is tried again.
func (l *lane) mendStore(t *testing.T, d *disk.Broken) {
	t.Helper()
	d.Mend()
	l.store.Now = func() time.Time { return time.Now().Add(time.Hour) }
	if err := l.store.Try(); err != nil {
		t.Fatal(err)
	}
}

// outsider is a stay of a lane that the group does not have.
type outsider struct{ membership }

func (outsider) Member() kafka.Member  { return kafka.Member{} }
func (outsider) Leave()                {}
func (outsider) Left() <-chan struct{} { return nil }

// assign gives a lane a partition whose checkpoint and log were found as they are, as a restore
// does. A negative offset is no checkpoint.
func (l *lane) assign(c state.Checkpoint, start, stable, high int64) (*partition, error) {
	f := restore.Found{ID: testID, Fetched: kafka.Fetched{Offset: -1}, Bounds: kafka.Bounds{Start: start, Stable: stable, High: high, Asked: time.Now()}}
	if c.Offset >= 0 {
		c.TopicID = testID.Short()
		md, err := c.Metadata()
		if err != nil {
			return nil, err
		}
		f.Fetched = kafka.Fetched{Offset: c.Offset, Metadata: md}
	}
	p, err := l.bring(testTP, f, true)
	if err != nil {
		return nil, err
	}
	l.partitions = map[kafka.TopicPartition]*partition{testTP: p}
	l.order = []*partition{p}
	return p, nil
}

// bring is a partition as it was found, with its store or without.
func (l *lane) bring(tp kafka.TopicPartition, f restore.Found, opened bool) (*partition, error) {
	env := l.restoreEnv()
	r, _, err := env.Make(tp, f)
	if err == nil && opened {
		err = env.Open(context.Background(), r)
	}
	if err != nil {
		return nil, err
	}
	p := newPartition(r, l.counters.topics[tp.Topic])
	if r.Stopped != nil {
		p.stop(r.Stopped, l.events)
	}
	return p, nil
}

// empty is a partition without a past.
func (l *lane) empty(n int32, opened bool) (*partition, error) {
	return l.bring(kafka.TopicPartition{Topic: testTopic, Partition: n}, restore.Found{ID: testID, Fetched: kafka.Fetched{Offset: -1}, Bounds: kafka.Bounds{Asked: time.Now()}}, opened)
}

// restoring are the partitions that are being restored.
func (l *lane) restoring() (tps []kafka.TopicPartition) {
	for _, p := range l.assigned.All() {
		if p.Phase == PhaseRestoring {
			tps = append(tps, p.TP())
		}
	}
	return tps
}

// checkpointAt completes a checkpoint of the test's partition.
func checkpointAt(l *lane, c state.Checkpoint) state.Checkpoint {
	c.TopicID = testID.Short()
	c.Parsers = pending.WithParser(state.Checkpoint{}, l.routes[testTopic].Spec(), 0)
	return c
}

// livePartition is one without a past, at the beginning of an empty log.
func livePartition(t *testing.T, l *lane) *partition {
	t.Helper()
	p, err := l.assign(state.Checkpoint{Offset: -1}, 0, 0, 0)
	if err == nil {
		err = p.goLive(l.memory.room(len(l.order)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// testNow is the time at which tests begin.
const testNow = int64(1_000_000_000_000)

// req is a request for a target, due at a ms.
func req(offset, due int64, target string) *kgo.Record {
	return samples.Request(testTopic, testTP.Partition, offset, testNow, due, target)
}

// control is the marker of a transaction.
func control(offset int64) *kgo.Record {
	return samples.Marker(testTopic, testTP.Partition, offset, testNow)
}

// read takes in records and fails on an error.
func (l *lane) read(t *testing.T, p *partition, now int64, rs ...*kgo.Record) {
	t.Helper()
	in := l.intake(p)
	for _, r := range rs {
		if err := in.accept(r, now); err != nil {
			t.Fatal(err)
		}
	}
	in.end()
	if err := p.Sync(); err != nil {
		t.Fatal(err)
	}
}

// balance keeps what is near in bounds, as a step does.
func (l *lane) balance(now int64) error {
	_, err := l.memory.fit(l.order, now, true)
	l.reading.throttle(l.order, now, l.memory.room(len(l.order)))
	return err
}

// offsets are those of the items of a part.
func offsetsIn(pt *turn.Part) []int64 {
	if pt == nil {
		return nil
	}
	return offsetsOf(pt.Part)
}

func offsetsOf(pt *pending.Part) (out []int64) {
	for _, it := range pt.Items {
		out = append(out, it.Offset)
	}
	return out
}

// happened decides parts, one after the other, as turns that were committed.
func (l *lane) happened(parts ...*turn.Part) {
	for _, pt := range parts {
		if partitionOf(pt).Undecided() > 0 {
			partitionOf(pt).End()
		}
		tn := &turn.Turn{Env: l.turnEnv(), Tried: []*turn.Part{pt}}
		if len(pt.Items) == 0 {
			l.checkpoints.wrote(tn)
		} else {
			l.turns.settle(tn)
		}
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func equals[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s are %v, want %v", what, got, want)
	}
}

const anyBytes = 1 << 30

func ms(n int64) int64 { return testNow + n }

var farMs = 10 * testWindow.Milliseconds()
