package retention

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/topics"
)

// testCarrier is one of a lane that has no goroutine, and a partition with a log of 100 offsets from 10 on.
func testCarrier(route topics.Route) (*Carrier, *carriage, picture.Partition) {
	route.Topic = "t"
	env := testEnv(map[string]*topics.Route{"t": &route})
	env.BatchRecords, env.CarryRecords, env.CarryBytes, env.Lanes, env.SessionTimeout = 20, 1000, 1<<20, 2, 45*time.Second
	c := NewCarrier(env, 0, func(time.Duration) bool { return false }, nil)
	tp := kafka.TopicPartition{Topic: "t", Partition: 3}
	g := &carriage{tp: tp, most: carryTurn}
	c.of[tp] = g
	return c, g, picture.Partition{Topic: "t", Partition: 3, Phase: picture.Live, LowWater: 10, Offset: 110, Pending: 20}
}

// What is older than half of what the topic keeps is carried, up to O; and of a log that is trimmed all that comes first, while it is longer than
// twice what is pending.
func TestCarryDue(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		trim  *bool
		keeps topics.Keeping
		old   int64
		make  func(c *Carrier, g *carriage, p *picture.Partition)
		upTo  int64 // 0: nothing
	}{
		"nothing is old":                     {keeps: topics.Keeping{Age: time.Hour}, old: 10},
		"some is":                            {keeps: topics.Keeping{Age: time.Hour}, old: 40, upTo: 40},
		"all is":                             {keeps: topics.Keeping{Age: time.Hour}, old: 500, upTo: 110},
		"the log begins above":               {keeps: topics.Keeping{Age: time.Hour}, old: 40, make: func(_ *Carrier, _ *carriage, p *picture.Partition) { p.LogStart = 40 }},
		"what was done":                      {keeps: topics.Keeping{Age: time.Hour}, old: 40, make: func(_ *Carrier, g *carriage, _ *picture.Partition) { g.next = 40 }},
		"nothing is pending":                 {keeps: topics.Keeping{Age: time.Hour}, old: 40, make: func(_ *Carrier, _ *carriage, p *picture.Partition) { p.Pending = 0 }},
		"it rests":                           {keeps: topics.Keeping{Age: time.Hour}, old: 40, make: func(_ *Carrier, g *carriage, _ *picture.Partition) { g.rests = time.Now().Add(time.Minute) }},
		"a long log":                         {keeps: topics.Keeping{All: true}, upTo: 110},
		"one that is told not to be trimmed": {keeps: topics.Keeping{All: true}, trim: &no},
		"one that is told to be":             {keeps: topics.Keeping{Age: time.Hour}, trim: &yes, upTo: 110},
		"one that deletes by itself":         {keeps: topics.Keeping{}},
		"a log of twice what is pending":     {keeps: topics.Keeping{All: true}, make: func(_ *Carrier, _ *carriage, p *picture.Partition) { p.Pending = 45 }},
		"what is remembered counts":          {keeps: topics.Keeping{All: true}, make: func(_ *Carrier, _ *carriage, p *picture.Partition) { p.Remembered = 25 }},
		"a little more":                      {keeps: topics.Keeping{All: true}, make: func(_ *Carrier, _ *carriage, p *picture.Partition) { p.Pending = 44 }, upTo: 110},
		"it cannot be trimmed": {keeps: topics.Keeping{All: true}, make: func(c *Carrier, _ *carriage, _ *picture.Partition) {
			c.Topics["t"].Untrimmed.Set("no right")
		}},
		"what was done shortens it": {keeps: topics.Keeping{All: true}, make: func(_ *Carrier, g *carriage, _ *picture.Partition) { g.next = 61 }},
		"something holds L": {keeps: topics.Keeping{All: true}, make: func(_ *Carrier, g *carriage, _ *picture.Partition) {
			g.next, g.ahead = 20, []int64{10, 11, 12, 13, 14, 15, 16, 17}
		}},
		"L has passed the first of those": {keeps: topics.Keeping{All: true}, make: func(_ *Carrier, g *carriage, _ *picture.Partition) {
			g.next, g.ahead = 20, []int64{9, 11, 12, 13, 14, 15, 16, 17}
		}, upTo: 110},
		"L has passed what was not done here": {keeps: topics.Keeping{Age: time.Hour}, old: 40, make: func(_ *Carrier, g *carriage, p *picture.Partition) { g.next, p.LowWater = 20, 40 }},
	} {
		t.Run(name, func(t *testing.T) {
			carrier, g, p := testCarrier(topics.Route{Trim: c.trim})
			carrier.keeps["t"] = c.keeps
			g.old = c.old
			if c.make != nil {
				c.make(carrier, g, &p)
			}
			got := int64(0)
			if carrier.due(p) == g {
				got = g.upTo(carrier.lengthens(g, p), p)
			}
			equal(t, "to be carried up to", got, c.upTo)
		})
	}
}

// What the log has lost cannot be read: carrying goes on where it begins now, although L stays.
func TestCarryLost(t *testing.T) {
	c, g, p := testCarrier(topics.Route{})
	c.keeps["t"] = topics.Keeping{Age: time.Hour}
	g.old, p.LogStart = 100, 40
	equal(t, "something is due", c.due(p) == g, true)
	equal(t, "from", g.next, 40)
	g.next, p.LogStart = 50, 60
	equal(t, "more is due", c.due(p) == g, true)
	equal(t, "from, when that has lost more", g.next, 60)
}

// Where L goes back, since the log was cut and may go on, or a checkpoint was, what lies above it is pending again: it is carried, although it was passed before.
func TestCarryWhereLGoesBack(t *testing.T) {
	c, g, p := testCarrier(topics.Route{})
	c.keeps["t"] = topics.Keeping{Age: time.Hour}
	g.old, p.LowWater = 100, 90
	equal(t, "something is old", c.due(p) == g, true)
	g.next, g.old, g.ahead, g.stuck, g.again = 100, 120, []int64{90}, "it is too large", time.Now().Add(time.Hour)
	p.LowWater, p.Offset, p.Pending = 60, 120, 60
	equal(t, "something is old again", c.due(p) == g, true)
	equal(t, "from", g.next, 60)
	equal(t, "ahead of L, left, and to be tried again", fmt.Sprintf("%d %q %v", len(g.ahead), g.stuck, !g.again.IsZero()), `0 "" false`)
}

// Of a partition that comes again it is forgotten how far carrying had come: its log may have been cut meanwhile above L, and been written on.
func TestCarryInAnotherStay(t *testing.T) {
	c, g, p := testCarrier(topics.Route{})
	stays := func(since int64) {
		p := p
		p.Since = time.Unix(since, 0)
		c.Pictures = func() []picture.Partition { return []picture.Partition{p} }
		c.partitions()
	}
	stays(1)
	c.of[g.tp].next = 100
	stays(1)
	equal(t, "in the same stay", c.of[g.tp].next, 100)
	stays(2)
	equal(t, "in another one", c.of[g.tp].next, 0)
}

// What could not be carried is tried again after a while: the topic may take it by then.
func TestCarryStuck(t *testing.T) {
	for name, c := range map[string]struct {
		keeps topics.Keeping
		after time.Duration
	}{
		"for its age":    {topics.Keeping{Age: 20 * time.Hour}, time.Hour},
		"soon":           {topics.Keeping{Age: 10 * time.Minute}, carryRest},
		"in time":        {topics.Keeping{Age: time.Minute}, 7500 * time.Millisecond}, // it is half a minute old then, and 22 s are left
		"for the length": {topics.Keeping{All: true}, carryAgain},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				carrier, g, p := testCarrier(topics.Route{})
				carrier.keeps["t"] = c.keeps
				unfit := int64(17)
				g.next, g.old, g.ahead = 40, 40, []int64{10, 11, 12, 13, 14, 15, 16, 17}
				carrier.succeeded(g, Copied{Unfit: &unfit})
				time.Sleep(c.after - time.Millisecond)
				equal(t, "before that", carrier.due(p) == nil, true)
				time.Sleep(2 * time.Millisecond)
				equal(t, "after that", carrier.due(p) == g, true)
				equal(t, "from", g.next, p.LowWater)
				carrier.due(p)
				if why := g.reason(p, true, ""); !strings.Contains(why, "offset 17") {
					t.Errorf("while it is tried again: %s", why)
				}
				g.next, g.ahead = 40, []int64{10, 11, 12, 13, 14, 15, 16, 17}
				time.Sleep(2 * carryAgain)
				equal(t, "when nothing was found", carrier.due(p) == nil, true)
				p.LowWater = 40
				carrier.due(p)
				equal(t, "what holds L when L has risen", g.stuck, "")
			})
		})
	}
}

// What is due soon is spared where a log is too long, and not where the topic deletes what is old.
func TestCarrySpares(t *testing.T) {
	c, g, _ := testCarrier(topics.Route{})
	c.keeps["t"] = topics.Keeping{All: true}
	equal(t, "for the length of a log", c.spares(g), carrySpares)
	c.keeps["t"] = topics.Keeping{Age: 80 * time.Hour}
	equal(t, "for its age", c.spares(g), 0)
}

// Copies that fail again and again do not end that a log is shortened.
func TestCarryFailsForLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g, p := testCarrier(topics.Route{})
		c.keeps["t"] = topics.Keeping{All: true}
		to := make(chan *Excerpt)
		c.to = to
		answers := make(chan Copied)
		go func() {
			for a := range answers {
				x := <-to
				x.Answer <- a
			}
		}()
		hand := func(as ...Copied) {
			time.Sleep(2 * carryRest)
			equal(t, "something is due", c.due(p) == g, true)
			go func() {
				for _, a := range as {
					answers <- a
				}
			}()
			c.handAll(t.Context(), g, []*kgo.Record{{Offset: 10}, {Offset: 12}}, 13, c.lengthens(g, p), time.Now())
		}
		for range 2 * carryAhead {
			hand(Copied{Err: errors.New("a rebalance")})
		}
		hand(Copied{Read: 1, Copies: 1}, Copied{Read: 1, Copies: 1}) // in two turns
		equals(t, "carried ahead of L", g.ahead, []int64{10})
		equal(t, "next", g.next, 13)
		close(answers)
	})
}

// That nothing can be carried is said when it lasts, whatever it is carried for, and soon where the log is not kept for long; and that it is over.
func TestCarryFailingIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		keeps topics.Keeping
		after time.Duration
	}{"for length": {topics.Keeping{All: true}, Unsaid}, "for age": {topics.Keeping{Age: 72 * time.Hour}, Unsaid}, "short": {topics.Keeping{Age: time.Minute}, time.Minute / 8}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				carrier, g, p := testCarrier(topics.Route{})
				carrier.keeps["t"] = c.keeps
				g.old = p.Offset
				of := carrier.Topics["t"]
				said := func() string {
					carrier.tell([]picture.Partition{p})
					return of.Uncopied.Any()
				}
				fail := func() { carrier.failed(g, Copied{Err: errors.New("no right to write")}) }
				fail()
				time.Sleep(c.after - time.Millisecond)
				fail()
				equal(t, "said at first", said(), "")
				time.Sleep(time.Millisecond)
				equal(t, "said when it lasts", said(), "nothing of partition 3 can be carried, so its log grows: no right to write")
				carrier.due(p)
				equal(t, "said while it rests", said() != "", true)
				done := p
				done.Pending = 0
				carrier.due(done)
				equal(t, "said when nothing is to be carried", said(), "")
				fail()
				time.Sleep(c.after)
				equal(t, "said again", said() != "", true)
				carrier.succeeded(g, Copied{Copies: 1})
				equal(t, "said when it is over", said(), "")
			})
		})
	}
}

// That brokers do not say how old a log is, is said when that lasts, and soon where it is not kept for long.
func TestCarryUnasked(t *testing.T) {
	for name, c := range map[string]struct {
		keeps, after time.Duration
	}{"long": {72 * time.Hour, Unsaid}, "short": {time.Minute, time.Minute / 8}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				carrier, _, _ := testCarrier(topics.Route{})
				carrier.keeps["t"] = topics.Keeping{Age: c.keeps}
				of := carrier.Topics["t"]
				carrier.heard("t", errors.New("no leader"))
				time.Sleep(c.after - time.Millisecond)
				carrier.heard("t", errors.New("no leader"))
				equal(t, "at first", of.Uncarried.Any(), "")
				time.Sleep(time.Millisecond)
				carrier.heard("t", errors.New("no leader"))
				equal(t, "when it lasts", of.Uncarried.Any(), "no leader")
				carrier.heard("t", nil)
				equal(t, "when it is over", of.Uncarried.Any(), "")
				carrier.heard("t", errors.New("no leader"))
				equal(t, "when it has begun anew", of.Uncarried.Any(), "")
			})
		})
	}
}

// What is said of a topic is forgotten with the last of its partitions that is here, and what another lane says of it is not.
func TestCarryElsewhere(t *testing.T) {
	c, g, _ := testCarrier(topics.Route{})
	of := c.Topics["t"]
	why := unreadableSettings(errors.New("TOPIC_AUTHORIZATION_FAILED"))
	c.heard("t", why)
	of.Uncarried.Set(7, "another lane")
	equal(t, "while it is here", of.Uncarried.Any(), why.Error())
	delete(c.of, g.tp)
	c.look(t.Context(), nil, c.of)
	equal(t, "when it is not", of.Uncarried.Any(), "another lane")
}

// What the lane carries of an excerpt it is asked for again, until all of it is done; what fails is tried again after growing rests, with fewer records
// where one is refused, and one that is refused by itself is left where it is.
func TestCarryAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g, p := testCarrier(topics.Route{})
		refused := int64(17)
		for i, want := range []int{500, 250, 125, 62, 31, 15, 7, 3, 1} {
			c.failed(g, Copied{Err: errors.New("no"), Refused: &refused})
			equal(t, "most", g.most, want)
			if rest := time.Until(g.rests); rest <= 0 || rest > carryRest || i == 0 && rest > wait100 {
				t.Errorf("it rests for %v after %d", rest, i+1)
			}
		}
		equal(t, "next", g.next, 0)
		c.failed(g, Copied{Err: errors.New("no"), Refused: &refused})
		equal(t, "next after one that is refused by itself", g.next, 18)
		equal(t, "failures after that, which was only to be found", g.failed, 0)
		if !strings.Contains(g.reason(p, false, ""), "refuse a copy of the record at offset 17: no") {
			t.Error(g.reason(p, false, ""))
		}
		c.failed(g, Copied{Err: errors.New("a rebalance")})
		g.stuck = ""
		if !strings.Contains(g.reason(p, false, ""), "fails: a rebalance") {
			t.Error(g.reason(p, false, ""))
		}
		equal(t, "most of what was not refused", g.most, 1)
		unfit := int64(5)
		c.succeeded(g, Copied{Unfit: &unfit})
		equal(t, "most after it went well", g.most, 2)
		equal(t, "failures after it went well", g.failed, 0)
		for want := 4; want < c.most(); want *= 2 {
			c.succeeded(g, Copied{})
			equal(t, "it looks for what is refused", g.seeks, true)
		}
		c.succeeded(g, Copied{})
		equal(t, "it looks for it when as many go together as before", g.seeks, false)
		if !strings.Contains(g.reason(p, false, ""), "offset 5 does not fit") {
			t.Error(g.reason(p, false, ""))
		}
	})
}

// However often it fails, it is tried again within a small part of the time that there is.
func TestCarryRests(t *testing.T) {
	for keeps, most := range map[time.Duration]time.Duration{0: carryRest, time.Hour: carryRest, 4 * time.Minute: 12 * time.Second, time.Second: carryPause} {
		c, g, _ := testCarrier(topics.Route{})
		c.keeps["t"] = topics.Keeping{Age: keeps}
		for range 30 {
			c.failed(g, Copied{Err: errors.New("no")})
		}
		if rest := time.Until(g.rests); rest > most || rest < most/2 {
			t.Errorf("kept for %v: it rests for %v", keeps, rest)
		}
	}
}

const wait100 = 100 * time.Millisecond

// A partition is behind when its first pending record is older than three quarters of what its topic keeps.
func TestCarryBehind(t *testing.T) {
	c, g, p := testCarrier(topics.Route{})
	c.keeps["t"] = topics.Keeping{Age: 72 * time.Hour}
	behind := func(what string, old int64, want string) {
		t.Helper()
		g.ageing = old
		c.tell([]picture.Partition{p})
		got := c.Topics["t"].Behind.Of(3)
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: it says %q", what, got)
		}
	}
	behind("nothing is old", 10, "")
	behind("the first is", 11, "offset 10 on is older than three quarters of the 3d")
	g.stuck = "the record is too large"
	behind("and cannot be carried", 11, "the record is too large")
	g.stuck, g.next, p.Remembered = "", 50, 1
	behind("what is remembered holds L, and all that is old has been copied", 50, "")
	behind("not all has been", 51, "offset 10 on is older")
	g.stuck = "the record is too large"
	behind("something could not be", 50, "the record is too large")
	g.stuck, p.HeldBack, p.Position = "", "a transaction has been open", 110
	behind("copies that all wait behind an open transaction", 50, "offset 10 on is older than three quarters of the 3d that the topic keeps (retention.ms), and is lost when that is over: a transaction")
	p.LowWater, p.HeldBack = 110, ""
	behind("nothing is pending", 500, "")
	p.HeldBack = "a transaction has been open"
	behind("nothing is pending, and what is behind an open transaction is young", 110, "")
	behind("and is old", 111, "what cannot be read from offset 110 on is older than three quarters of the 3d that the topic keeps (retention.ms), and is lost when that is over: a transaction")
}

// What the log has lost already is held, and said for itself: what lies behind is not called behind because of it.
func TestCarryBehindWhereTheLogHasLostSome(t *testing.T) {
	c, g, p := testCarrier(topics.Route{})
	c.keeps["t"] = topics.Keeping{Age: 72 * time.Hour}
	g.ageing, p.LogStart = 60, 40
	said := func() string {
		c.tell([]picture.Partition{p})
		return c.Topics["t"].Behind.Of(3)
	}
	if why := said(); !strings.Contains(why, "what is pending from offset 40 on is older") {
		t.Errorf("before anything is copied it says %q", why)
	}
	g.next = 60
	equal(t, "when all that is old was copied", said(), "")
	g.stuck = "it is too large"
	if why := said(); !strings.Contains(why, "what is pending from offset 40 on is older") || !strings.Contains(why, g.stuck) {
		t.Errorf("when something could not be it says %q", why)
	}
	g.stuck, p.LogStart = "", 60
	equal(t, "when the log begins there", said(), "")
}

// While a partition catches up nothing of it is carried, for however long it waits: that it is behind is said then, too, but not in a takeover that takes no longer than a session.
func TestCarryBehindInACatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := testCarrier(topics.Route{})
		c.keeps["t"] = topics.Keeping{Age: 72 * time.Hour}
		p.Phase, p.Known, p.Reason, p.Since = picture.CatchUp, true, "a transaction has been open", time.Now()
		tp := p.TP()
		c.Pictures = func() []picture.Partition { return []picture.Partition{p} }
		said := func() string {
			ps := c.partitions()
			c.of[tp].ageing, c.of[tp].old = 50, 60
			c.tell(ps)
			equal(t, "to be carried", c.due(p) == nil, true)
			return c.Topics["t"].Behind.Of(3)
		}
		equal(t, "at first", said(), "")
		time.Sleep(c.SessionTimeout + time.Second)
		const why = " is older than three quarters of the 3d that the topic keeps (retention.ms), and is lost when that is over: nothing is carried before the partition is live: a transaction has been open"
		equal(t, "when it lasts", said(), "what is pending from offset 10 on"+why)
		p.LowWater, p.Position = p.Offset, 45
		equal(t, "of what is not read", said(), "what cannot be read from offset 45 on"+why)
		p.Phase = picture.Live
		equal(t, "when it is live", said(), "")
	})
}

// Of a log in which nothing is young, what was written while that was asked is not old.
func TestCarryAgeOfWhatIsNew(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const keeps = 72 * time.Hour
	for _, tt := range []struct {
		age              time.Duration // of a record that is written
		end, old, ageing int64         // where the log ended before it was asked
	}{
		{keeps, 1, 1, 1},
		{keeps, 1, 1, 1}, // this one came meanwhile
		{keeps / 8 * 5, 3, 3, 2},
	} {
		r := &kgo.Record{Topic: "t", Partition: 3, Timestamp: time.Now().Add(-tt.age)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		c, g, _ := testCarrier(topics.Route{})
		c.Now = func() int64 { return time.Now().UnixMilli() }
		g.end = tt.end
		if err := c.lookAt(t.Context(), cl, c.of, "t", keeps); err != nil {
			t.Error(err)
		}
		equal(t, "old", g.old, tt.old)
		equal(t, "ageing", g.ageing, tt.ageing)
	}
}

// An excerpt is handed to the lane, and its answer waited for.
func TestCarryExcerpts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := testCarrier(topics.Route{})
		to := make(chan *Excerpt)
		c.to = to
		got := make(chan Copied, 1)
		go func() {
			got <- c.hand(t.Context(), &Excerpt{Records: []*kgo.Record{{Offset: 7}}, Answer: make(chan Copied, 1)})
		}()
		x := <-to
		x.Answer <- Copied{Read: 1}
		equal(t, "read", (<-got).Read, 1)
	})
}

// That a topic's settings cannot be read is said at once where nothing is known of it, and when they can be again.
func TestCarryUnknown(t *testing.T) {
	c, _, _ := testCarrier(topics.Route{})
	of := c.Topics["t"]
	c.heard("t", nil)
	equal(t, "known", of.Uncarried.Any(), "")
	c.heard("t", unreadableSettings(errors.New("TOPIC_AUTHORIZATION_FAILED")))
	if why := of.Uncarried.Any(); !strings.Contains(why, "TOPIC_AUTHORIZATION_FAILED") || !strings.Contains(why, "DescribeConfigs") {
		t.Errorf("it says %q", why)
	}
	c.heard("t", nil)
	equal(t, "known again", of.Uncarried.Any(), "")
	c.keeps["t"] = topics.Keeping{Age: time.Hour}
	c.heard("t", unreadableSettings(errors.New("UNKNOWN_SERVER_ERROR")))
	equal(t, "what was known before counts for a while", of.Uncarried.Any(), "")
}
