package integration

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/topics"
)

// setting says what topics a test plays with. The zero value is a delay topic of 4 partitions and one target.
type setting struct {
	partitions   int32             // of the delay topic; 4
	targets      int               // 1
	delayConfig  map[string]string // of the delay topic
	topic        string            // the delay topic of another tenant, which this one reads, too
	groups       bool              // several groups deliver what is requested: requests name no target, and the route of each group has one
	delayNodes   []int32           // the node that each partition of the delay topic is on, alone
	targetConfig map[string]string // of each target
	deadConfig   map[string]string // of the dead-letter topic
	nodes        map[int][]int32   // by target: the node that each partition is on, alone
	route        func(*topics.Route)
	check        func(*check.Config)
	seed         uint64
}

// tenant is what one test has on a cluster: its own topics and group, and a watch that judges everything in them.
type tenant struct {
	t       *testing.T
	cluster *brokers.Cluster
	client  *kgo.Client
	admin   *kadm.Client
	name    string // begins the names of all that the test makes
	route   topics.Route
	targets []string
	checks  check.Config // what the watch looks for
	watch   *check.Watch
	log     *journal
	events  told
	dir     string // where processors keep their stores
	seed    uint64
	loads   atomic.Uint64 // so far

	patience time.Duration // bounds what it waits for
}

const (
	targetPartitions = 3
	maxDelay         = 366 * 24 * time.Hour
)

// emitAll lets delivered records say when they were handed to the producer, too.
func emitAll(r *topics.Route) { r.Emit = topics.EmitAll }

func newTenant(t *testing.T, c *brokers.Cluster, set setting) *tenant {
	t.Helper()
	client, err := kgo.NewClient(c.Opts(brokers.Plain)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-") + "-" + rand.Text()[:6])
	s := &tenant{t: t, cluster: c, client: client, admin: kadm.NewClient(client), name: name, log: newJournal(t), dir: t.TempDir(), seed: set.seed, patience: patience}
	s.route = topics.Route{Topic: cmp.Or(set.topic, name), DeadLetter: name + ".dead", Allow: []string{name + ".target-*"}, MaxDelay: maxDelay}
	for i := range max(set.targets, 1) {
		s.targets = append(s.targets, fmt.Sprintf("%s.target-%d", name, i))
	}
	if set.groups {
		s.route.Target = s.targets[0]
	}
	if set.route != nil {
		set.route(&s.route)
	}
	switch {
	case set.topic != "": // it is there
	case set.delayNodes != nil:
		s.createOn(set.delayNodes, s.route.Topic)
	default:
		s.create(cmp.Or(set.partitions, 4), set.delayConfig, s.route.Topic)
	}
	s.create(1, set.deadConfig, s.route.DeadLetter)
	for i, target := range s.targets {
		if nodes := set.nodes[i]; nodes != nil {
			s.createOn(nodes, target)
		} else {
			s.create(targetPartitions, set.targetConfig, target)
		}
	}
	s.startWatch(set)
	t.Cleanup(s.leave)
	return s
}

func (s *tenant) startWatch(set setting) {
	s.t.Helper()
	config := check.Config{Routes: []check.Route{{
		Topic: s.route.Topic, Target: s.route.Target, Delay: s.route.Delay, Allow: s.route.Allow,
		MaxDelay: s.route.MaxDelay, DeadLetter: s.route.DeadLetter, Emit: s.route.Emit.String(),
	}}}
	if set.groups {
		config.Routes[0].Group = s.name
	}
	for _, target := range s.targets {
		config.Targets = append(config.Targets, check.Target{Topic: target, Partitions: targetPartitions})
	}
	if set.check != nil {
		set.check(&config)
	}
	s.checks = config
	eventually(s.t, func() string {
		added := kgo.MetadataMaxAge(2 * time.Second) // how soon the watch sees partitions that are added
		watch, err := check.Start(s.t.Context(), config, append(s.opts(), added)...)
		switch {
		case errors.Is(err, kerr.UnknownTopicOrPartition): // each broker learns of a topic by and by
			return err.Error()
		case err != nil:
			s.t.Fatal(err)
		}
		s.watch = watch
		return ""
	})
}

func (s *tenant) opts() []kgo.Opt { return s.cluster.Opts(brokers.Plain) }

// create makes topics. Delay topics must not lose what is pending, so none of them has a retention.
func (s *tenant) create(partitions int32, config map[string]string, names ...string) {
	s.t.Helper()
	forever := "-1"
	configs := map[string]*string{"retention.ms": &forever}
	for k, v := range maps.All(config) {
		configs[k] = &v
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	created, err := s.admin.CreateTopics(ctx, partitions, -1, configs, names...)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		s.t.Fatalf("create topics: %v", err)
	}
}

// addPartitions adds partitions to the delay topic.
func (s *tenant) addPartitions(n int) {
	s.t.Helper()
	added, err := s.admin.CreatePartitions(s.t.Context(), n, s.route.Topic)
	if err == nil {
		err = added.Error()
	}
	if err != nil {
		s.t.Fatalf("add partitions: %v", err)
	}
}

func (s *tenant) topics() []string {
	return append([]string{s.route.Topic, s.route.DeadLetter}, s.targets...)
}

// leave removes the topics from brokers that outlive the test.
func (s *tenant) leave() {
	if s.cluster.Provider() != brokers.External {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := s.admin.DeleteTopics(ctx, s.topics()...); err != nil {
		s.t.Logf("delete topics: %v", err)
	}
}

// load writes requests as several crowds at the same time, and returns when all are acknowledged. Topics, targets and the seed are
// the tenant's unless set.
func (s *tenant) load(crowds ...load.Config) load.Totals {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.patience)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	totals := make([]load.Totals, len(crowds))
	for i, c := range crowds {
		c = s.loadConfig(c)
		group.Go(func() (err error) {
			totals[i], err = load.Run(ctx, c, s.opts()...)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		s.t.Fatalf("load: %v", err)
	}
	return sum(totals)
}

func sum(totals []load.Totals) load.Totals {
	all := totals[0]
	for _, t := range totals[1:] {
		all.Committed, all.Aborted, all.Unknown = all.Committed+t.Committed, all.Aborted+t.Aborted, all.Unknown+t.Unknown
		for bad, n := range t.Bad {
			all.Bad[bad] += n
		}
		for topic, n := range t.Topics {
			all.Topics[topic] += n
		}
		all.Elapsed = max(all.Elapsed, t.Elapsed)
	}
	return all
}

func (s *tenant) loadConfig(c load.Config) load.Config {
	c.Seed = s.seed + s.loads.Add(1)
	c.Topics = []string{s.route.Topic}
	if c.Targets == nil && s.route.Target == "" {
		c.Targets = s.targets
	}
	if c.Unknown == "" {
		c.Unknown = s.name + ".target-unknown"
	}
	if c.TargetPartitions == 0 {
		c.TargetPartitions = targetPartitions
	}
	return c
}

// arrive waits until every request that was written has arrived.
func (s *tenant) arrive() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.patience)
	defer cancel()
	if err := s.watch.Wait(ctx); err != nil {
		s.t.Errorf("%v\n%s", err, s.standing())
		s.judge()
		s.t.FailNow()
	}
}

// awaitDelivered waits until so many more records have been delivered.
func (s *tenant) awaitDelivered(more int64) {
	s.t.Helper()
	before := s.watch.Counts().Delivered
	eventually(s.t, func() string {
		if c := s.watch.Counts(); c.Delivered < before+more {
			return fmt.Sprintf("%d more records delivered, from %d on: %s", more, before, c.Summary())
		}
		return ""
	})
}

// judge gives the verdict over all that was written and has arrived. Processors have been stopped.
func (s *tenant) judge() *check.Report {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.patience)
	defer cancel()
	report, err := s.watch.Stop(ctx)
	if err != nil {
		s.t.Error(err)
	}
	s.t.Log(report)
	if report.Err() != nil {
		s.t.Error(check.ErrFaults)
	}
	return report
}
