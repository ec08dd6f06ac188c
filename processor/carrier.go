package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/topics"
)

// carrier has what is pending in the partitions of a lane carried: written again at the end of the log, so that the log below can go. It
// chooses what, reads that part of the log beside the lane, and hands it over; the lane copies what is pending there in one of
// its turns (copies.go). There are two reasons:
//
//   - Age. Where a topic keeps its log for some time only, what is older than half of that is carried. The other half is for how long
//     all replicas may be away. What is older than three quarters is said to be behind.
//   - Length. Where a topic is trimmed, its log is to be no longer than about twice what is pending. What lies first is carried until that
//     is so: for each copy one offset at least has been resolved before. What is due within a minute is left.
//
// One goroutine owns it. What it knows of partitions are their pictures.
type carrier struct {
	*shared
	log        *slog.Logger
	lane       int
	to         chan<- *excerpt
	cl         *kgo.Client
	of         map[kafka.TopicPartition]*carriage
	keeps      map[string]topics.Keeping // by topic
	lookedAt   time.Time
	failing    wait.Backoff // to look
	failsSince time.Time    // zero: it does not
}

const (
	// carryTurn is how many copies go into one turn at most.
	carryTurn = 1000
	// carryBytes is about how much of a log is read at once.
	carryBytes = 1 << 20
	// carryAhead is how many excerpts may be carried for the length of a log before L has passed the first of them: what holds L is in vain carried around.
	carryAhead = 8
	// carrySpares is for how long a log may be longer than it is to be because of what is due within that time.
	carrySpares = time.Minute
	// carryPause is how soon it is looked again when there is nothing to carry.
	carryPause = time.Second
	// carryLook is how often brokers are asked how old a log is: once in a twentieth of what it keeps, and within these bounds.
	carryLook, carryLookMost = time.Second, time.Minute
	// carryUnasked is for how long it may go on failing to ask how old logs are before that is said.
	carryUnasked = 5 * time.Minute
	// carryRest bounds how long a partition is left alone of which nothing could be carried.
	carryRest = time.Minute
	// carryAgain is how soon that is tried again which could not be carried, where it is for the length of a log. Else it is a
	// twentieth of what the topic keeps.
	carryAgain = time.Hour
)

func newCarrier(sh *shared, lane int, to chan<- *excerpt) *carrier {
	return &carrier{
		shared: sh, log: sh.cfg.Logger.With("lane", lane), lane: lane, to: to,
		of: map[kafka.TopicPartition]*carriage{}, keeps: map[string]topics.Keeping{},
	}
}

// run carries until ctx ends.
func (c *carrier) run(ctx context.Context, cl *kgo.Client) {
	c.cl = cl
	for pause := carryPause; wait.For(ctx, pause); {
		pause = carryPause
		pictures := c.partitions()
		if err := c.look(ctx, pictures); err == nil {
			c.failsSince = time.Time{}
		} else if ctx.Err() == nil {
			c.lookFailed(pictures, err)
		}
		for _, p := range pictures {
			if g := c.due(p); g != nil && ctx.Err() == nil {
				c.carry(ctx, g, p)
				pause = 0
			}
		}
	}
}

// partitions are those of the lane of which something may be carried. Of all others it is forgotten how far that has come.
func (c *carrier) partitions() (pictures []PartitionStats) {
	for _, p := range c.assigned.pictures() {
		if p.Lane == c.lane && p.Phase == PhaseLive && c.routes[p.Topic].Carries() {
			pictures = append(pictures, p)
		}
	}
	here := map[kafka.TopicPartition]bool{}
	for _, p := range pictures {
		tp := p.tp()
		here[tp] = true
		if g := c.of[tp]; g == nil || g.id != p.TopicID {
			c.of[tp] = &carriage{tp: tp, id: p.TopicID, most: c.most()}
			c.lookedAt = time.Time{}
		}
	}
	maps.DeleteFunc(c.of, func(tp kafka.TopicPartition, g *carriage) bool {
		if !here[tp] {
			c.counters.topics[tp.Topic].behind.set(tp.Partition, "")
		}
		return !here[tp]
	})
	return pictures
}

// lookEvery is how often brokers are asked how old a log is.
func (c *carrier) lookEvery() time.Duration {
	every := carryLookMost
	for tp := range c.of {
		if age := c.keeps[tp.Topic].Age; age > 0 {
			every = min(every, max(age/20, carryLook))
		}
	}
	return every
}

// look asks what topics keep, and where in their logs what is half as old lies.
func (c *carrier) look(ctx context.Context, pictures []PartitionStats) error {
	if len(pictures) == 0 || time.Since(c.lookedAt) < c.lookEvery() {
		return nil
	}
	c.lookedAt = time.Now()
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	adm := kadm.NewClient(c.cl)
	var names []string
	for _, p := range pictures {
		names = append(names, p.Topic)
	}
	slices.Sort(names)
	keeps, err := topics.Keeps(ctx, adm, slices.Compact(names)...)
	if err != nil {
		return err
	}
	clear(c.keeps)
	for topic, k := range keeps {
		c.keeps[topic] = k
		c.note(topic, unreadableSettings(k.Err))
		if k.Age > 0 {
			err = errors.Join(err, c.lookAt(ctx, adm, topic, k.Age))
		}
	}
	c.tell(pictures)
	return err
}

// lookFailed rests before it is looked again, and says so of all topics when that goes on failing.
func (c *carrier) lookFailed(pictures []PartitionStats, err error) {
	c.log.Debug("it cannot be asked how old delay topics are; asking again", "error", err)
	c.lookedAt = time.Now().Add(max(c.failing.Failed(), wait.LeastRest) - c.lookEvery())
	if c.failsSince.IsZero() {
		c.failsSince = time.Now()
	}
	if time.Since(c.failsSince) < carryUnasked {
		return
	}
	for _, p := range pictures {
		c.note(p.Topic, fmt.Errorf("brokers do not say how old its log is: %w", err))
	}
}

// unreadableSettings says what it means that a topic's settings cannot be read; nil: they can.
func unreadableSettings(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("its settings cannot be read (%w), so it is not known for how long it keeps its log: give this user the right to DescribeConfigs of the topic, or set carry: false on the route", err)
}

// note tells once why nothing of a topic is carried for its age; nil: it is.
func (c *carrier) note(topic string, err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	switch {
	case !newWhy(&c.counters.topics[topic].uncarried, why):
	case why == "":
		c.log.Info("what is pending in a delay topic is carried for its age again", "topic", topic)
	default:
		c.log.Warn("what is pending in a delay topic is not carried for its age", "topic", topic, "why", why)
	}
}

// lookAt asks where in a topic that lies which is half as old as what it keeps, and three quarters.
func (c *carrier) lookAt(ctx context.Context, adm *kadm.Client, topic string, age time.Duration) error {
	now := c.clock.Now()
	old, err := adm.ListOffsetsAfterMilli(ctx, now-age.Milliseconds()/2, topic)
	if err != nil {
		return fmt.Errorf("offsets by age: %w", err)
	}
	ageing, err := adm.ListOffsetsAfterMilli(ctx, now-age.Milliseconds()/4*3, topic)
	if err != nil {
		return fmt.Errorf("offsets by age: %w", err)
	}
	for tp, g := range c.of {
		o, ok := old.Lookup(tp.Topic, tp.Partition)
		a, too := ageing.Lookup(tp.Topic, tp.Partition)
		switch {
		case tp.Topic != topic:
		case !ok || !too:
			err = errors.Join(err, kerr.UnknownTopicOrPartition)
		case o.Err != nil || a.Err != nil:
			err = errors.Join(err, o.Err, a.Err)
		default:
			g.old, g.ageing = o.Offset, a.Offset
		}
	}
	return err
}

// due says whether something of a partition is to be carried now, and from where on; nil: nothing.
func (c *carrier) due(p PartitionStats) *carriage {
	g := c.of[p.tp()]
	for len(g.ahead) > 0 && g.ahead[0] < p.LowWater {
		g.ahead = g.ahead[1:]
	}
	if g.next <= p.LowWater {
		g.next, g.stuck, g.again = p.LowWater, "", time.Time{}
	}
	if !g.again.IsZero() && time.Now().After(g.again) {
		g.next, g.ahead, g.again = p.LowWater, nil, time.Time{}
	}
	g.next = max(g.next, p.LogStart) // what lay below and is pending is lost to all but this process
	if time.Now().Before(g.rests) || p.Pending == 0 {
		return nil
	}
	if g.upTo(c.lengthens(g, p), p) <= g.next {
		if g.again.IsZero() {
			g.stuck = "" // all was tried again, and nothing was left
		}
		return nil
	}
	return g
}

// lengthens reports whether the log of a partition is longer than it is to be.
func (c *carrier) lengthens(g *carriage, p PartitionStats) bool {
	trims := c.keeps[p.Topic].All
	if trim := c.routes[p.Topic].Trim; trim != nil {
		trims = *trim
	}
	least := int64(c.cfg.BatchRecords / 2) // what is delivered in no time is not worth a copy
	return trims && c.counters.topics[p.Topic].whyUntrimmed() == "" && p.Offset-g.next > 2*(p.Pending+p.Remembered)+least && len(g.ahead) < carryAhead
}

// carry has the lane carry what is pending in the next excerpt of a partition's log. It takes as long as that may take.
func (c *carrier) carry(ctx context.Context, g *carriage, p PartitionStats) {
	long := c.lengthens(g, p)
	records, next, err := c.read(ctx, g, g.upTo(long, p))
	if err != nil {
		c.failed(g, copied{err: fmt.Errorf("read what is to be carried: %w", err)})
		return
	}
	c.handAll(ctx, g, records, next, long)
}

// handAll hands what was read to the lane, and again what that leaves for another turn. Next is where the rest of the log begins.
func (c *carrier) handAll(ctx context.Context, g *carriage, records []*kgo.Record, next int64, long bool) {
	for from := g.next; len(records) > 0; {
		began := time.Now()
		got := c.hand(ctx, &excerpt{tp: g.tp, id: g.id, records: records, most: g.most, spares: c.spares(g).Milliseconds(), answer: make(chan copied, 1)})
		if got.err != nil {
			c.failed(g, got)
			return
		}
		c.succeeded(g, got)
		if long && got.copies > 0 && !slices.Contains(g.ahead, from) {
			g.ahead = append(g.ahead, from)
		}
		if records = records[got.read:]; len(records) > 0 {
			g.next = records[0].Offset
		}
		if !wait.For(ctx, c.share(got)-time.Since(began)) {
			return
		}
	}
	g.next = next
}

// spares is how soon what is not worth a copy is due: a log may be longer for that time. What is carried for its age is carried all the same, so that
// the other half of what its topic keeps is left.
func (c *carrier) spares(g *carriage) time.Duration {
	if c.keeps[g.tp.Topic].Age > 0 {
		return 0
	}
	return carrySpares
}

// most is how many copies go into one turn at most: no more than may be made in a second.
func (c *carrier) most() int { return min(carryTurn, max(c.cfg.CarryRecords/c.cfg.Lanes, 1)) }

// share is how long that may take which was copied, for a lane to keep to its share of the budget.
func (c *carrier) share(got copied) time.Duration {
	seconds := max(float64(got.copies)/float64(c.cfg.CarryRecords), float64(got.bytes)/float64(c.cfg.CarryBytes))
	return time.Duration(seconds * float64(c.cfg.Lanes) * float64(time.Second))
}

// hand hands an excerpt to the lane, and waits for what becomes of it.
func (c *carrier) hand(ctx context.Context, x *excerpt) (got copied) {
	select {
	case c.to <- x:
	case <-ctx.Done():
		return copied{err: ctx.Err()}
	}
	select {
	case got = <-x.answer:
		return got
	case <-ctx.Done():
		return copied{err: ctx.Err()}
	}
}

// succeeded takes in that something was copied, or nothing had to be.
func (c *carrier) succeeded(g *carriage, got copied) {
	g.failed, g.why, g.most = 0, nil, min(2*g.most, c.most())
	if got.unfit != nil {
		c.leave(g, fmt.Sprintf("the record at offset %d does not fit into the topic with two headers more: raise its max.message.bytes", *got.unfit))
	}
}

// leave says why a record stays where it is, until that is tried again: what was against it may be over by then.
func (c *carrier) leave(g *carriage, why string) {
	again := carryAgain
	if age := c.keeps[g.tp.Topic].Age; age > 0 {
		again = max(age/20, carryRest)
	}
	if g.stuck != why {
		c.log.Warn("a record cannot be carried", "topic", g.tp.Topic, "partition", g.tp.Partition, "why", why)
	}
	g.stuck, g.again = why, time.Now().Add(again)
}

// failed takes in that nothing was copied. What is refused is tried with fewer records, and a record that is refused by itself is left where it is.
func (c *carrier) failed(g *carriage, got copied) {
	if got.refused != nil && g.most == 1 {
		c.leave(g, fmt.Sprintf("brokers refuse a copy of the record at offset %d: %v", *got.refused, got.err))
		g.next, g.failed = *got.refused+1, 0
		return
	}
	g.why = got.err
	if got.refused != nil {
		g.most = max(g.most/2, 1)
	}
	rest := wait.Growing(g.failed, wait.LeastRest, carryRest)
	g.failed++
	g.rests = time.Now().Add(rest)
	c.log.Debug("nothing could be carried; trying again", "topic", g.tp.Topic, "partition", g.tp.Partition, "error", got.err, "in", rest)
}

// read reads some of a partition's log, up to an offset, and says where the rest of it begins.
func (c *carrier) read(ctx context.Context, g *carriage, upTo int64) (records []*kgo.Record, next int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	leader, err := kafka.LeaderOf(ctx, c.cl, g.tp)
	if err != nil {
		return nil, 0, err
	}
	answer, err := kafka.FetchOnce(ctx, leader, g.tp, g.id, g.next, carryBytes)
	if err != nil {
		return nil, 0, err
	}
	records, next, err = kafka.Decode(g.tp, g.next, answer)
	if err == nil && next <= g.next {
		err = fmt.Errorf("nothing at offset %d", g.next)
	}
	for i, r := range records {
		if r.Offset >= upTo {
			return records[:i], upTo, err
		}
	}
	return records, min(next, upTo), err
}
