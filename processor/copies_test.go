package processor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/wiretap"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/retention"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

// copyist is a lane with three records pending for hours, and one that is due.
type copyist struct {
	t   *testing.T
	l   *lane
	w   *wiretap.Tap
	p   *partition
	log []*kgo.Record
}

func newCopyist(t *testing.T, tune ...func(*Config)) *copyist {
	l, w := testCluster(t, tune...)
	for _, name := range []string{"orders", testTopic, testTopic + ".dead"} {
		l.targets.Of([]byte(name)).State.Store(&targets.State{Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}})
	}
	c := &copyist{t: t, l: l, w: w, p: livePartition(t, l)}
	for offset := range int64(3) {
		c.log = append(c.log, req(offset, testNow+(10+offset)*3600_000, "orders"))
	}
	c.log = append(c.log, req(3, testNow, "orders"))
	l.read(t, c.p, testNow, c.log...)
	pt := c.p.take(testNow, nil, 10, anyBytes)
	l.turns.settle(&turn.Turn{Env: l.turnEnv(), Tried: []*turn.Part{pt}}) // it is delivered, so O has passed all
	if l.cfg.Guarantee == AtLeastOnce {
		l.checkpoints.wrote(&turn.Turn{Env: l.turnEnv(), Tried: []*turn.Part{c.p.prepareCommit()}})
	}
	return c
}

// excerpt hands the log to the lane.
func (c *copyist) excerpt(most int) *excerpt {
	x := &excerpt{Excerpt: &retention.Excerpt{TP: c.p.tp, ID: c.p.id, Records: c.log, Most: most, MostBytes: 1 << 20, Answer: make(chan retention.Copied, 1)}, since: time.Now()}
	c.l.turns.copies.excerpt = x
	return x
}

// answered is what the lane has told the carrier.
func (x *excerpt) answered(t *testing.T) retention.Copied {
	t.Helper()
	select {
	case got := <-x.Answer:
		return got
	default:
		t.Fatal("the carrier waits for an answer")
		return retention.Copied{}
	}
}

// overdue says that an excerpt has waited for long enough.
func (c *copyist) overdue(x *excerpt) { x.since, x.waited = time.Now().Add(-copiesPatience), true }

// turn has the copies that wait carried out in a turn, with other parts of it.
func (c *copyist) turn(others ...*turn.Part) *turn.Turn {
	c.t.Helper()
	pt := c.l.turns.copies.part(c.l.order, testNow, c.l.turns.full)
	if pt == nil {
		c.t.Fatal("nothing is carried")
	}
	id := "me-0"
	if c.l.cfg.Guarantee == AtLeastOnce {
		id = ""
	}
	tn := &turn.Turn{
		Env: c.l.turnEnv(), Parts: append(others, pt), Member: someone, Began: time.Now(), Cancel: func() {},
		Producer: producer.New(c.l.producers.config(id)), Renderer: &turn.Renderer{Env: c.l.turnEnv()},
	}
	c.t.Cleanup(tn.Producer.Close)
	if err := tn.Producer.Renew(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	c.w.Take()
	return tn
}

func (c *copyist) conclude(tn *turn.Turn) {
	c.l.turns.conclude(c.t.Context(), c.l.order, tn, outsider{})
}

// What is pending is copied, all else is passed over; L stays where it was until the copies have been read, and then goes on.
func TestCopies(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			c := newCopyist(t, func(c *Config) { c.Guarantee = guarantee })
			x := c.excerpt(10)
			tn := c.turn()
			equal(t, "what is due while it goes on", c.p.wants(testNow), 0)
			tn.Run(t.Context())
			c.conclude(tn)
			equal(t, "outcome", tn.Outcome, turn.Done)
			got := x.answered(t)
			equal(t, "read", got.Read, 4)
			equal(t, "copies", got.Copies, 3)
			equal(t, "copies that are counted", c.l.counters.topics[testTopic].carried.Load(), 3)
			if got.Err != nil || got.Bytes < 300 || got.Unfit != nil {
				t.Errorf("%+v", got)
			}
			equal(t, "L", c.p.prepareCommitLow(), 0)
			end := int64(4)
			for i := range tn.Renderer.Outputs {
				r := *tn.Renderer.Outputs[i].Record
				r.Offset = int64(4 + i)
				end = r.Offset + 1
				c.l.read(t, c.p, testNow, &r)
			}
			c.l.read(t, c.p, testNow, control(tn.OwnEnds[tn.Parts[0]]))
			equal(t, "copies", end, 7)
			equal(t, "pending", c.p.Pending(), 3)
			if low := c.p.prepareCommitLow(); low < 4 {
				t.Errorf("L is %d", low)
			}
		})
	}
}

// prepareCommitLow is L of the next checkpoint, or of the last.
func (p *partition) prepareCommitLow() int64 {
	if pt := p.prepareCommit(); pt != nil {
		return pt.To.LowWater
	}
	return p.Marks().Committed.LowWater
}

// Copies give way to what is due, for a while: then their partition waits for one turn.
func TestCopiesGiveWay(t *testing.T) {
	c := newCopyist(t)
	x := c.excerpt(2)
	c.l.read(t, c.p, testNow, req(4, testNow, "orders"))
	if pt := c.l.turns.copies.part(c.l.order, testNow, c.l.turns.full); pt != nil {
		t.Error("something is due, and copies are made")
	}
	c.overdue(x)
	pt := c.l.turns.copies.part(c.l.order, testNow, c.l.turns.full)
	if pt == nil || len(pt.Copies.List) != 2 {
		t.Fatalf("%+v", pt)
	}
	equal(t, "what is due while it goes on", c.p.wants(testNow), 0)
	if _, is := c.p.nextDue(); is {
		t.Error("the lane waits for what it does not deliver")
	}
	c.l.turns.copies.conclude(&turn.Turn{Env: c.l.turnEnv(), Parts: []*turn.Part{pt}, Tried: []*turn.Part{pt}, Outcome: turn.Aborted, Err: kerr.RebalanceInProgress})
	equal(t, "what is due then", c.p.wants(testNow), 1)
	if got := x.answered(t); !errors.Is(got.Err, kerr.RebalanceInProgress) || got.Refused != nil {
		t.Errorf("%+v", got)
	}
	if !(pending.Carrying{Partition: c.p.Partition}).May() {
		t.Error("it cannot be tried again")
	}
	c.excerpt(2)
	c.l.turns.full = true
	equal(t, "the turn before was full", c.l.turns.copies.part(c.l.order, testNow, c.l.turns.full) == nil, true)
	c.l.turns.full = false
	x = c.excerpt(2)
	c.overdue(x)
	x.ID = kafka.TopicID{9}
	if c.l.turns.begin(c.l.order, testNow, outsider{}); c.l.turns.inFlight != nil {
		t.Fatal("the topic was made anew, and what was read of the old one is copied")
	}
	if got := x.answered(t); got.Err != errNotNow {
		t.Errorf("%+v", got)
	}
	x = c.excerpt(2)
	c.p.Leave()
	equal(t, "it is about to be read again", c.l.turns.copies.part(c.l.order, testNow, c.l.turns.full) == nil, true)
	if got := x.answered(t); got.Err != errNotNow {
		t.Errorf("%+v", got)
	}
}

// What is to be carried of a partition that was given up goes back to the carrier, also if the lane has no other one, or no turn may begin.
func TestCopiesGivenUp(t *testing.T) {
	for name, give := range map[string]func(c *copyist) []*partition{
		"the last one": func(*copyist) []*partition { return nil },
		"producers are renewed": func(c *copyist) []*partition {
			c.l.producers.renewing = true
			c.p.phase = PhaseStopped
			return c.l.order
		},
		"a turn is under way": func(c *copyist) []*partition {
			c.l.turns.inFlight = &turn.Turn{}
			c.p.phase = PhaseStopped
			return c.l.order
		},
		"it is not in the group": func(c *copyist) []*partition { c.p.phase = PhaseRestoring; return c.l.order },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCopyist(t)
			x := c.excerpt(2)
			c.l.turns.begin(give(c), testNow, outsider{})
			select {
			case got := <-x.Answer:
				equal(t, "why", got.Err, errNotNow)
			default:
				t.Error("the carrier waits")
			}
		})
	}
}

// While a quota keeps everything waiting copies do not become urgent: what is due goes before them once it is over, or it would wait for copies for ever.
func TestCopiesAfterAQuota(t *testing.T) {
	c := newCopyist(t)
	x := c.excerpt(2)
	c.l.read(t, c.p, testNow, req(4, testNow, "orders"))
	x.since = time.Now().Add(-copiesPatience) // the quota lasted
	equal(t, "before what is due", c.l.turns.copies.part(c.l.order, testNow, c.l.turns.full) == nil, true)
	equal(t, "after that", c.l.turns.copies.part(c.l.order, testNow, c.l.turns.full) != nil, true)
}

// Copies are as many as a turn takes that does not take long, and count as what it has brought to the brokers.
func TestCopiesAreABatch(t *testing.T) {
	for _, most := range []batch{{2, 1 << 20}, {1000, 150}} {
		c := newCopyist(t)
		c.excerpt(10)
		c.l.selection.batch = most
		tn := c.turn()
		equal(t, "copies", len(tn.Parts[0].Copies.List), 2)
		tn.Run(t.Context())
		equal(t, "records", batchOf(tn).records, 2)
		tn.Sending, tn.Patience = c.l.cfg.TurnTimeout, againAndAgain
		c.conclude(tn)
		equal(t, "records of a batch", c.l.selection.batch.records, 1)
	}
}

// While turns are full, one after the other, copies get their turn all the same.
func TestCopiesBesideFullTurns(t *testing.T) {
	c := newCopyist(t)
	c.l.read(t, c.p, testNow, req(4, testNow, "orders"))
	x := c.excerpt(10)
	p := producer.New(c.l.producers.config("me-0"))
	t.Cleanup(p.Close)
	c.l.producers.list, c.l.producers.renderers = []*producer.Producer{p}, [2]*turn.Renderer{{}, {}}
	c.l.turns.inFlight = &turn.Turn{Full: true}
	x.since = time.Now().Add(-copiesPatience)
	c.l.turns.begin(c.l.order, testNow, outsider{})
	equal(t, "nothing is rendered ahead of copies that have waited", c.l.turns.ahead == nil, true)
	x.since = time.Now()
	c.l.turns.begin(c.l.order, testNow, outsider{})
	equal(t, "what is due is rendered ahead before that", c.l.turns.ahead != nil, true)
	c.l.turns.release(c.l.order, false, outsider{})
}

// A copy that is refused for what it is makes no suspect of a record that went along, and blames no topic.
func TestCopiesRefused(t *testing.T) {
	c := newCopyist(t)
	c.l.read(t, c.p, testNow, req(4, testNow, "orders"))
	other := livePart(t, c.l)
	x := c.excerpt(10)
	c.overdue(x)
	tn := c.turn(other)
	c.w.Answer(kmsg.Produce, func(req kmsg.Request) (kmsg.Response, error) {
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range req.(*kmsg.ProduceRequest).Topics {
			st := kmsg.NewProduceResponseTopic()
			st.Topic, st.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				sp := kmsg.NewProduceResponseTopicPartition()
				sp.Partition = rp.Partition
				if rp.Partition == testTP.Partition {
					sp.ErrorCode = kerr.InvalidRecord.Code
				}
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil
	})
	tn.Run(t.Context())
	c.conclude(tn)
	equal(t, "outcome", tn.Outcome, turn.Aborted)
	equal(t, "blamed", len(tn.Blamed), 0)
	equal(t, "narrowing", c.l.selection.search.narrowing, false)
	got := x.answered(t)
	if !errors.Is(got.Err, kerr.InvalidRecord) || got.Refused == nil || *got.Refused != 0 {
		t.Errorf("%+v", got)
	}
	equal(t, "tried again at once", c.l.turns.aborts, 0)
}

// While it is looked for which copy is refused, copies go alone: what is due is not given up with them, and comes in the next turn.
func TestCopiesSuspectedGoAlone(t *testing.T) {
	for suspect, parts := range map[bool]int{false: 2, true: 1} {
		c := newCopyist(t)
		second := emptyPartition(c.p, testTP.Partition+1)
		c.l.read(t, second, testNow, req(second.Marks().Committed.Offset, testNow, "orders"))
		x := c.excerpt(10)
		x.Suspect = suspect
		c.overdue(x)
		tn := &turn.Turn{Env: c.l.turnEnv()}
		c.l.turns.gather(tn, []*partition{c.p, second}, testNow)
		equal(t, "parts", len(tn.Parts), parts)
		if last := tn.Parts[len(tn.Parts)-1]; last.Copies == nil {
			t.Error("nothing is carried")
		}
	}
}

// livePart is a part with nothing of the partition in it, as of another one.
func livePart(t *testing.T, l *lane) *turn.Part {
	t.Helper()
	p := l.order[0]
	pt := p.take(testNow, nil, 10, anyBytes)
	if pt == nil {
		t.Fatal("nothing is due")
	}
	p.Begin()
	return pt
}

// What the topic does not take with two headers more stays where it is, and is named.
func TestCopiesTooLarge(t *testing.T) {
	c := newCopyist(t)
	size := topics.RecordSize(c.log[0].Key, c.log[0].Value, c.log[0].Headers)
	c.l.targets.Of([]byte(testTopic)).State.Store(&targets.State{Status: targets.Ready, Partitions: 4, Takes: targets.Limits{MaxBytes: int32(size + topics.BatchOverhead), Inflates: true}})
	x := c.excerpt(10)
	tn := c.turn()
	tn.Run(t.Context())
	c.conclude(tn)
	equal(t, "outcome", tn.Outcome, turn.Done)
	if got := x.answered(t); got.Err != nil || got.Copies != 0 || got.Unfit == nil || *got.Unfit != 2 || got.Read != 4 {
		t.Errorf("%+v", got)
	}
	if !(pending.Carrying{Partition: c.p.Partition}).May() {
		t.Error("nothing can be carried any more")
	}
}

// While another partition of the delay topic has no leader the copies are made, but where the topic has made a turn fail as well.
func TestCopiesBesideAPartitionWithoutLeader(t *testing.T) {
	for _, test := range []struct {
		name     string
		own      bool
		failures int
		copies   int
	}{
		{"another one", false, 0, 3},
		{"its own", true, 0, 0},
		{"another one, and a turn has failed", false, 1, 0},
	} {
		c := newCopyist(t)
		sound := make([]bool, 4)
		for i := range sound {
			sound[i] = test.own != (int32(i) == c.p.tp.Partition)
		}
		c.l.targets.Of([]byte(testTopic)).State.Store(&targets.State{
			Status: targets.Troubled, Why: "no leader", Partitions: 4, Takes: targets.Limits{MaxBytes: kafka.DefaultMaxBytes}, Sound: sound, Failures: test.failures,
		})
		x := c.excerpt(10)
		tn := c.turn()
		tn.Run(t.Context())
		c.conclude(tn)
		got := x.answered(t)
		equal(t, test.name+": copies", got.Copies, test.copies)
		equal(t, test.name+": held", got.Err != nil, test.copies == 0)
	}
}

// While the delay topic takes nothing the copies are not tried, and nothing of them is left.
func TestCopiesHeld(t *testing.T) {
	c := newCopyist(t)
	c.l.targets.Of([]byte(testTopic)).State.Store(&targets.State{Status: targets.Troubled, Why: "no leader"})
	x := c.excerpt(10)
	tn := c.turn()
	tn.Run(t.Context())
	c.conclude(tn)
	if got := x.answered(t); got.Err == nil || !strings.Contains(got.Err.Error(), "no leader") || got.Copies != 0 {
		t.Errorf("%+v", got)
	}
	equal(t, "to be repeated", len(c.p.Repeated()), 0)
	if !(pending.Carrying{Partition: c.p.Partition}).May() {
		t.Error("nothing can be carried any more")
	}
}

// At least once, a copy that was not answered may be appended yet: until that is over, L stays and nothing else is carried.
func TestCopiesUnanswered(t *testing.T) {
	c := newCopyist(t, func(c *Config) { c.Guarantee = AtLeastOnce })
	x := c.excerpt(10)
	tn := c.turn()
	c.conclude(&turn.Turn{Env: tn.Env, Parts: tn.Parts, Tried: tn.Parts, Outcome: turn.Aborted, Err: errors.New("records not acknowledged"), Cancel: func() {}, Renderer: tn.Renderer})
	if got := x.answered(t); got.Err == nil || !strings.Contains(got.Err.Error(), "not acknowledged") {
		t.Errorf("%+v", got)
	}
	equal(t, "another", (pending.Carrying{Partition: c.p.Partition}).May(), false)
	c.p.unsureSince = time.Now().Add(-retention.StaleCheckpoint)
	c.p.learnCopies(100, time.Now().Add(-time.Second))
	equal(t, "soon after", (pending.Carrying{Partition: c.p.Partition}).May(), false)
	c.p.learnCopies(100, time.Now())
	equal(t, "long after", (pending.Carrying{Partition: c.p.Partition}).May(), true)
	equal(t, "L", c.p.prepareCommitLow(), 0)
	c.p.learnCopies(100, time.Now().Add(time.Hour)) // it is sure of them once and for all
}
