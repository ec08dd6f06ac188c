package retention

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/topics"
)

// A topic that loses records is named for as long as partitions of it are here: a replica that has given
// them up does not look at it any more, so it cannot say that it is well again.
func TestTopicElsewhereIsNotNamed(t *testing.T) {
	k := NewKeeping(testEnv(map[string]*topics.Route{testTopic: {}}))
	k.note(testTopic, &topics.Problem{What: "cleanup.policy is compact"})
	named := k.Topics[testTopic].Trouble.Get
	if named() == "" {
		t.Fatal("a topic that loses records is not named")
	}
	k.look(t.Context(), nil)
	equal(t, "trouble of a topic without partitions here", named(), "")
}

// That settings cannot be looked at is said when it lasts, and at once where a right is missing. What was seen last counts meanwhile, and it is said no more
// when they can, or when nothing of the topic is here.
func TestSettingsUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := NewKeeping(testEnv(map[string]*topics.Route{testTopic: {}}))
		said := k.Topics[testTopic].Unseen.Get
		k.failed(testTopic, kerr.RequestTimedOut)
		time.Sleep(Unsaid - time.Millisecond)
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
