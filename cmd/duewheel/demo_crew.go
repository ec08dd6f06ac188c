package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/duewheel/duewheel/bench/child"
	"github.com/duewheel/duewheel/processor"
)

// demoLevel is what the log of a replica tells.
const demoLevel = slog.LevelWarn

// crew is the replicas of the demo, each in a process of its own. Its methods may be called from several goroutines.
type crew struct {
	broker  string
	dir     string                      // where their state directories are made
	log     io.Writer                   // takes their logs
	command func(what string) *exec.Cmd // makes the command of a child
	fail    func(error)                 // is told when a replica has ended that was not told to
	logging sync.Mutex                  // one line at a time

	mu      sync.Mutex
	members []*member // in the order in which they were started; of those that were killed the last one
	begun   int
	seats   map[processor.TopicPartition]seat
}

// member is one replica.
type member struct {
	*child.Process
	name string

	// Guarded by the crew's mu.
	counts    child.Counts
	admin     string
	told      bool      // to end, or killed
	killed    time.Time // zero: it was not
	delivered int       // records, by what it has committed
	rate      meter
	lastWords string // the last line of its log
}

// seat is the replica at which a partition is live.
type seat struct {
	at    *member
	since time.Time
}

func newCrew(broker, dir string, log io.Writer, fail func(error)) *crew {
	return &crew{broker: broker, dir: dir, log: log, command: demoChild, fail: fail, seats: map[processor.TopicPartition]seat{}}
}

// start starts one more replica, with a name that none had before.
func (c *crew) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &member{name: string(rune('a' + c.begun%26))}
	if round := c.begun / 26; round > 0 {
		m.name += fmt.Sprint(round)
	}
	c.begun++
	cmd := c.command("replica")
	cmd.Stderr = c.logOf(m)
	var err error
	if m.Process, err = child.Start(cmd, demoOrder(c.broker, m.name, filepath.Join(c.dir, m.name)), func(_ *child.Process, said child.Message) { c.hear(m, said) }); err != nil {
		return fmt.Errorf("start replica %s: %w", m.name, err)
	}
	c.members = append(slices.DeleteFunc(c.members, func(m *member) bool { return !m.killed.IsZero() }), m)
	go c.mourn(m)
	return nil
}

// mourn waits for the end of a replica, and tells of one that was not asked for. It ends with the replica, which does not outlive the crew.
func (c *crew) mourn(m *member) {
	<-m.Exited()
	c.mu.Lock()
	told, words := m.told, m.lastWords
	c.mu.Unlock()
	if !told {
		c.fail(findings{fmt.Errorf("replica %s has ended by itself: %w; the last that it said: %s", m.name, cmp.Or(m.Err(), errors.New("exit code 0")), words)})
	}
}

func (c *crew) hear(m *member, said child.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if said.Counts != nil {
		m.counts = *said.Counts
	}
	if said.Admin != "" {
		m.admin = said.Admin
	}
	if said.Event == nil {
		return
	}
	switch e := said.Event; e.Kind {
	case processor.EventCommitted:
		m.delivered += e.Records
	case processor.EventLive:
		for _, tp := range e.Partitions {
			c.seats[tp] = seat{m, e.At}
		}
	case processor.EventRevoked, processor.EventLost, processor.EventDropped:
		for _, tp := range e.Partitions {
			if c.seats[tp].at == m {
				delete(c.seats, tp)
			}
		}
	}
}

// logOf passes the log of a replica on, and keeps the last line of it.
func (c *crew) logOf(m *member) io.Writer {
	return child.Lines(func(line string) error {
		c.mu.Lock()
		m.lastWords = line
		c.mu.Unlock()
		c.logging.Lock()
		defer c.logging.Unlock()
		_, err := fmt.Fprintln(c.log, line)
		return err
	})
}

// settled waits until every partition is live, and each replica has some of the delay topic's; or for as long as that may take.
func (c *crew) settled(ctx context.Context, within time.Duration) {
	timeout, tick := time.After(within), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		c.mu.Lock()
		all, each := len(c.seats) == demoPartitions+demoRetryPartitions, true
		for _, m := range c.members {
			each = each && len(c.partitionsOf(m)) > 0
		}
		c.mu.Unlock()
		if all && each {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			return
		case <-ctx.Done():
			return
		}
	}
}

// partitionsOf are the delay topic's that are live at a replica. It is called with mu held.
func (c *crew) partitionsOf(m *member) (own []processor.TopicPartition) {
	for tp, s := range c.seats {
		if s.at == m && tp.Topic == demoRequests {
			own = append(own, tp)
		}
	}
	return own
}

// liveSince tells since when a partition has been live at another replica than the one that was killed.
func (c *crew) liveSince(tp processor.TopicPartition, killed *member) (since time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.seats[tp]
	return s.since, ok && s.at != killed
}

// errOne refuses to kill the only replica.
var errOne = errors.New("one replica is left: a new one is on its way")

// choose is the replica to be killed: of those that run the one with most partitions of the delay topic.
func (c *crew) choose() (victim *member, partitions []processor.TopicPartition, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	able := 0
	for _, m := range c.members {
		own := c.partitionsOf(m)
		if m.told || len(own) == 0 {
			continue
		}
		able++
		if len(own) > len(partitions) {
			victim, partitions = m, own
		}
	}
	if able < 2 {
		return nil, nil, errOne
	}
	return victim, partitions, nil
}

// kill ends a replica with SIGKILL, and returns when its process is gone.
func (c *crew) kill(m *member) {
	c.mu.Lock()
	m.told, m.killed = true, time.Now()
	c.mu.Unlock()
	m.Kill()
}

// end ends all replicas in order.
func (c *crew) end(within time.Duration) error {
	c.mu.Lock()
	members := slices.Clone(c.members)
	for _, m := range members {
		m.told = true
	}
	c.mu.Unlock()
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() {
			if !m.HasExited() {
				errs[i] = m.finish(within)
			}
		})
	}
	wg.Wait()
	return joinLines(errs...)
}

// finish ends a replica in order, where a process can be told to.
func (m *member) finish(within time.Duration) error {
	if runtime.GOOS == "windows" {
		m.Kill()
		return nil
	}
	return m.Terminate(within)
}

// abandon kills what still runs. It is for the way out.
func (c *crew) abandon() {
	c.mu.Lock()
	members := slices.Clone(c.members)
	for _, m := range members {
		m.told = true
	}
	c.mu.Unlock()
	for _, m := range members {
		m.Kill()
	}
}

// replicaState is what the screen shows of a replica.
type replicaState struct {
	name       string
	admin      string
	killed     time.Time // zero: it runs
	partitions int       // live
	pending    int64
	warm       int64 // partitions of others of which it has a warm copy
	perSecond  float64
}

func (c *crew) states(now time.Time) (all []replicaState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		s := replicaState{name: m.name, admin: m.admin, killed: m.killed}
		if m.killed.IsZero() {
			s.partitions, s.pending, s.warm = int(m.counts.Live), m.counts.Pending, m.counts.Standbys
			s.perSecond = m.rate.perSecond(now, m.delivered)
		}
		all = append(all, s)
	}
	return all
}
