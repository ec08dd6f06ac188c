package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/processor/kafka"
)

// The delay topics of a soak, by what happens there.
const (
	soakFar   = iota // trimmed; nearly all of the pending records lie there, due within a day
	soakKept         // keeps its log for minutes only: what is pending, one in a hundred, is carried again and again
	soakMixed        // trimmed; one in ten is due in hours and is carried when all others around it are delivered
	soakTopics
)

// soakNames name them.
var soakNames = [soakTopics]string{"far", "kept", "mixed"}

const (
	soakTrim    = 10 * time.Second // trim_interval
	soakSoonest = 2 * time.Second  // how far ahead most requests of the stream are due, at least
	soakLatest  = 2 * time.Minute  // and at most
	soakDay     = 24 * time.Hour
	// soakKeeps is a share of how long a soak takes: so often its topic's log is cut, and half as often all is carried.
	soakKeeps      = 8
	soakKeepsLeast = time.Minute
	// settleLimit bounds how long records that are due may take until they are seen, at the end.
	settleLimit = 3 * time.Minute
)

// Soak has very many records pending in a process for long, while others are taken in and delivered, logs are cut and trimmed, what is
// pending is carried, and the process is killed or ended in order now and then and started again. It samples each second what that takes,
// and has every record judged. What it returns is whole even if it says that something is not as it should be; the error is of what could not be
// done. Options that count are For, by default 30 minutes, Pending, by default 20,000,000, and Rate, by default 2,000 requests a second.
func Soak(ctx context.Context, o Options) (soaked *Soaked, err error) {
	if o.Replica == nil {
		return nil, errors.New("bench: no way to start a replica")
	}
	o.For, o.Pending, o.Rate = cmp.Or(o.For, 30*time.Minute), cmp.Or(o.Pending, 20_000_000), cmp.Or(o.Rate, 2000)
	o = o.withDefaults()
	if err := o.validate(nil); err != nil {
		return nil, err
	}
	r, err := newRunner(o)
	if err != nil {
		return nil, err
	}
	defer r.adm.Close()
	defer func() { err = errors.Join(err, r.clean(ctx, 0)) }()
	where, err := Look(ctx, o.Client)
	if err != nil {
		return nil, err
	}
	s, err := r.newStage(ctx, "soak", soakTopics, o.Partitions)
	if err != nil {
		return nil, err
	}
	k := &soak{scene: &scene{stage: s, f: s.fleet(o.Lanes, 0)}, Soaked: &Soaked{
		Where: where, For: o.For, Pending: o.Pending, Rate: o.Rate, Budget: o.budget(), Partitions: o.Partitions, Trim: soakTrim, Kept: max(o.For/soakKeeps, soakKeepsLeast),
	}}
	defer k.tearDown()
	return k.Soaked, k.play(ctx)
}

// soak is one at work.
type soak struct {
	*scene
	*Soaked
	sampler *sampler
	watch   *check.Watch
}

func (k *soak) play(ctx context.Context) (err error) {
	if err := k.begin(ctx); err != nil {
		return err
	}
	k.sampler = k.sample(ctx)
	defer k.sampler.end()
	if err := k.fillAll(ctx); err != nil {
		return err
	}
	ends := time.Now().Add(k.For)
	config := k.checks()
	config.Until = ends
	if k.watch, err = check.Start(ctx, config, k.r.o.Client...); err != nil {
		return err
	}
	k.Filled = time.Since(k.sampler.began).Seconds()
	if err := k.stream(ctx, ends); err != nil {
		return errors.Join(err, k.f.broken())
	}
	if err := k.settle(ctx); err != nil {
		return err
	}
	return k.judge(ctx)
}

// begin starts the replica, once topics keep what they are to keep.
func (k *soak) begin(ctx context.Context) error {
	k.change = func(c *processor.Config) { c.TrimInterval = soakTrim }
	k.BatchRecords = k.r.o.batchRecords()
	millis := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	for topic, settings := range map[int]map[string]string{
		soakFar:   {"segment.bytes": strconv.Itoa(64 * mib)},
		soakKept:  {"segment.bytes": strconv.Itoa(mib), "segment.ms": millis(k.Kept / soakKeeps), "retention.ms": millis(k.Kept)},
		soakMixed: {"segment.bytes": strconv.Itoa(mib)},
	} {
		if err := k.r.alter(ctx, k.delays[topic], settings); err != nil {
			return err
		}
	}
	k.CheckEvery = k.r.retentionCheck(ctx)
	if err := k.f.startNew(1); err != nil {
		return err
	}
	if err := k.f.settle(ctx); err != nil {
		return err
	}
	if residentOf(k.f.running()[0].Pid()) == 0 {
		return errors.New("this system does not tell what memory a process takes")
	}
	var err error
	k.o, err = k.observe(ctx, false)
	return err
}

// fillAll writes what is pending from the beginning: those that are carried last, since their time runs from when they are written.
func (k *soak) fillAll(ctx context.Context) error {
	few := k.few()
	for _, part := range []struct {
		topic, n     int
		soonest, end time.Duration
	}{
		{soakFar, k.Pending - few, soakLatest, soakDay},
		{soakKept, few, k.Kept / 2, k.fewUntil()},
	} {
		k.r.progress("soak: writing %s requests that are due within %v", thousands(int64(part.n)), part.end)
		now, one := time.Now(), *k.stage
		one.delays = k.delays[part.topic : part.topic+1]
		err := one.fill(ctx, part.n, func(i int) stamp {
			return stamp{due: now.Add(part.soonest + time.Duration(noise(uint64(i))%uint64(part.end-part.soonest))).UnixMilli(), mark: markFar + uint32(part.topic), index: uint32(i)}
		})
		if err != nil {
			return err
		}
		k.far += part.n
		if err := k.f.until(ctx, "pending or seen", int64(k.far), func() int64 { return k.pending() + k.o.count() }); err != nil {
			return err
		}
	}
	return nil
}

// stream writes requests to all topics in turn until a moment.
func (k *soak) stream(ctx context.Context, ends time.Time) error {
	w, err := k.newWriter()
	if err != nil {
		return err
	}
	defer w.cl.Close()
	k.r.progress("soak: %s requests a second for %v", thousands(int64(k.Rate)), k.For)
	timed, cancel := context.WithDeadline(ctx, ends)
	defer cancel()
	go k.tell(timed)
	streaming, stop := context.WithCancel(ctx)
	defer stop()
	restarted := make(chan error, 1)
	go func() { restarted <- k.restart(streaming, ends) }()
	written, err := w.paced(timed, ctx, k.Rate, math.MaxInt, k.request, nil)
	if k.Written = written; err != nil {
		stop()
	}
	return errors.Join(err, <-restarted, ctx.Err())
}

const (
	soakRestarts = 4                // how often the process is ended and started again, at equal distances
	soakApart    = 30 * time.Second // which they are at least: of a short soak they are fewer
)

// Restart is a restart of the process of a soak with its state directory.
type Restart struct {
	At     float64 `json:"at_s"`    // when it was ended, in seconds since the first sample
	Killed bool    `json:"killed"`  // as kill -9 does, instead of in order
	First  float64 `json:"first_s"` // from its start until a record was seen that it has delivered
	All    float64 `json:"all_s"`   // until one of each partition was
}

func (c Restart) String() string {
	how := "ended in order"
	if c.Killed {
		how = "killed"
	}
	return fmt.Sprintf("%s after %.0f s, and delivering again %.2f s after its start, all partitions after %.2f s", how, c.At, c.First, c.All)
}

// restart ends the process and starts it again with its state directory, by turns as kill -9 does and in order.
func (k *soak) restart(ctx context.Context, ends time.Time) error {
	n := min(max(int(k.For/soakApart), 1), soakRestarts)
	for i := range n {
		if err := sleepUntil(ctx, ends.Add(-k.For*time.Duration(n-i)/time.Duration(n+1))); err != nil {
			return err
		}
		back := Restart{At: time.Since(k.sampler.began).Seconds(), Killed: i%2 == 0}
		end := (*fleet).terminate
		if back.Killed {
			end = func(f *fleet, r *replica) error { f.kill(r); return nil }
		}
		c, err := k.comeBack(ctx, end)
		if err != nil {
			return fmt.Errorf("restart: %w", err)
		}
		back.First, back.All = c.sinceStart().Seconds(), (c.joining + c.all).Seconds()
		k.Restarts = append(k.Restarts, back)
		k.r.progress("soak: %s", back)
	}
	return nil
}

// request is one of the stream.
func (k *soak) request(i int) stamp {
	x := noise(uint64(i))
	st := stamp{mark: markMeasured, index: uint32(i)}
	ahead := farFrom + time.Duration(x%uint64(farTo-farFrom))
	if i%soakTopics != soakMixed || x%10 != 0 {
		latest := max(min(soakLatest, k.For/4), soakSoonest+time.Second)
		ahead = time.Duration(float64(soakSoonest) * math.Pow(float64(latest)/float64(soakSoonest), float64(x%1000)/1000)) // most of them soon
	}
	st.due = time.Now().Add(ahead).UnixMilli()
	return st
}

// tellSoak is how often the person who waits is told how it goes.
const tellSoak = 10 * time.Second

func (k *soak) tell(ctx context.Context) {
	for {
		if sleepUntil(ctx, time.Now().Add(tellSoak)) != nil {
			return
		}
		if s, ok := k.sampler.last(); ok {
			k.r.progress("soak: %s: %s; %s", time.Duration(s.At*float64(time.Second)).Round(time.Second), s, k.watch.Counts().Summary())
		}
	}
}

// settle waits until all that was due has been seen, and ends the replica.
func (k *soak) settle(ctx context.Context) error {
	timed, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if err := k.watch.Wait(timed); err != nil && !errors.Is(err, check.ErrWaiting) {
		return err
	}
	if k.Samples = k.sampler.end(); len(k.Samples) == 0 {
		return cmpErr(k.sampler.err, errors.New("nothing was sampled"))
	}
	return errors.Join(k.f.end(), k.o.end())
}

// judge takes in what the checker says, and what is pending by the topics alone.
func (k *soak) judge(ctx context.Context) error {
	timed, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	report, err := k.watch.Stop(timed)
	if err != nil && !errors.Is(err, check.ErrWaiting) {
		return fmt.Errorf("check the records: %w", err)
	}
	k.watch = nil
	if faults := report.Err(); faults != nil {
		k.Faults = faults.Error()
	}
	k.Records = Records{Requested: report.Requested, Delivered: report.Delivered, Later: report.Later, DeadLettered: report.DeadLettered}
	k.Records.Left, err = k.left(ctx)
	return err
}

// left counts what is pending by the checkpoints and the logs.
func (k *soak) left(ctx context.Context) (n int64, err error) {
	cl, err := k.r.client()
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	details, err := k.r.adm.ListTopics(ctx, k.delays...)
	if err = errors.Join(err, details.Error()); err != nil {
		return 0, err
	}
	l := &ahead.Looker{Client: cl, Group: k.group, Skew: time.Second, Now: time.Now()}
	for _, topic := range k.delays {
		for p := range int32(k.Partitions) {
			got, err := l.Look(ctx, kafka.TopicPartition{Topic: topic, Partition: p}, kafka.TopicID(details[topic].ID))
			if err != nil {
				return n, fmt.Errorf("look at what is pending in %s/%d: %w", topic, p, err)
			}
			if got.Lost {
				return n, fmt.Errorf("the log of %s/%d has lost what is pending", topic, p)
			}
			n += int64(got.Count())
		}
	}
	return n, nil
}

func (k *soak) tearDown() {
	k.scene.tearDown()
	if k.watch != nil {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_, _ = k.watch.Stop(over) // an error of its own was reported
	}
}

// alter changes settings of a topic.
func (c *cluster) alter(ctx context.Context, topic string, settings map[string]string) error {
	var changes []kadm.AlterConfig
	for name, value := range settings {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	altered, err := c.adm.AlterTopicConfigs(ctx, changes, topic)
	for _, a := range altered {
		err = errors.Join(err, a.Err)
	}
	if err != nil {
		return fmt.Errorf("set %v of %s: %w", settings, topic, err)
	}
	return nil
}

// retentionCheck is how often brokers look what of a log is too old, as far as they tell.
func (c *cluster) retentionCheck(ctx context.Context) time.Duration {
	every := 5 * time.Minute // Kafka's own default
	brokers, err := c.adm.BrokerMetadata(ctx)
	if err != nil {
		return every
	}
	configs, err := c.adm.DescribeBrokerConfigs(ctx, brokers.Brokers.NodeIDs()...)
	if err != nil {
		return every
	}
	for _, of := range configs {
		for _, config := range of.Configs {
			if config.Key == "log.retention.check.interval.ms" && config.Value != nil {
				if millis, err := strconv.ParseInt(*config.Value, 10, 64); err == nil {
					every = time.Duration(millis) * time.Millisecond
				}
			}
		}
	}
	return every
}
