package processor

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/assignor"
	"github.com/duewheel/duewheel/processor/group"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/restore"
	"github.com/duewheel/duewheel/processor/retention"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/processor/wait"
)

// lane is one member of the group: it reads its partitions, keeps their pending records and
// delivers them. One goroutine owns it all; every other goroutine hands over to it on a
// channel.
type lane struct {
	kit

	// For other goroutines, too.
	standing group.Standing
	stepped  atomic.Pointer[time.Time] // when the loop last took a step
	excerpts chan *retention.Excerpt   // of what is to be carried, one at a time

	// Owned by the lane's goroutine.
	group       *group.Group
	membership  membership
	partitions  map[kafka.TopicPartition]*partition
	order       []*partition // the same in a fixed order, for turns to take in rotation
	memory      memory
	reading     reading
	restores    *restore.Set
	ends        ends
	producers   producers
	selection   selection
	checkpoints checkpoints
	turns       turns
	unknowns    wait.Backoff // turns with unknown outcome
	stays       wait.Backoff // stays in the group that were ended
	balancedAt  time.Time
	readAgainAt time.Time // when a partition without a store was last read again
	tidiedAt    time.Time
	stint       stint
	settling    bool // another partition may become live in the next step
	enlivens    bool // one needs more than one step for that
	catchUps    catchUps
}

func newLane(s *shared, n int) *lane {
	l := &lane{partitions: map[kafka.TopicPartition]*partition{}, excerpts: make(chan *retention.Excerpt)}
	l.kit = kit{
		shared: s, n: n,
		log:         s.cfg.Logger.With("lane", n),
		events:      events{s.cfg.Events, n},
		coordinator: kafka.NewCoordinator(s.cfg.Group),
		quota:       &producer.Quota{},
		wg:          &sync.WaitGroup{},
		windowMax:   s.cfg.NearWindow.Milliseconds(),
	}
	if s.cfg.Guarantee == ExactlyOnce {
		l.writer = producer.Writer(s.cfg.Group, s.cfg.Instance, n)
	}
	l.stint.took = &s.counters.work
	l.memory.budget, l.memory.widest, l.memory.window = s.cfg.nearBudget()/int64(s.cfg.Lanes), l.windowMax, l.windowMax
	l.memory.step = pending.LoadRecords
	l.catchUps = catchUps{log: l.log}
	l.producers = producers{kit: &l.kit, standing: &l.standing, renewed: make(chan error, 1)}
	l.selection = newSelection(&l.kit)
	l.checkpoints = checkpoints{kit: &l.kit, committed: make(chan *turn.Turn, 1)}
	l.turns = turns{
		kit: &l.kit, producers: &l.producers, selection: &l.selection, checkpoints: &l.checkpoints, decided: make(chan *turn.Turn, 1),
		copies: copies{kit: &l.kit, selection: &l.selection},
		pace:   pace{fixed: s.cfg.TurnInterval, freely: s.cfg.Guarantee == AtLeastOnce},
	}
	return l
}

// equip gives the lane what works with its reader.
func (l *lane) equip(reader *kgo.Client) {
	l.reader = reader
	l.group = group.New(l.groupConfig(), &l.standing)
	l.reading = reading{cl: reader, wg: l.wg, fetched: make(chan kgo.Fetches, 1)}
	env := l.restoreEnv()
	env.Awaits = l.standing.Awaits
	l.restores = restore.New(env, l.wg)
	l.ends = ends{cl: reader, log: l.log, wg: l.wg, answers: make(chan logEnds, 1), lasting: l.cfg.SessionTimeout}
}

// groupConfig is what the lane is as a member of its group.
func (k *kit) groupConfig() group.Config {
	var names []string
	for _, r := range k.cfg.Routes {
		names = append(names, r.Topic)
	}
	return group.Config{
		Client: k.cfg.Client, Group: k.cfg.Group, Topics: names, Protocol: k.cfg.Protocol, InstanceID: k.cfg.InstanceID, Number: k.n,
		ClientID: k.clientID(k.reader, k.n),
		Balancer: func() kgo.GroupBalancer {
			address := func() string { return k.presence.at(k.hearing.Local()) }
			return assignor.New(assignor.Says{
				Replica: assignor.Replica(kafka.ClientID(k.reader), k.cfg.Instance), Address: address, Standbys: k.cfg.Standbys, Holds: k.holds, Alone: k.holdsAlone,
			})
		},
		SessionTimeout: k.cfg.SessionTimeout, HeartbeatInterval: k.cfg.HeartbeatInterval,
		// A revocation waits for a turn, which TurnTimeout bounds.
		RebalanceTimeout: max(k.cfg.SessionTimeout, k.cfg.TurnTimeout+2*time.Second),
		Named:            func(id string) { k.members.Note(k.n, id) },
		Until:            k.until, Log: k.log,
	}
}

// clientID is what a lane goes by in its group; cl is any client of the process.
func (s *shared) clientID(cl *kgo.Client, lane int) string {
	return assignor.ClientID(kafka.ClientID(cl), s.cfg.Instance, lane)
}
