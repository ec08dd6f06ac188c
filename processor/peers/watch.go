package peers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/duewheel/duewheel/processor/telling"
	"github.com/duewheel/duewheel/processor/wait"
)

// Path is where the presence of a replica is served.
const Path = "/presence"

// Env is what a Watch works with. All of it is needed.
type Env struct {
	Self string // the name of this replica
	// Addresses says where the replicas of the group are to be found, by name; nil while the group is being rebalanced.
	Addresses func(ctx context.Context) (map[string]string, error)
	// TakeOut takes the members of a replica out of the group, and returns how many there were.
	TakeOut     func(ctx context.Context, replica string) (int, error)
	AtLeastOnce bool
	Dial        func(ctx context.Context, network, address string) (net.Conn, error)
	Log         *slog.Logger
}

// Watch is what a replica knows of others by looking at them.
type Watch struct {
	*Env
	client *http.Client
	silent telling.Lasting // why the group does not say who is in it

	heard    atomic.Int64 // replicas that are heard now
	awaited  atomic.Int64 // replicas that were heard, and neither stopped nor were judged
	takenOut atomic.Int64 // replicas that were

	mu     sync.Mutex
	judged map[verdict]bool // true: wrong, since the replica was heard again
}

// verdict is that a replica was taken for gone, and taken out.
type verdict struct {
	replica string
	certain bool // by its end, and not by its silence
}

// NewWatch makes one that watches nothing yet.
func NewWatch(env *Env) *Watch {
	return &Watch{Env: env, client: newClient(env.Dial), judged: map[verdict]bool{}}
}

// Heard is how many replicas are heard now.
func (w *Watch) Heard() int64 { return w.heard.Load() }

// TakenOut is how many replicas were taken out of the group.
func (w *Watch) TakenOut() int64 { return w.takenOut.Load() }

const (
	// lookInterval is the time between two looks at who is in the group.
	lookInterval = 2 * time.Second
	// lookShare is the time between the looks of two replicas of a large group: each takes the coordinator time that grows with the group.
	lookShare = 100 * time.Millisecond
	// silentLooks is how many looks in a row may have no answer before that is told.
	silentLooks = 5
	// watchedMost is how many replicas are watched.
	watchedMost = 3
)

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	watched := map[string]context.CancelFunc{} // by name and address
	misses := 0                                // looks at the group in a row without an answer
	for {
		addresses, err := w.Addresses(ctx)
		if misses++; err == nil {
			misses = 0
		}
		if ctx.Err() == nil && (misses == 0 || misses >= silentLooks) {
			w.silent.Tell(w.Log, err, "the group does not say where its replicas are; those that are watched stay as they are")
		}
		if addresses != nil {
			next := w.next(addresses)
			for at, stop := range watched {
				if !slices.ContainsFunc(next, func(p *peer) bool { return p.key() == at }) {
					stop()
					delete(watched, at)
				}
			}
			for _, p := range next {
				if watched[p.key()] == nil {
					watching, stop := context.WithCancel(ctx)
					watched[p.key()] = stop
					wg.Go(func() { w.watch(watching, p) })
				}
			}
		}
		if !wait.For(ctx, max(lookInterval, time.Duration(len(addresses))*lookShare)) {
			return
		}
	}
}

// next are the replicas that are to be watched: those that follow this one in the order of names.
func (w *Watch) next(addresses map[string]string) (next []*peer) {
	var names []string
	for name, address := range addresses {
		if name != w.Self && address != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	from, _ := slices.BinarySearch(names, w.Self)
	for i := range min(len(names), watchedMost) {
		name := names[(from+i)%len(names)]
		next = append(next, &peer{replica: name, address: addresses[name]})
	}
	return next
}

// peer is another replica. It belongs to the goroutine that watches it.
type peer struct {
	replica, address string
	heard            bool      // since it was judged last
	last             time.Time // when it was heard last
	answered         bool      // the group has answered since, so it is not this replica that nothing reaches
	among            bool      // others were heard then
	told             bool      // that its session decides, since it was heard last
}

func (p *peer) key() string { return p.replica + " " + p.address }

const (
	// acquaintPause is the time between two tries to hear one that was not heard yet.
	acquaintPause = time.Second
	// lookForPause is the time between two tries to hear one that was.
	lookForPause = 50 * time.Millisecond
	// patience is for how long one that was heard may be silent.
	patience = 3 * time.Second
)

// watch listens to a replica until ctx ends, and judges it when it is not heard any more.
func (w *Watch) watch(ctx context.Context, p *peer) {
	defer w.await(p, false)
	for ctx.Err() == nil {
		err := w.listen(ctx, p)
		pause := lookForPause
		switch {
		case ctx.Err() != nil:
			return
		case !p.heard, errors.Is(err, errStopped):
			w.await(p, false)
			pause = acquaintPause
		case errors.Is(err, errAsleep):
			p.last, p.answered = time.Now(), false
		case !p.answered: // who is cut off hears nothing, and would take others out as soon as it is back
			_, err := w.Addresses(ctx)
			p.answered, p.among = err == nil, !w.deaf()
		case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, errAnother):
			w.judge(ctx, p, err, true)
		case time.Since(p.last) >= patience:
			w.judge(ctx, p, err, false)
			pause = acquaintPause
		}
		wait.For(ctx, pause)
	}
}

// listen listens to a replica once.
func (w *Watch) listen(ctx context.Context, p *peer) error {
	connected := false
	defer func() {
		if connected {
			w.heard.Add(-1)
		}
	}()
	return listen(ctx, w.client, p.replica, p.address, func() {
		if !connected {
			connected = true
			w.heard.Add(1)
			w.meet(p)
		}
		w.await(p, true)
		p.last, p.answered, p.told = time.Now(), false, false
	})
}

// await notes whether a replica is to be heard.
func (w *Watch) await(p *peer, is bool) {
	switch {
	case is && !p.heard:
		w.awaited.Add(1)
	case !is && p.heard:
		w.awaited.Add(-1)
	}
	p.heard = is
}

// deaf reports whether none of several replicas is heard any more. It is the way to them that is cut then, mostly, and they all live: a firewall that keeps replicas from
// each other would else have each take out those that it watches.
func (w *Watch) deaf() bool { return w.heard.Load() == 0 && w.awaited.Load() > 1 }

// meet takes in that a replica is there.
func (w *Watch) meet(p *peer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.last.IsZero() {
		w.Log.Info("another replica is heard; when it ends, its members are taken out of the group", "peer", p.replica, "address", p.address)
	}
	for _, certain := range []bool{false, true} {
		v := verdict{p.replica, certain}
		if wrong, judged := w.judged[v]; judged && !wrong {
			w.judged[v] = true
			w.Log.Warn("a replica that was taken for gone is there; its session in the group decides from now on", "peer", p.replica, "by_silence", !certain)
		}
	}
}

// judge takes a replica out of the group if it has ended. certain: that is known, and not only likely. One that is silent goes on being looked for, since it may end yet.
func (w *Watch) judge(ctx context.Context, p *peer, why error, certain bool) {
	v := verdict{p.replica, certain}
	if !certain && (w.AtLeastOnce || !p.among || w.deaf()) || w.isWrong(v) {
		if !p.told {
			w.Log.Info("a replica is not heard any more; its session in the group decides", "peer", p.replica, "why", why)
		}
		p.told, p.answered = true, false
		w.await(p, !certain)
		return
	}
	trying, cancel := context.WithTimeout(ctx, silence) // what was seen may not be so any more after a while: then it is looked for again
	defer cancel()
	members, err := w.TakeOut(trying, p.replica)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && members == 0 && trying.Err() != nil:
		p.answered = false
		return
	}
	w.await(p, false)
	if err == nil || members > 0 {
		w.note(v)
	}
	switch {
	case err == nil && members == 0: // another replica was faster, or it has left
	case err != nil:
		w.Log.Info("the members of a replica that has gone cannot be taken out of the group; their sessions have to end first", "peer", p.replica, "why", why, "error", err)
	default:
		w.takenOut.Add(1)
		w.Log.Warn("a replica has gone without leaving the group; its members were taken out", "peer", p.replica, "members", members, "why", why)
	}
}

// isWrong reports whether such a verdict was wrong before.
func (w *Watch) isWrong(v verdict) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.judged[v]
}

// note keeps in mind that a replica was taken for gone.
func (w *Watch) note(v verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judged[v] = false
}
