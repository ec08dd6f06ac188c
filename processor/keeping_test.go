package processor

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// A topic that loses records is named for as long as partitions of it are here: a replica that has given
// them up does not look at it any more, so it cannot say that it is well again.
func TestTopicElsewhereIsNotNamed(t *testing.T) {
	p := testProcessor(t)
	k := newKeeping(&p.shared)
	k.note(testTopic, &topics.Problem{What: "cleanup.policy is compact"})
	named := func() string { return p.Stats().Topics[0].Trouble }
	if named() == "" {
		t.Fatal("a topic that loses records is not named")
	}
	k.look(t.Context(), nil)
	equal(t, "trouble of a topic without partitions here", named(), "")
}

// That settings cannot be looked at is said when it lasts, and at once where a right is missing. What was seen last counts meanwhile, and it is said no more
// when they can, or when nothing of the topic is here.
func TestSettingsUnseen(t *testing.T) {
	p := testProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		k := newKeeping(&p.shared)
		said := func() string { return p.Stats().Topics[0].Unseen }
		k.failed(testTopic, kerr.RequestTimedOut)
		time.Sleep(vainUnsaid - time.Millisecond)
		k.failed(testTopic, kerr.RequestTimedOut)
		equal(t, "at first", said(), "")
		time.Sleep(time.Millisecond)
		k.failed(testTopic, kerr.RequestTimedOut)
		if !strings.Contains(said(), "REQUEST_TIMED_OUT") {
			t.Errorf("it lasts, and says %q", said())
		}
		k.forget(nil)
		equal(t, "elsewhere", said(), "")
		k.failed(testTopic, kerr.RequestTimedOut)
		equal(t, "when it has begun anew", said(), "")
		k.failed(testTopic, fmt.Errorf("read configurations: %w", kerr.TopicAuthorizationFailed))
		if !strings.Contains(said(), "DescribeConfigs") {
			t.Errorf("a right is missing, and it says %q", said())
		}
	})
}

// What is carried on, or held up, for a target that brokers have not told of yet is told so.
func TestTroubleOfATargetNotLookedUp(t *testing.T) {
	p := testProcessor(t)
	p.targets.Of([]byte("orders"))
	equal(t, "trouble", p.Stats().Targets[0].Trouble, "unknown: not looked up yet")
}

// The same in what a fixed-delay route waits for.
func TestQueueHeldByATargetNotLookedUp(t *testing.T) {
	l := testLane(t, func(c *Config) { c.Routes[0].Delay, c.Routes[0].Target = time.Millisecond, "orders" })
	p := livePartition(t, l)
	l.read(t, p, testNow, &kgo.Record{Offset: 0, Timestamp: time.UnixMilli(testNow)})
	pt := p.take(testNow+1, nil, 1, anyBytes)
	_, err := (&renderer{kit: &l.kit}).part(t.Context(), pt, testNow+1)
	if err == nil {
		t.Fatal("a record was rendered for a target that is not known")
	}
	equal(t, "why", err.Error(), "target orders: not looked up yet")
}
