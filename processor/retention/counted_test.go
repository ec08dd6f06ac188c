package retention

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/topics"
)

// What was trimmed is counted once, although it is not known yet where the log begins when it is cut again; and not what was gone before.
func TestTrimmedIsCountedOnce(t *testing.T) {
	yes := true
	x := newTrimmer(t, &yes, describe(kmsg.ACLResourceTypeGroup, "*"), describe(kmsg.ACLResourceTypeCluster, "kafka-cluster"))
	id := x.topicID()
	for _, c := range []struct{ from, to, all int64 }{{1, 3, 2}, {1, 3, 2}, {1, 5, 4}, {5, 5, 4}, {5, 9, 8}} {
		x.cut(t.Context(), x.cl, cuts{testTopic: {0: {id, c.from, c.to}}})
		equal(t, "offsets that were deleted", x.Topics[testTopic].Trimmed.Load(), c.all)
	}
}

// Brokers that answer again are given no more time than others.
func TestPatienceWithSettingsEnds(t *testing.T) {
	x := newTrimmer(t, nil)
	env := testEnv(map[string]*topics.Route{testTopic: {Topic: testTopic}})
	env.Pictures = func() []picture.Partition { return []picture.Partition{{Topic: testTopic, Needs: time.Hour}} }
	k := NewKeeping(env)
	k.inVain = 2
	k.look(t.Context(), x.root)
	equal(t, "looks in vain", k.inVain, 0)
}
