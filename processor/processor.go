package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/duewheel/duewheel/processor/clock"
	"github.com/duewheel/duewheel/processor/group"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/peers"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/retention"
	"github.com/duewheel/duewheel/processor/standby"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/telling"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Processor delivers the records of delay topics when they are due. Make one with New and let
// Run work; everything else may be called from any goroutine at any time.
type Processor struct {
	shared
	lanes    []*lane
	entrance *group.Entrance
	running  atomic.Bool
}

// New checks the configuration and fills in its defaults. It starts nothing and opens nothing.
// The error names everything that is wrong.
func New(cfg Config) (*Processor, error) {
	cfg = cfg.withDefaults()
	cfg.Logger = slog.New(telling.NewQuiet(cfg.Logger.Handler()))
	made, err := topics.NewRoutes(cfg.Routes...)
	if err := errors.Join(cfg.validate(), err, topics.ReserveAudit(cfg.AuditTopic, made)); err != nil {
		return nil, err
	}
	var names []string
	routes := map[string]*topics.Route{}
	for _, r := range made {
		names = append(names, r.Topic)
		routes[r.Topic] = r
	}
	p := &Processor{shared: shared{cfg: cfg, routes: routes, seed: rand.Uint64(), counters: newCounters(names, cfg.Logger), uneven: wait.NewWake(), settings: wait.NewWake(), until: context.Background()}}
	// What a turn keeps for each record is about a KiB, twice over for the one rendered ahead.
	p.cfg.BatchRecords = min(p.cfg.BatchRecords, int(max(p.cfg.MemoryBudget/int64(8*p.cfg.Lanes)/1024, 500)))
	p.cfg.BatchBytes = min(p.cfg.BatchBytes, max(p.cfg.MemoryBudget/int64(8*p.cfg.Lanes), 1<<20))
	p.clock = clock.New(cfg.Now, cfg.MaxClockSkew, cfg.Logger)
	if cfg.Guarantee == ExactlyOnce {
		p.markers = producer.NewMarkers(cfg.Client, cfg.Group, cfg.Logger)
	}
	p.targets = targets.New(cfg.UnknownTargetAfter, cfg.ForbiddenTargetAfter, p.markers.See, cfg.Logger)
	p.entrance = group.NewEntrance(cfg.Group, names, p.waits, cfg.Logger)
	p.store = local.New(state.Options{Dir: p.cfg.StateDir, FS: p.cfg.FS, MemoryBudget: p.cfg.storeBudget(), Logger: p.cfg.Logger}, cfg.Identity, &p.assigned)
	p.members = local.NewMembers(p.store, cfg.Group)
	if cfg.Standbys > 0 {
		p.standbys = standby.New(p.standby())
	}
	for n := range cfg.Lanes {
		p.lanes = append(p.lanes, newLane(&p.shared, n))
	}
	return p, nil
}

// HeapLimit is what a program that has little besides a Processor tells the collector (debug.SetMemoryLimit), in bytes: with it the process takes
// no more than memoryBudget, which is [Config.MemoryBudget], and 256 MiB. A quarter of the budget is for the store, which is not on the heap.
func HeapLimit(memoryBudget int64) int64 { return memoryBudget - memoryBudget/4 + 112<<20 }

// Parallelize has the Go scheduler of a program that has little besides a Processor run as many goroutines at once as there are CPUs for it, and one more for each
// compaction of the store, unless GOMAXPROCS is set. Compactions give way to every other thread (on Linux), but not to goroutines: for up to 10 ms at a time one keeps from others what the
// scheduler runs it on, although the kernel has a CPU for them.
func Parallelize() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.SetDefaultGOMAXPROCS()
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + state.Compactions)
	}
}

// Presence has replicas of a group watch each other, so that what one of them had is with others soon after it has ended, and not when its session does. It is
// called before Run, and returns what other replicas ask for at [PresencePath] and address (host:port, as they reach this one; without a host, or with that of every interface, it is where this
// one reaches brokers from). Without it or an address, and for static members, whose places are kept for them, sessions decide.
func (p *Processor) Presence(address string) http.Handler {
	own := peers.NewPresence()
	if p.cfg.InstanceID == "" && address != "" {
		p.presence = &presence{address: address, own: own}
	}
	return own
}

// Run works until ctx ends. Then it finishes what has begun, writes the checkpoints, leaves the
// group, closes the store and returns nil. Every other return is an error that it could not go
// on with. After [ErrHangs] the program has to end.
func (p *Processor) Run(ctx context.Context) (err error) {
	if p.running.Swap(true) {
		return errors.New("processor: Run was called before")
	}
	if err := p.store.Open(); err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	if p.hearing, p.cfg.Client, err = kafka.ListenTo(p.cfg.Client, p.cfg.Logger); err != nil {
		p.store.Close()
		return err
	}
	if p.markers != nil {
		p.markers.Through(p.cfg.Client)
	}
	// What is known of targets must not be older than the question: kadm answers from kgo's cache.
	cl, err := kgo.NewClient(append(kafka.Options(p.cfg.Client), kgo.MetadataMinAge(100*time.Millisecond))...)
	if err != nil {
		p.store.Close()
		return fmt.Errorf("make client: %w", err)
	}
	for _, r := range p.routes {
		for _, topic := range append(r.LetterBoxes(), r.Topic) {
			p.targets.Keep(topic, true)
		}
		if r.Target != "" {
			p.targets.Keep(r.Target, false)
		}
	}
	if p.cfg.AuditTopic != "" {
		p.targets.Keep(p.cfg.AuditTopic, true)
	}
	// Targets are watched until the last lane has ended: its last turn asks for them.
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	p.watch(watching, cl, &watch)
	lanes, ctx := errgroup.WithContext(ctx)
	defer p.bound(ctx)()
	for _, l := range p.lanes {
		lanes.Go(func() error { return l.run(ctx) })
	}
	if p.standbys != nil {
		lanes.Go(func() error { return p.standbys.Run(ctx, p.cfg.Client) })
	}
	ended := make(chan error, 1)
	go func() { // beside the watchdog, since any of it may hang
		err := lanes.Wait()
		p.presence.end()
		stopWatching()
		watch.Wait()
		cl.Close()
		p.store.Close()
		ended <- err
	}()
	return p.watchdog().wait(ctx, ended)
}

// watch starts what looks after the world around the lanes, until ctx ends.
func (p *Processor) watch(ctx context.Context, cl *kgo.Client, wg *sync.WaitGroup) {
	env := p.retention()
	wg.Go(func() { p.targets.Run(ctx, cl) })
	if p.markers != nil {
		wg.Go(func() { p.markers.Run(ctx, cl) })
	}
	wg.Go(func() {
		clock.NewKeeper(p.clock, cl, p.cfg.Group, p.cfg.Instance, p.cfg.emptyTimeout(), p.cfg.Logger).Run(ctx)
	})
	wg.Go(func() { p.entrance.Run(ctx, cl) })
	left := p.members.Left() // before this process writes who its own are
	wg.Go(func() { group.TakeOut(ctx, cl, p.takeOutConfig(cl), left) })
	wg.Go(func() { p.watchPeers(ctx, cl) })
	wg.Go(func() { p.members.Run(ctx) })
	wg.Go(func() { p.hearing.Run(ctx) })
	wg.Go(func() { retention.NewKeeping(env).Run(ctx, cl) })
	wg.Go(func() { retention.NewTrimming(env).Run(ctx, cl) })
	for n, l := range p.lanes {
		wg.Go(func() { retention.NewCarrier(env, n, l.quota.Recently, l.excerpts).Run(ctx, cl) })
	}
	wg.Go(func() { p.store.Run(ctx) })
	wg.Go(func() { p.counters.deadLetters.Run(ctx) })
	wg.Go(func() { local.NewLeftovers(p.store, p.cfg.Group, p.routes, p.standbys.Has, cl).Run(ctx) })
}

// standby is what the standbys work with.
func (s *shared) standby() *standby.Env {
	return &standby.Env{
		Group: s.cfg.Group, Instance: s.cfg.Instance, Consumer: s.cfg.Protocol == ProtocolConsumer, Copies: s.cfg.Standbys, SessionTimeout: s.cfg.SessionTimeout,
		Routes: s.routes, Store: s.store, Assigned: &s.assigned, Epochs: &s.epochs, Rebalances: &s.counters.rebalances, Uneven: s.uneven, Log: s.cfg.Logger,
	}
}

// retention is what looks after the logs of delay topics works with.
func (s *shared) retention() *retention.Env {
	env := &retention.Env{
		Group: s.cfg.Group, AtLeastOnce: s.cfg.Guarantee == AtLeastOnce, TrimInterval: s.cfg.TrimInterval, SessionTimeout: s.cfg.SessionTimeout,
		Lanes: s.cfg.Lanes, BatchRecords: s.cfg.BatchRecords, CarryRecords: s.cfg.CarryRecords, CarryBytes: s.cfg.CarryBytes,
		Routes: s.routes, Topics: map[string]*retention.Topic{}, Pictures: s.assigned.All, Now: s.clock.Now, Settings: s.settings, Log: s.cfg.Logger,
	}
	for topic, counters := range s.counters.topics {
		env.Topics[topic] = &counters.Topic
	}
	return env
}

// bound makes sure that nothing waits for brokers for long after ctx has ended. What it returns is to be
// called when everything has come to an end.
func (p *Processor) bound(ctx context.Context) (ended func()) {
	until, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	p.until = until
	context.AfterFunc(ctx, func() {
		if wait.For(until, p.cfg.ShutdownTimeout*4/5) { // the rest is for the store
			p.cfg.Logger.Warn("brokers do not answer in time; what is not done is left to the next owner of the partitions")
			giveUp()
		}
	})
	return giveUp
}

// watchdog looks after the processor's lanes.
func (p *Processor) watchdog() watchdog { return watchdog{&p.cfg, p.lanes} }

// waits reports whether a lane is not in the group, and the group has not said why.
func (p *Processor) waits() bool {
	for _, l := range p.lanes {
		if joined, err := l.standing.Get(); !joined && err == nil {
			return true
		}
	}
	return false
}
