package targets

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// Where brokers do not say what a topic takes, that is what they said last: records that are larger would be refused, and the target be blamed for them.
func TestWhatATopicTakesIsRemembered(t *testing.T) {
	c, cl := testCluster(t)
	small := kmsg.StringPtr("5000")
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, map[string]*string{"max.message.bytes": small}, "small"); err != nil {
		t.Fatal(err)
	}
	ts := testTable(time.Second)
	o := ts.Of([]byte("small"))
	ts.refresh(t.Context(), cl, []*Target{o})
	equal(t, "it takes", o.State.Load().Takes.MaxBytes, 5000)
	c.ControlKey(int16(kmsg.DescribeConfigs), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return kreq.ResponseKind(), nil, true
	})
	asked := o.State.Load().Asked
	ts.refresh(t.Context(), cl, []*Target{o})
	equal(t, "it was looked at again", o.State.Load().Asked.After(asked), true)
	equal(t, "it takes, when brokers do not say", o.State.Load().Takes.MaxBytes, 5000)
}

// What leaders answer counts for a target that is to be tried, and for no other: a turn may have tried it meanwhile, or metadata say what is wrong.
func TestLeadersAreAskedOfWhatIsToBeTried(t *testing.T) {
	_, cl := testCluster(t)
	ts := testTable(5 * time.Second)
	o := ts.Of([]byte("orders"))
	for name, c := range map[string]struct {
		is   State
		want Status
	}{
		"to be tried":            {State{Status: Troubled, Failures: 1, well: true, Partitions: 3}, OnTrial},
		"a leader is silent":     {State{Status: Troubled, Failures: 1, well: true, Partitions: 4}, Troubled},
		"it takes records":       {State{Status: Ready, Failures: 1, well: true, Partitions: 3}, Ready},
		"metadata are against":   {State{Status: Troubled, Failures: 1, Partitions: 3}, Troubled},
		"it has made none fail":  {State{Status: Troubled, well: true, Partitions: 3}, Troubled},
		"it has the end it kept": {State{Status: Troubled, Failures: 1, well: true, Partitions: 3, keeps: kept(false)}, OnTrial},
	} {
		o.State.Store(&c.is)
		ts.askLeaders(t.Context(), cl, []*Target{o})
		equal(t, name, o.State.Load().Status, c.want)
		equal(t, name+": it keeps an id", o.State.Load().keeps != nil, false)
	}
	if err := offsetsError(map[int32]kadm.ListedOffset{0: {}, 1: {}}, 3); !errors.Is(err, kafka.ErrUnanswered) {
		t.Errorf("two of three answers: %v", err)
	}
}

// A target that rests for what one record is has not failed once more, so it is tried when its pause is over and not later; and what it has taken acquits it of
// what it refused.
func TestRestIsNoFailure(t *testing.T) {
	ts := testTable(time.Second)
	o := ts.Of([]byte("orders"))
	for name, c := range map[string]struct{ failures, want int }{"a first time": {0, 1}, "of one that has failed": {3, 3}} {
		o.State.Store(&State{Status: OnTrial, Failures: c.failures})
		ts.Rest("orders", kerr.InvalidRecord, nil, time.Hour)
		st := o.State.Load()
		equal(t, name+": failures", st.Failures, c.want)
		equal(t, name+": it is not tried for long", time.Until(st.tryAt) > 59*time.Minute, true)
	}
	o.Blamed.Store(3)
	o.Succeeded()
	equal(t, "blamed when it has taken some", o.Blamed.Load(), 0)
}

// Failures count until a target has been well for as long as its pause was: from when it has passed its trial on, however long that took.
func TestFailuresCountFromTheTrialOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := testTable(time.Second)
		o := ts.Of([]byte("orders"))
		o.State.Store(&State{Status: OnTrial, Failures: 2, since: time.Now()})
		time.Sleep(time.Hour)
		o.Passed()
		o.Succeeded()
		equal(t, "failures at once", o.State.Load().Failures, 2)
		time.Sleep(pauseAfter(2) + time.Millisecond)
		o.Succeeded()
		equal(t, "failures at last", o.State.Load().Failures, 0)
	})
}

// How far brokers are away is learned from those that answer: one that lets a look run into its time is not far away, but silent.
func TestTripsOfAnswers(t *testing.T) {
	ts := testTable(time.Second)
	for _, c := range []struct{ took, trip, way time.Duration }{
		{kafka.BrokerPatience, 0, 0},
		{100 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond},
		{kafka.BrokerPatience, 100 * time.Millisecond, 100 * time.Millisecond},
		{260 * time.Millisecond, 140 * time.Millisecond, 105 * time.Millisecond},
		{60 * time.Millisecond, 120 * time.Millisecond, 60 * time.Millisecond},
	} {
		ts.noteTrip(c.took)
		equal(t, "the trip", ts.Trip(), c.trip)
		equal(t, "the way", ts.Way(), c.way)
	}
}
