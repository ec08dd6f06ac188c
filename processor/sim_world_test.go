//go:build synctests

package processor

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// testingT is what a test and a property of rapid have in common.
type testingT interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
}

// world is a cluster, the processes that run on it, and the checker that watches the topics. All
// of it lives in one synctest bubble, so that hours pass in seconds, and nothing happens at the
// same time by chance: every request takes a time of its own that the seed decides.
type world struct {
	t       testingT
	cfg     worldConfig
	group   string
	host    *world // whose cluster, network and history it is: itself, but for a rival
	rival   *world // the second group, if there is one
	cluster *kfake.Cluster
	network kfake.VirtualNetwork
	latency time.Duration // requests and answers take up to this long
	outside []kgo.Opt     // for clients of the world itself
	watch   *check.Watch
	failing *consumers  // of its targets; nil: there is no retry route
	client  *kgo.Client // produces requests
	rng     *rand.Rand
	wg      sync.WaitGroup
	heard   heard
	busy    busyIDs
	frozen  frozen
	closing chan struct{}

	unplugged atomic.Bool // processes reach no broker anew

	sent      int64 // by send
	users     int   // transactions of producers of requests
	processes []*process
	began     time.Time
	furthest  map[kafka.TopicPartition]state.Checkpoint // as seen by inspect
	setBack   map[kafka.TopicPartition]time.Time        // since when it is not what it was
	compared  compared
	lossSaid  map[int32]int // by partition: lines that say that its log has lost something; guarded by the host's mu

	mu     sync.Mutex
	log    []string
	clocks map[string]time.Duration // of brokers, by address: how far they are off
	rate   check.Rate               // of requests and log lines, by process
}

// worldConfig is what tests may choose. Its zero value is good.
type worldConfig struct {
	seed       uint64
	guarantee  Guarantee
	partitions int32         // of the delay topic; defaults to 1
	brokers    int           // defaults to 1
	latency    time.Duration // requests and answers take up to this long; defaults to 1 ms
	skew       time.Duration
	retries    int                // how often a record may be put off; defaults to what takes a quarter of an hour with growing pauses
	late       time.Duration      // how late a record may be while nothing is broken; defaults to 30 ms and some latencies
	inTime     time.Duration      // how long a cancel may have been in the partition of what it names, in vain; defaults to what no trouble lasts for
	versions   *kversion.Versions // what the brokers speak; defaults to the newest
	duplicates topics.OnDuplicate // what becomes of a request whose id is pending
	keyed      bool               // the key is the id
	remember   time.Duration
	prefix     string   // headers.prefix of the delay topic; "": the usual one
	tools      []string // headers.aliases of it
	timestamp  topics.Timestamp
	target     bool          // it has a target for requests that name none
	again      string        // there is a retry route besides, and this is message.timestamp.type of its topic
	jitter     time.Duration // of the delay topic
	expires    time.Duration // expire_after of the delay topic and of the retry topic
	fixed      bool          // there is a fixed-delay route besides
	refuses    bool          // orders may refuse records for what they are
	grows      bool          // orders is given partitions meanwhile
	widens     bool          // the delay topic is
	loses      bool          // the log of the delay topic is cut above L
	more       []string      // more targets, of one partition
	flush      bool          // what the store was told is on the disk when a process is killed; else it may not be
	audit      bool          // what becomes of requests is told, and compared with what became of them
	rival      bool          // a second group reads the delay topic, and has targets of its own (sim_rival_test.go)
	billBytes  int           // max.message.bytes of bills; defaults to Kafka's
	small      bool          // tune asks for turns of few records
	tune       func(*Config)
}

const (
	simGroup = "g"
	simTopic = "requests"
	simFixed = "soon"
	simAudit = "audit" // where what becomes of requests is told, if it is
	session  = 2 * time.Second
)

func newWorld(t testingT, cfg worldConfig) *world {
	t.Helper()
	cfg.partitions = max(cfg.partitions, 1)
	cfg.brokers = max(cfg.brokers, 1)
	if cfg.guarantee == "" {
		cfg.guarantee = ExactlyOnce
	}
	w := &world{t: t, cfg: cfg, group: simGroup, latency: max(cfg.latency, time.Millisecond), rng: rand.New(rand.NewPCG(cfg.seed, 0)), began: time.Now(), furthest: map[kafka.TopicPartition]state.Checkpoint{}, setBack: map[kafka.TopicPartition]time.Time{},
		heard: heard{last: map[string]time.Time{}, on: map[string]*wire{}, ends: map[string]time.Duration{}}, closing: make(chan struct{})}
	w.host = w
	var ports []int
	for i := range cfg.brokers {
		ports = append(ports, 9092+i)
	}
	opts := []kfake.Opt{
		kfake.NumBrokers(cfg.brokers), kfake.Ports(ports...), kfake.ListenFn(w.network.Listen),
		kfake.GroupMinSessionTimeout(100 * time.Millisecond),
		kfake.SeedTopics(cfg.partitions, simTopic), kfake.SeedTopics(2, "orders", "bills"), kfake.SeedTopics(1, simTopic+".dead"),
		kfake.SeedTopics(1, cfg.more...),
		kfake.SeedTopics(2, simFixed, simAudit), kfake.SeedTopics(1, simFixed+".dead"),
		kfake.SeedTopics(2, simAgain), kfake.SeedTopics(1, simAgain+".dead", simParked),
	}
	if cfg.versions != nil {
		opts = append(opts, kfake.MaxVersions(cfg.versions))
	}
	if cfg.rival {
		opts = append(opts, rivalTopics()...)
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatalf("make cluster: %v", err)
	}
	w.cluster = c
	answerPartitionByPartition(c)
	countJoining(c)
	loseUnreplicated(c)
	w.outside = []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.Dialer(newLink(w, outsideLink, cfg.seed).dial), kgo.MetadataMinAge(10 * time.Millisecond)}
	if cfg.grows || cfg.widens {
		w.outside = slices.Clip(append(w.outside, kgo.MetadataMaxAge(time.Second))) // the checker reads new partitions soon
	}
	if w.client, err = kgo.NewClient(append(w.outside, kgo.RecordPartitioner(kgo.ManualPartitioner()))...); err != nil {
		t.Fatalf("make client: %v", err)
	}
	w.ownProducerID(w.client)
	if cfg.billBytes > 0 {
		w.configure("bills", "max.message.bytes", strconv.Itoa(cfg.billBytes))
	}
	w.wg.Go(func() { w.endSessions(w.closing) })
	w.look()
	if cfg.again == "LogAppendTime" {
		w.writeTimes(simAgain)
	}
	if cfg.again != "" {
		w.failing = w.consume()
	}
	if cfg.rival {
		w.rival = w.newRival()
	}
	w.wg.Go(func() { w.tellCheckpoints(w.closing) })
	return w
}

// look starts the checker.
func (w *world) look() {
	w.t.Helper()
	var err error
	if w.watch, err = check.Start(context.Background(), w.expectations(), w.outside...); err != nil {
		w.t.Fatalf("start the checker: %v", err)
	}
	w.ill()
}

func (w *world) routes() []topics.Route {
	if w.host != w {
		r := rivalRoute()
		r.OnDuplicate, r.Keyed, r.Remember = w.cfg.duplicates, w.cfg.keyed, w.cfg.remember
		r.Prefix, r.Aliases, r.Timestamp = w.cfg.prefix, w.cfg.tools, w.cfg.timestamp
		return []topics.Route{r}
	}
	r := []topics.Route{{Topic: simTopic, Allow: []string{"orders", "bills", "gone"}, DeadLetter: simTopic + ".dead", MaxDelay: 30 * 24 * time.Hour, CancelsAnswered: true,
		Jitter: w.cfg.jitter, ExpireAfter: w.cfg.expires, OnDuplicate: w.cfg.duplicates, Keyed: w.cfg.keyed, Remember: w.cfg.remember,
		Prefix: w.cfg.prefix, Aliases: w.cfg.tools, Timestamp: w.cfg.timestamp}}
	if w.cfg.rival || w.cfg.target {
		r[0].Target = "orders"
	}
	r[0].Allow = append(r[0].Allow, w.cfg.more...)
	if w.cfg.fixed {
		r = append(r, topics.Route{Topic: simFixed, Target: "orders", Delay: 3 * time.Second, DeadLetter: simFixed + ".dead", Emit: topics.EmitAll})
	}
	if w.cfg.again != "" {
		r = append(r, w.againRoute())
	}
	return r
}

// clocksDiffer is by how much the W of a schedule may be ahead of the time: a stub is left only if its time is above W.
const clocksDiffer = 10 * time.Second

func (w *world) expectations() check.Config {
	c := check.Config{
		Targets:      w.targets(),
		AllowDoubles: w.cfg.guarantee == AtLeastOnce,
		Skew:         w.cfg.skew,
		Late:         cmp.Or(w.cfg.late, 30*time.Millisecond+20*w.latency),
		Covered:      2*time.Second + 16*w.latency, // a turn, by a producer that is used for the first time, and a commit behind it
		Retries:      cmp.Or(w.cfg.retries, 25),
		InTime:       cmp.Or(w.cfg.inTime, time.Minute),
	}
	if w.cfg.audit {
		c.Covered += 20 * w.latency // a turn of two stages, each of which has to reach its brokers first
	}
	if w.cfg.again != "" || w.cfg.remember > 0 { // a turn of one record may be the only way past each that is put off, or is a duplicate
		c.Covered += w.cfg.late
	}
	for _, r := range w.routes() {
		c.Routes = append(c.Routes, check.Route{Topic: r.Topic, Group: w.group, Target: r.Target, Delay: r.Delay, Now: time.Now, Allow: r.Allow, MaxDelay: r.MaxDelay, DeadLetter: r.DeadLetter, Emit: r.Emit.String(),
			Jitter: r.Jitter, ExpireAfter: r.ExpireAfter, Retry: promised(r.Retry), CancelsAnswered: r.CancelsAnswered, ReplacesLate: r.ReplacesLate,
			Prefix: r.Prefix, Tools: r.Aliases, Timestamp: r.Timestamp.String(),
			Keyed: r.Keyed, OnDuplicate: check.OnDuplicate(r.OnDuplicate), Remember: max(r.Remember-clocksDiffer, 0)})
	}
	return c
}

// targets are the target topics that exist.
func (w *world) targets() []check.Target {
	if w.host != w {
		return []check.Target{{Topic: simCopies, Partitions: 2}}
	}
	ts := []check.Target{{Topic: "orders", Partitions: 2, MayRefuse: w.cfg.refuses}, {Topic: "bills", Partitions: 2, MaxBytes: w.cfg.billBytes}}
	if w.cfg.grows {
		ts[0].Partitions = 0
	}
	for _, name := range w.cfg.more {
		ts = append(ts, check.Target{Topic: name, Partitions: 1})
	}
	return ts
}

// close ends the world; every process must have been stopped.
func (w *world) close() {
	w.end()
	if w.rival != nil {
		w.rival.end()
	}
	close(w.closing)
	w.client.Close()
	w.cluster.Close()
	w.wg.Wait()
	if os.Getenv("DUEWHEEL_TEST_SIM_LOG") != "" {
		w.t.Logf("%s", w.history())
	}
}

// end ends the processes and the checker of a group.
func (w *world) end() {
	for _, p := range w.processes {
		if !p.ended.Load() {
			p.kill()
		}
	}
	for _, p := range w.processes {
		<-p.done
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	w.watch.Stop(ctx)
}

// note writes a line into the history that is printed when a test fails.
func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf("%9.3f ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	h := w.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, line)
}

func (w *world) history() string {
	w = w.host
	w.mu.Lock()
	defer w.mu.Unlock()
	const shown = 400
	if n := len(w.log); n > shown {
		return fmt.Sprintf("... %d lines before\n", n-shown) + strings.Join(w.log[n-shown:], "\n")
	}
	return strings.Join(w.log, "\n")
}

// fail ends the test with the history.
func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), w.history())
}

// until waits for a condition.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for range 200_000 {
		if holds() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	w.fail("waited in vain for: %s", what)
}

// within waits for a condition that must hold soon.
func (w *world) within(d time.Duration, what string, holds func() bool) {
	w.t.Helper()
	for until := in(d); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			w.fail("not within %v: %s", d, what)
		}
	}
}

// hit waits until a rule has been applied.
func (w *world) hit(rule <-chan struct{}) {
	w.t.Helper()
	select {
	case <-rule:
	case <-time.After(time.Minute):
		w.fail("no request came that the rule is for")
	}
}

// outstanding is how many requests that were sent have not arrived yet.
func (w *world) outstanding() int64 {
	c := w.watch.Counts()
	return w.host.sent - c.Delivered - c.DeadLettered
}

// request is a record of the delay topic that asks to be delivered to orders.
func request(key string, due time.Time) *kgo.Record {
	return &kgo.Record{Topic: simTopic, Key: []byte(key), Value: []byte("value of " + key), Headers: []kgo.RecordHeader{
		{Key: "trace", Value: []byte(key)},
		{Key: topics.HeaderUntil, Value: []byte(strconv.FormatInt(due.UnixMilli(), 10))},
		{Key: topics.HeaderTargetTopic, Value: []byte("orders")},
	}}
}

// ownProducerID gives a client its producer id, before brokers refuse it to all that ask.
func (w *world) ownProducerID(cl *kgo.Client) {
	w.t.Helper()
	if _, _, err := cl.ProducerID(context.Background()); err != nil {
		w.t.Fatalf("get a producer id: %v", err)
	}
}

// send produces requests, in order.
func (w *world) send(rs ...*kgo.Record) {
	w.t.Helper()
	for _, r := range rs {
		w.prefixed(r)
	}
	if err := w.client.ProduceSync(context.Background(), rs...).FirstErr(); err != nil {
		w.fail("produce requests: %v", err)
	}
	w.host.sent += int64(len(rs))
	for _, r := range rs {
		w.note("request %s/%d@%d", r.Topic, r.Partition, r.Offset)
	}
}

// in is a time from now.
func in(d time.Duration) time.Time { return time.Now().Add(d) }

// configure sets one property of a topic.
func (w *world) configure(topic, key, value string) {
	w.t.Helper()
	if err := w.tryConfigure(topic, key, value); err != nil {
		w.fail("configure %s: %v", topic, err)
	}
}

// soonAnswered is how long the world waits for what it asks brokers for itself.
const soonAnswered = 5 * time.Second

func (w *world) tryConfigure(topic, key, value string) error {
	ctx, cancel := context.WithTimeout(context.Background(), soonAnswered)
	defer cancel()
	rs, err := kadm.NewClient(w.client).AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic)
	if err == nil {
		_, err = rs.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	return err
}

// leaderless takes the leader of a topic away until the function that it returns is called.
func (w *world) leaderless(topic string) (mend func()) {
	h := w.cluster.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: topic, Err: kerr.LeaderNotAvailable, Count: -1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce, kmsg.ListOffsets}, Topic: topic, Err: kerr.NotLeaderForPartition, Count: -1},
	)
	w.note("---- %s has no leader", topic)
	return func() { w.note("---- %s has a leader again", topic); h.Remove() }
}
