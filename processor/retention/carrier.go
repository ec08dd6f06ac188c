package retention

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/topics"
)

// Carrier has what is pending in the partitions of a lane carried: written again at the end of the log, so that the log below can go. It
// chooses what, is told by the lane where something is pending, reads that beside the lane, and hands it over; the lane copies what is still pending in one
// of its turns. There are two reasons:
//
//   - Age. Where a topic keeps its log for some time only, what is older than half of that is carried. The other half is for how long
//     all replicas may be away. What is older than three quarters is said to be behind.
//   - Length. Where a topic is trimmed, its log is to be no longer than about twice what is pending. What lies first is carried until that
//     is so: for each copy one offset at least has been resolved before. What is due within a minute is left.
//
// One goroutine owns it. What it knows of partitions are their pictures.
type Carrier struct {
	to        chan<- *Excerpt
	throttled func(within time.Duration) bool // whether a quota has kept the lane's producers waiting lately
	cl        *kgo.Client
	of        map[kafka.TopicPartition]*carriage
	wide      int // how often an excerpt was doubled, since what it takes to carry one is mostly the way to the brokers
	ageing
}

const (
	// carryTurn is how many copies go into one turn at most, where that keeps pace with the budget.
	carryTurn = 1000
	// carryWidest is how often an excerpt may be doubled where it does not.
	carryWidest = 3
	// carryAhead is how many excerpts may be carried for the length of a log before L has passed the first of them: what holds L is in vain carried around.
	carryAhead = 8
	// carrySpares is for how long a log may be longer than it is to be because of what is due within that time.
	carrySpares = time.Minute
	// carryPause is how soon it is looked again when there is nothing to carry.
	carryPause = time.Second
	// carryRest bounds how long a partition is left alone of which nothing could be carried.
	carryRest = time.Minute
	// carryAgain is how soon that is tried again which could not be carried, where it is for the length of a log. Else it is a
	// twentieth of what the topic keeps.
	carryAgain = time.Hour
)

// NewCarrier makes one for a lane, to which it hands what is to be carried, and which says whether a quota has kept its producers waiting lately. It has not begun.
func NewCarrier(e *Env, lane int, throttled func(within time.Duration) bool, to chan<- *Excerpt) *Carrier {
	return &Carrier{
		to: to, throttled: throttled, of: map[kafka.TopicPartition]*carriage{},
		ageing: ageing{Env: e, log: e.Log.With("lane", lane), lane: lane, keeps: map[string]topics.Keeping{}, fails: map[string]time.Time{}},
	}
}

// Run carries until ctx ends.
func (c *Carrier) Run(ctx context.Context, cl *kgo.Client) {
	c.cl = cl
	for pause := carryPause; wait.For(ctx, pause); {
		pause = carryPause
		for _, p := range c.watch(ctx) {
			if g := c.due(p); g != nil && ctx.Err() == nil {
				c.carry(ctx, g, p)
				pause = 0
			}
		}
	}
}

// watch looks how old the logs of the partitions are that are here, and tells what there is to tell. That goes on whatever the carrier waits for.
func (c *Carrier) watch(ctx context.Context) (pictures []picture.Partition) {
	pictures = c.partitions()
	c.look(ctx, c.cl, c.of)
	c.tell(pictures)
	return pictures
}

// wait waits, and reports whether ctx still goes on.
func (c *Carrier) wait(ctx context.Context, d time.Duration) bool {
	for end := time.Now().Add(d); ; c.watch(ctx) {
		left := time.Until(end)
		if left <= carryPause {
			return wait.For(ctx, left)
		}
		if !wait.For(ctx, carryPause) {
			return false
		}
	}
}

// partitions are those of the lane of which something may be carried, or will be when they have been restored and have caught up. Of all others it is forgotten how far that has come.
func (c *Carrier) partitions() (pictures []picture.Partition) {
	for _, p := range c.Pictures() {
		if p.Seen != nil {
			p = p.AsSeen()
		}
		if here := p.Phase == picture.Live || p.Phase == picture.CatchUp && p.Known || p.Seen != nil; here && p.Lane == c.lane && c.Routes[p.Topic].Carries() {
			pictures = append(pictures, p)
		}
	}
	here := map[kafka.TopicPartition]bool{}
	for _, p := range pictures {
		tp := p.TP()
		here[tp] = true
		if g := c.of[tp]; g == nil || g.id != p.TopicID || !g.since.Equal(p.Since) {
			c.of[tp] = &carriage{tp: tp, id: p.TopicID, since: p.Since, most: c.most()}
			c.lookedAt = time.Time{}
		}
		c.of[tp].end = p.LogEnd
	}
	maps.DeleteFunc(c.of, func(tp kafka.TopicPartition, g *carriage) bool {
		if !here[tp] {
			c.Topics[tp.Topic].Behind.Set(tp.Partition, "")
			c.Topics[tp.Topic].Uncopied.Set(tp.Partition, "")
		}
		return !here[tp]
	})
	return pictures
}

// due says whether something of a partition is to be carried now, and from where on; nil: nothing.
func (c *Carrier) due(p picture.Partition) *carriage {
	g := c.of[p.TP()]
	if g == nil || g.id != p.TopicID || !g.since.Equal(p.Since) || p.Phase != picture.Live { // it has been given up meanwhile, or catches up
		return nil
	}
	if p.LowWater < g.low { // it has gone back: what lies above it is pending again
		g.next, g.ahead = p.LowWater, nil
	}
	moved := p.LowWater != g.low
	g.low = p.LowWater
	for len(g.ahead) > 0 && g.ahead[0] < p.LowWater {
		g.ahead = g.ahead[1:]
	}
	if g.next <= p.LowWater {
		if g.next = p.LowWater; moved {
			g.stuck, g.again = "", time.Time{}
		}
	}
	if !g.again.IsZero() && time.Now().After(g.again) {
		g.next, g.ahead, g.again = p.LowWater, nil, time.Time{}
	}
	g.next = max(g.next, p.LogStart) // what lay below and is pending is lost to all but this process
	idle := p.Pending == 0 || g.upTo(c.lengthens(g, p), p) <= g.next
	if idle {
		g.fails = time.Time{}
	}
	if p.Pending == 0 || time.Now().Before(g.rests) {
		return nil
	}
	if idle {
		if g.again.IsZero() {
			g.stuck = "" // all was tried again, and nothing was left
		}
		return nil
	}
	return g
}

// lengthens reports whether the log of a partition is longer than it is to be.
func (c *Carrier) lengthens(g *carriage, p picture.Partition) bool {
	trims := c.keeps[p.Topic].All
	if trim := c.Routes[p.Topic].Trim; trim != nil {
		trims = *trim
	}
	least := int64(c.BatchRecords / 2) // what is delivered in no time is not worth a copy
	return trims && c.Topics[p.Topic].Untrimmed.Get() == "" && p.Offset-g.next > 2*(p.Pending+p.Remembered)+least && len(g.ahead) < carryAhead
}

// carry has the lane carry what is pending in the next excerpt of a partition's log. It takes as long as that may take.
func (c *Carrier) carry(ctx context.Context, g *carriage, p picture.Partition) {
	began, long := time.Now(), c.lengthens(g, p)
	upTo, most := g.upTo(long, p), c.most()
	sought := c.hand(ctx, &Excerpt{TP: g.tp, ID: g.id, From: g.next, UpTo: upTo, Most: most, Answer: make(chan Copied, 1)})
	if sought.Err != nil {
		c.failed(g, sought)
		return
	}
	if len(sought.Wanted) == most { // there may be more behind
		upTo = min(upTo, sought.Wanted[most-1]+1)
	}
	records, next, err := g.read(ctx, c.cl, sought.Wanted, upTo, c.mostBytes())
	if err != nil {
		c.failed(g, Copied{Err: fmt.Errorf("read what is to be carried: %w", err)})
		return
	}
	c.handAll(ctx, g, records, next, long, began)
}

// handAll hands what was read since some time to the lane, and again what that leaves for another turn. Next is where the rest of the log begins.
func (c *Carrier) handAll(ctx context.Context, g *carriage, records []*kgo.Record, next int64, long bool, began time.Time) {
	for from := g.next; len(records) > 0; began = time.Now() {
		x := &Excerpt{TP: g.tp, ID: g.id, Records: records, Most: g.most, MostBytes: c.mostBytes(), Suspect: g.seeks, Spares: c.spares(g).Milliseconds(), Answer: make(chan Copied, 1)}
		got := c.hand(ctx, x)
		if got.Err != nil {
			c.wide = max(c.wide-1, 0) // so much may have been what took too long
			c.failed(g, got)
			return
		}
		c.pace(x, got, time.Since(began), long)
		c.succeeded(g, got)
		if long && got.Copies > 0 && !slices.Contains(g.ahead, from) {
			g.ahead = append(g.ahead, from)
		}
		if records = records[got.Read:]; len(records) > 0 {
			g.next = records[0].Offset
		}
		if !c.wait(ctx, c.share(got)-time.Since(began)) {
			return
		}
	}
	g.next = next
}

// spares is how soon what is not worth a copy is due: a log may be longer for that time. What is carried for its age is carried all the same, so that
// the other half of what its topic keeps is left.
func (c *Carrier) spares(g *carriage) time.Duration {
	if c.keeps[g.tp.Topic].Age > 0 {
		return 0
	}
	return carrySpares
}

// most is how many copies go into one turn at most: no more than may be made in a second.
func (c *Carrier) most() int { return min(carryTurn<<c.wide, max(c.CarryRecords/c.Lanes, 1)) }

// mostBytes is about how much is read and copied at once, and no more than may be in a second either.
func (c *Carrier) mostBytes() int {
	return min(excerptBytes<<c.wide, max(int(c.CarryBytes)/c.Lanes, excerptBytes))
}

// pace makes excerpts larger where one that was full took so long that carrying falls behind its budget, and smaller again where it did not. What
// lengthens a log has time, and what a quota keeps waiting would only wait for longer.
func (c *Carrier) pace(x *Excerpt, got Copied, took time.Duration, long bool) {
	switch share := c.share(got); {
	case took < share:
		c.wide = max(c.wide-1, 0)
	case took > 2*share && !long && !c.throttled(c.SessionTimeout) && (got.Copies >= x.Most || got.Bytes >= int64(x.MostBytes)):
		c.wide = min(c.wide+1, carryWidest)
	}
}

// share is how long that may take which was copied, for a lane to keep to its share of the budget.
func (c *Carrier) share(got Copied) time.Duration {
	seconds := max(float64(got.Copies)/float64(c.CarryRecords), float64(got.Bytes)/float64(c.CarryBytes))
	return time.Duration(seconds * float64(c.Lanes) * float64(time.Second))
}

// hand hands an excerpt to the lane, and waits for what becomes of it.
func (c *Carrier) hand(ctx context.Context, x *Excerpt) Copied {
	t := time.NewTicker(carryPause)
	defer t.Stop()
	for to := c.to; ; {
		select {
		case to <- x:
			to = nil
		case got := <-x.Answer:
			return got
		case <-t.C:
			c.watch(ctx)
		case <-ctx.Done():
			return Copied{Err: ctx.Err()}
		}
	}
}

// succeeded takes in that something was copied, or nothing had to be.
func (c *Carrier) succeeded(g *carriage, got Copied) {
	g.failed, g.why, g.fails, g.most = 0, nil, time.Time{}, min(2*g.most, c.most())
	g.seeks = g.seeks && g.most < c.most()
	if got.Unfit != nil {
		c.leave(g, fmt.Sprintf("the record at offset %d does not fit into the topic with two headers more: raise its max.message.bytes", *got.Unfit))
	}
}

// leave says why a record stays where it is, until that is tried again: what was against it may be over by then.
func (c *Carrier) leave(g *carriage, why string) {
	again := carryAgain
	if age := c.keeps[g.tp.Topic].Age; age > 0 {
		again = max(age/20, min(carryRest, age/8))
	}
	if g.stuck != why {
		c.log.Warn("a record cannot be carried", "topic", g.tp.Topic, "partition", g.tp.Partition, "why", why)
	}
	g.stuck, g.again = why, time.Now().Add(again)
}

// failed takes in that nothing was copied. What is refused is tried with fewer records, and a record that is refused by itself is left where it is.
func (c *Carrier) failed(g *carriage, got Copied) {
	if got.Refused != nil && g.most == 1 {
		c.leave(g, fmt.Sprintf("brokers refuse a copy of the record at offset %d: %v", *got.Refused, got.Err))
		g.next, g.failed = *got.Refused+1, 0
		return
	}
	if g.why = got.Err; g.fails.IsZero() {
		g.fails = time.Now()
	}
	if got.Refused != nil {
		g.most, g.seeks = max(g.most/2, 1), true
	}
	rest := wait.Growing(g.failed, wait.LeastRest, c.restMost(g))
	g.failed++
	g.rests = time.Now().Add(rest)
	c.log.Debug("nothing could be carried; trying again", "topic", g.tp.Topic, "partition", g.tp.Partition, "error", got.Err, "in", rest)
}

// restMost is how long a partition is left alone at most of which nothing could be carried: no more than a small part of the time that there is.
func (c *Carrier) restMost(g *carriage) time.Duration {
	if age := c.keeps[g.tp.Topic].Age; age > 0 {
		return min(carryRest, max(age/20, carryPause))
	}
	return carryRest
}
