//go:build synctests

package processor

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/twmb/franz-go/pkg/kgo"
)

// process is one run of the processor and the machine that it runs on.
type process struct {
	w     *world
	name  string
	link  *link
	fs    *vfs.MemFS
	full  atomic.Bool                   // the disk takes nothing more
	fails atomic.Bool                   // the next thing that is written fails
	still atomic.Pointer[chan struct{}] // no table is written before that is closed
	hangs atomic.Pointer[chan struct{}] // nor read
	skew  atomic.Int64
	p     *Processor
	stop  context.CancelFunc
	done  chan struct{}
	err   error        // of Run; set when done is closed
	ended atomic.Bool  // killed or stopped
	lines atomic.Int64 // of its log, at level info and above

	telling sync.Mutex
	events  []Event // guarded by telling

	crashed atomic.Pointer[crashed] // set by the act that kills it while the test goes on
}

type crashed struct {
	disk *vfs.MemFS
	down time.Duration
}

// start starts a process on a disk; nil is an empty one.
func (w *world) start(name string, disk *vfs.MemFS) *process {
	w.t.Helper()
	return w.startOn(name, disk, false)
}

// startAt starts a process whose clock is off.
func (w *world) startAt(name string, skew time.Duration) *process {
	w.t.Helper()
	return w.launch(name, nil, false, skew)
}

// startOn is start on a disk that may be full from the beginning.
func (w *world) startOn(name string, disk *vfs.MemFS, full bool) *process {
	w.t.Helper()
	return w.launch(name, disk, full, 0)
}

func (w *world) launch(name string, disk *vfs.MemFS, full bool, skew time.Duration) *process {
	w.t.Helper()
	if disk == nil {
		disk = vfs.NewCrashableMem()
	}
	life := fmt.Sprintf("%s-%d", name, len(w.processes))
	p := &process{w: w, name: name, fs: disk, done: make(chan struct{})}
	p.full.Store(full)
	p.skew.Store(int64(skew))
	p.link = newLink(w.host, life, w.rng.Uint64())
	cfg := Config{
		Client: []kgo.Opt{kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.Dialer(p.link.dial)},
		Group:  w.group, Routes: w.routes(), Guarantee: w.cfg.guarantee, Lanes: 1,
		StateDir: "state", FS: errorfs.Wrap(disk, errorfs.InjectorFunc(p.write)), MemoryBudget: minMemory,
		SessionTimeout: session, HeartbeatInterval: 200 * time.Millisecond,
		NearWindow: 5 * time.Second, Instance: life,
		RetryBackoff: 2 * time.Second, UnknownTargetAfter: 3 * time.Second,
		Now:    func() time.Time { return time.Now().Add(time.Duration(p.skew.Load())) },
		Logger: slog.New(simLog{w: w, name: name, life: life, lines: &p.lines}),
		Events: p.hear,
	}
	if w.cfg.audit && w.host == w {
		cfg.AuditTopic = simAudit
	}
	if w.cfg.tune != nil {
		w.cfg.tune(&cfg)
	}
	var err error
	if p.p, err = New(cfg); err != nil {
		w.fail("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	w.processes = append(w.processes, p)
	w.note("---- %s starts", name)
	go func() {
		defer close(p.done)
		p.err = p.p.Run(ctx)
		w.note("---- %s has ended: %v", name, p.err)
	}()
	return p
}

// kill ends a process as kill -9 does, and gives back its disk: the operating system lives on,
// so nothing that was written is lost.
func (p *process) kill() *vfs.MemFS { return p.crash(100) }

// crash ends a process; of what was not synced, only a part is on its disk.
func (p *process) crash(unsynced int) *vfs.MemFS {
	p.w.note("---- %s is killed", p.name)
	p.ended.Store(true)
	if p.w.cfg.flush {
		p.flush()
	}
	p.link.kill()
	disk := p.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(p.w.cfg.seed, 7))})
	p.stop()
	return disk
}

// write is asked about everything that is done with the disk.
func (p *process) write(op errorfs.Op) error {
	if p.full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		return syscall.ENOSPC
	}
	if still := p.still.Load(); still != nil && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
		<-*still
	}
	if hangs := p.hangs.Load(); hangs != nil && (op.Kind == errorfs.OpFileReadAt || op.Kind == errorfs.OpOpen) && strings.HasSuffix(op.Path, ".sst") {
		<-*hangs
	}
	if op.Kind == errorfs.OpFileWrite && p.fails.Swap(false) {
		return syscall.EIO
	}
	return nil
}

// fill makes the disk full, and lets the store notice.
func (p *process) fill() (empty func()) {
	p.w.note("---- the disk of %s is full", p.name)
	p.full.Store(true)
	p.flush()
	return func() {
		p.w.note("---- the disk of %s has room again", p.name)
		p.full.Store(false)
	}
}

// hang has nothing come back that is read from the disk, as with a network volume that is gone.
func (p *process) hang() (resume func()) {
	p.w.note("---- nothing comes back from the disk of %s", p.name)
	hangs := make(chan struct{})
	p.hangs.Store(&hangs)
	return func() {
		p.hangs.Store(nil)
		close(hangs)
	}
}

// halt makes the disk stand still: nothing fails, and no table is written.
func (p *process) halt() (resume func()) {
	p.w.note("---- the disk of %s stands still", p.name)
	still := make(chan struct{})
	p.still.Store(&still)
	return func() {
		p.w.note("---- the disk of %s goes on", p.name)
		p.still.Store(nil)
		close(still)
	}
}

// flush brings what the store was told to the disk, as it happens now and then.
func (p *process) flush() {
	if s := p.p.store.Opened(); s != nil {
		s.Flush() // a store that is being closed is flushed anyway
	}
}

// shut stops a process as SIGTERM does, waits for it, and gives back its disk.
func (p *process) shut() *vfs.MemFS {
	p.w.t.Helper()
	p.w.note("---- %s is told to stop", p.name)
	p.ended.Store(true)
	p.stop()
	<-p.done
	if p.err != nil {
		p.w.t.Errorf("%s: %v", p.name, p.err)
	}
	p.link.kill()
	return p.fs
}

// live reports whether the process has partitions of the delay topic, all live.
func (p *process) live(n int) bool {
	live := 0
	for _, s := range p.p.Stats().Partitions {
		if s.Phase == PhaseLive && s.Topic == simTopic {
			live++
		}
	}
	return live == n
}

// joined reports whether the first lane is a member of the group.
func (p *process) joined() bool {
	joined, _ := p.p.lanes[0].standing.Get()
	return joined
}

// simLog writes a process's log into the world's history.
type simLog struct {
	w     *world
	name  string
	life  string
	attrs string
	lines *atomic.Int64
}

func (simLog) Enabled(context.Context, slog.Level) bool { return true }

func (h simLog) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&b, " %s=%v", a.Key, a.Value); return true })
	if r.Level >= slog.LevelInfo {
		h.lines.Add(1)
		h.w.count(h.life, "log lines")
		h.w.note("%s %s: %s%s%s", h.name, r.Level, r.Message, h.attrs, b.String())
		h.w.hearOfLoss(r.Message + h.attrs + b.String())
	}
	return nil
}

func (h simLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.attrs += fmt.Sprintf(" %s=%v", a.Key, a.Value)
	}
	return h
}

func (h simLog) WithGroup(string) slog.Handler { return h }
