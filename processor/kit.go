package processor

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/clock"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/restore"
	"github.com/duewheel/duewheel/processor/standby"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/topics"
)

// shared is what lanes work with. New makes it, and it stays as it is when Run has begun; every goroutine may use all of it.
type shared struct {
	cfg      Config
	routes   map[string]*topics.Route
	seed     uint64 // of what producers must not foresee
	clock    *clock.Clock
	targets  *targets.Table
	markers  *producer.Markers // nil in at_least_once
	hearing  *kafka.Hearing    // nil until Run
	counters *counters
	store    *local.Store
	members  *local.Members
	standbys *standby.Set // nil: none are kept
	presence *presence    // nil: sessions alone tell which replicas have ended
	assigned picture.Set
	passing  passing
	epochs   kafka.Epochs    // a lane tells it, before it joins the group
	uneven   wait.Wake       // asked for a rebalance: by the standbys, and when a replica was taken out
	settings wait.Wake       // asked by lanes to look at the settings of delay topics: partitions were assigned
	until    context.Context // ends before the time for the shutdown is over: nothing waits for brokers any more
}

// kit is what a lane and the goroutines that it starts work with. It is complete before the first of them
// starts, and any of them may use all of it; what only the lane may touch is not in it.
type kit struct {
	*shared
	n           int
	writer      string // how the lane signs checkpoints; empty in at_least_once, which leaves nothing open
	log         *slog.Logger
	events      events
	coordinator *kafka.Coordinator
	reader      *kgo.Client
	quota       *producer.Quota
	wg          *sync.WaitGroup                        // goroutines that the lane has to wait for
	windowMax   int64                                  // ms
	alone       atomic.Pointer[[]kafka.TopicPartition] // of the lane's partitions those whose logs have lost what is held here; nil: none yet
}

// turnEnv is what a turn works with.
func (k *kit) turnEnv() *turn.Env {
	return &turn.Env{
		AtLeastOnce: k.cfg.Guarantee == AtLeastOnce, Group: k.cfg.Group, Instance: k.cfg.Instance, AuditTopic: k.cfg.AuditTopic,
		TurnTimeout: k.cfg.TurnTimeout, TransactionTimeout: k.cfg.TransactionTimeout, RetryBackoff: k.cfg.RetryBackoff, RetryBackoffMax: k.cfg.RetryBackoffMax,
		Clock: k.clock, Targets: k.targets, Coordinator: k.coordinator, Reader: k.reader, Quota: k.quota, Count: k.counters.outputs,
	}
}

// restoreEnv is what restores work with.
func (k *kit) restoreEnv() *restore.Env {
	return &restore.Env{
		Lane: k.n, Group: k.cfg.Group, Identity: k.cfg.identity(), Writer: k.writer, Consumer: k.cfg.Protocol == ProtocolConsumer, AcceptLoss: k.cfg.AcceptLoss,
		SessionTimeout: k.cfg.SessionTimeout, TransactionTimeout: k.cfg.TransactionTimeout, EmptyTimeout: k.cfg.emptyTimeout(), Window: k.windowMax,
		Pending: pending.Env{Skew: k.cfg.MaxClockSkew.Milliseconds(), Audit: k.cfg.AuditTopic != "", Soon: turn.ShortWait.Milliseconds(), Seed: k.seed}, Routes: k.routes,
		Clock: k.clock, Coordinator: k.coordinator, Reader: k.reader, Epochs: &k.epochs, Store: k.store, Standbys: k.standbys, Markers: k.markers, Assigned: &k.assigned,
		Warm: &k.counters.warm, Fenced: k.fenced, Uneven: k.uneven, Until: k.until, Log: k.log,
	}
}

// fenced counts and tells of a writer that has left a partition with a transaction open.
func (k *kit) fenced(tp kafka.TopicPartition, writer string) {
	k.counters.fenced.Add(1)
	k.events.tell(Event{Kind: EventFenced, Writer: writer}, tp)
}
