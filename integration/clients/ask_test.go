package clients

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/topics"
)

// change is a way to change one's mind about what was asked for.
type change struct {
	name  string
	keyed bool                                 // the route is keyed
	id    bool                                 // the first request has one
	write func(of request, due int64) *message // nil: nothing is written
	// want is what must have become of both, from the partitions in which they lie.
	want func(first, second int32) (ofFirst, ofSecond outcome)
}

// outcome is what becomes of a record: delivered, no more to be seen, or the code of its dead letter.
type outcome string

const (
	delivered outcome = "delivered"
	gone      outcome = ""
)

// request is a record that was written.
type request struct {
	message
	at  place
	due int64
}

func (r request) handle() string {
	return topics.Handle{Partition: r.at.Partition, Offset: r.at.Offset, Due: r.due}.String()
}

func always(first, second outcome) func(int32, int32) (outcome, outcome) {
	return func(int32, int32) (outcome, outcome) { return first, second }
}

// inItsPartition is what comes of a replacement that has to be in the partition of what it replaces, with this code if it is not.
func inItsPartition(elsewhere outcome) func(int32, int32) (outcome, outcome) {
	return func(first, second int32) (outcome, outcome) {
		if first == second {
			return gone, delivered
		}
		return delivered, elsewhere
	}
}

// again asks anew, with the key and the target of the first request.
func again(of request, due int64) *message {
	return &message{Topic: of.Topic, Key: of.Key, Headers: map[string]string{topics.HeaderUntil: strconv.FormatInt(due, 10), topics.HeaderTargetTopic: of.Headers[topics.HeaderTargetTopic]}}
}

// cancels writes a cancel of what was asked for.
func cancels(name func(request) string, keyed bool) func(request, int64) *message {
	return func(of request, _ int64) *message {
		m := &message{Topic: of.Topic, Headers: map[string]string{topics.HeaderCancel: name(of)}}
		if keyed {
			m.Key = of.Key
		}
		return m
	}
}

// replaces writes a replacement, to the partition of the first request or to that which the client chooses.
func replaces(name func(request) string, there bool) func(request, int64) *message {
	return func(of request, due int64) *message {
		m := again(of, due)
		m.Headers[topics.HeaderReplace] = name(of)
		if there {
			m.Partition = &of.at.Partition
		}
		return m
	}
}

func byID(of request) string { return of.Headers[topics.HeaderID] }

func ofNothing(of request) string {
	return topics.Handle{Partition: of.at.Partition, Offset: of.at.Offset, Due: of.due + time.Hour.Milliseconds()}.String()
}

var changes = []change{
	{name: "nothing", write: func(request, int64) *message { return nil }, want: always(delivered, gone)},
	{name: "cancelled by handle", write: cancels(request.handle, false), want: always(gone, gone)},
	{name: "cancelled in vain", write: cancels(ofNothing, false), want: always(delivered, outcome(topics.CodeUnknownHandle))},
	{name: "cancelled by id with its key", id: true, write: cancels(byID, true), want: always(gone, gone)},
	{name: "cancelled by id from anywhere", id: true, write: cancels(byID, false), want: always(gone, gone)},
	{name: "cancelled by a null value", keyed: true, want: always(gone, gone), write: func(of request, _ int64) *message {
		return &message{Topic: of.Topic, Key: of.Key, Null: true}
	}},
	{name: "replaced by handle in its partition", write: replaces(request.handle, true), want: inItsPartition("")},
	{name: "replaced by handle where its key goes", write: replaces(request.handle, false), want: inItsPartition(outcome(topics.CodeWrongPartition))},
	{name: "replaced by id in its partition", id: true, write: replaces(byID, true), want: inItsPartition("")},
	{name: "replaced by id where its key goes", id: true, write: replaces(byID, false), want: inItsPartition(outcome(topics.CodeTooLate))},
	{name: "replaced by its key", keyed: true, write: again, want: inItsPartition(delivered)},
	{name: "asked again with its id", id: true, want: func(first, second int32) (outcome, outcome) {
		if first == second {
			return delivered, outcome(topics.CodeDuplicateID)
		}
		return delivered, delivered
	}, write: func(of request, due int64) *message {
		m := again(of, due)
		m.Headers[topics.HeaderID] = byID(of)
		return m
	}},
}

// late are changes of what has been delivered. Of the first request no more is told.
var late = []change{
	{name: "late, cancelled by handle", write: cancels(request.handle, false), want: always(delivered, outcome(topics.CodeTooLate))},
	{name: "late, replaced by handle", write: replaces(request.handle, true), want: always(delivered, outcome(topics.CodeTooLate))},
	{name: "late, replaced by handle where its key goes", write: replaces(request.handle, false), want: func(first, second int32) (outcome, outcome) {
		_, ofSecond := inItsPartition(outcome(topics.CodeWrongPartition))(first, second)
		if first == second {
			ofSecond = outcome(topics.CodeTooLate)
		}
		return delivered, ofSecond
	}},
}

// asked is a request and how it is changed.
type asked struct {
	change
	from, by int  // clients: which has asked, and which changes that
	added    bool // after partitions were added
	late     bool // after it was delivered
	first    request
	want     map[string]outcome // by value
}

// Real clients, each with the partitioner that it has by default, change their minds about each other's requests, also after partitions were
// added: what is cancelled does not come, what is replaced comes once and with the new value, and what was too late or went to the wrong
// partition is dead-lettered.
func TestClientsChangeTheirMinds(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka, and fetches clients of other languages")
	}
	cluster := brokers.Start(t, brokers.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), ready)
	defer cancel()
	clients := startClients(ctx, t, cluster.Addrs()[0])
	for wait := 10 * time.Second; ; wait *= 2 {
		err := play(ctx, t, cluster, clients, wait)
		if err == nil {
			return
		}
		if !errors.Is(err, errSlow) || wait > time.Minute {
			t.Fatal(err)
		}
		t.Logf("%v; once more with more time", err)
	}
}

// errSlow says that a round proves nothing, since clients had not written everything when its records became due.
var errSlow = errors.New("the machine was too slow")

// margin is how long before their records become due changes must have been acknowledged, so that they are read in time.
const margin = 3 * time.Second

func play(ctx context.Context, t *testing.T, cluster *brokers.Cluster, clients []client, wait time.Duration) error {
	g := newGround(ctx, t, cluster)
	stop := g.deliver(ctx, t)
	defer func() { stop() }()
	due := time.Now().Add(wait)
	all := g.drawn(len(clients), due)

	if err := g.ask(ctx, clients, all); err != nil {
		return err
	}
	if err := g.change(ctx, clients, all, func(a *asked) bool { return !a.added }, due); err != nil {
		return err
	}
	stop()
	if err := g.addPartitions(ctx); err != nil {
		return err
	}
	stop = g.deliver(ctx, t)
	for _, c := range clients {
		if err := c.reconnect(ctx); err != nil {
			return err
		}
	}
	if err := g.change(ctx, clients, all, func(a *asked) bool { return a.added }, due); err != nil {
		return err
	}
	if left := time.Until(due); left < margin {
		return fmt.Errorf("%w: all was written %v before it was due", errSlow, left)
	}
	if err := g.settle(ctx, due.Add(time.Millisecond)); err != nil {
		return err
	}
	if early := time.Until(due); early > 0 {
		t.Errorf("what is due last came %v early", early)
	}

	tooLate := drawnLate(all, len(clients))
	if err := g.change(ctx, clients, tooLate, func(*asked) bool { return true }, time.Now()); err != nil {
		return err
	}
	for range 2 { // what is passed on to another partition lies behind the first
		if err := g.settle(ctx, time.Now()); err != nil {
			return err
		}
	}
	g.judge(t, append(all, tooLate...))
	return nil
}

// drawn are requests for every change: of each client by the one before it, and, after partitions were added, by itself.
func (g *ground) drawn(clients int, due time.Time) (all []*asked) {
	for _, added := range []bool{false, true} {
		for by := range clients {
			for _, c := range changes {
				first := request{due: due.UnixMilli()}
				n := len(all)
				first.message = message{Topic: g.plain, Key: fmt.Sprintf("key-%d", n), Value: fmt.Sprintf("request %d", n), Headers: map[string]string{
					topics.HeaderUntil: strconv.FormatInt(first.due, 10), topics.HeaderTargetTopic: g.target,
				}}
				if c.keyed {
					first.Topic = g.keyed
				}
				if c.id {
					first.Headers[topics.HeaderID] = fmt.Sprintf("id-%d", n)
				}
				from := by
				if !added {
					from = (by + 1) % clients
				}
				all = append(all, &asked{change: c, from: from, by: by, added: added, first: first})
			}
		}
	}
	return all
}

// drawnLate are changes of what has been delivered and nothing else was done to, each by the client that is next but one.
func drawnLate(all []*asked, clients int) (out []*asked) {
	for _, a := range all {
		if a.name != "nothing" {
			continue
		}
		for _, c := range late {
			out = append(out, &asked{change: c, from: a.from, by: (a.by + 2) % clients, late: true, first: a.first})
		}
	}
	return out
}

// ask has each client write its requests, all at the same time.
func (g *ground) ask(ctx context.Context, clients []client, all []*asked) error {
	return eachClient(ctx, clients, func(ctx context.Context, i int, c client) error {
		var of []*asked
		var ms []message
		for _, a := range all {
			if a.from == i {
				of, ms = append(of, a), append(ms, a.first.message)
			}
		}
		places, err := c.write(ctx, g.watch, ms)
		if err != nil {
			return err
		}
		for j, a := range of {
			a.first.at = places[j]
		}
		return nil
	})
}

// change has each client write its changes, all at the same time.
func (g *ground) change(ctx context.Context, clients []client, all []*asked, which func(*asked) bool, due time.Time) error {
	return eachClient(ctx, clients, func(ctx context.Context, i int, c client) error {
		var of []*asked
		var ms []message
		for _, a := range all {
			if a.by != i || !which(a) {
				continue
			}
			m := a.write(a.first, due.UnixMilli())
			if m == nil {
				a.expect(nil, 0)
				continue
			}
			if !m.Null {
				m.Value = a.first.Value + ", " + a.name
			}
			of, ms = append(of, a), append(ms, *m)
		}
		places, err := c.write(ctx, g.watch, ms)
		if err != nil {
			return err
		}
		for j, a := range of {
			a.expect(&ms[j], places[j].Partition)
		}
		return nil
	})
}

// expect notes what must become of a request, and of what has changed it.
func (a *asked) expect(second *message, partition int32) {
	ofFirst, ofSecond := a.change.want(a.first.at.Partition, partition)
	a.want = make(map[string]outcome)
	if !a.late {
		a.want[a.first.Value] = ofFirst
	}
	if second != nil && !second.Null {
		a.want[second.Value] = ofSecond
	}
}

func eachClient(ctx context.Context, clients []client, f func(ctx context.Context, i int, c client) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, c := range clients {
		group.Go(func() error {
			if err := f(ctx, i, c); err != nil {
				return fmt.Errorf("%s: %w", c.name(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (g *ground) judge(t *testing.T, all []*asked) {
	t.Helper()
	got := g.outcomes()
	told := make(map[string]int) // by change and outcome
	for _, a := range all {
		for value, want := range a.want {
			was := got[value]
			delete(got, value)
			switch {
			case want == gone && len(was) > 0, want != gone && !slices.Equal(was, []outcome{want}):
				t.Errorf("%q (%s of client %d, %s by %d, after partitions were added: %v): %q, want %q", value, a.first.handle(), a.from, a.name, a.by, a.added, was, want)
			default:
				told[a.name+": "+string(want)]++
			}
		}
	}
	for value, was := range got {
		t.Errorf("%q came, as %q, which was not written", value, was)
	}
	// Each story is told, or the test is about nothing.
	for _, story := range []string{
		"replaced by handle where its key goes: delivered", "replaced by handle where its key goes: " + string(topics.CodeWrongPartition),
		"replaced by id where its key goes: " + string(topics.CodeTooLate), "asked again with its id: " + string(topics.CodeDuplicateID),
		"replaced by its key: delivered", "late, cancelled by handle: " + string(topics.CodeTooLate),
	} {
		if told[story] == 0 {
			t.Errorf("it did not happen: %s", story)
		}
	}
	t.Logf("%v", told)
}
