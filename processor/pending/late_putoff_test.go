package pending

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// What came to a retry route at a time that is not known is not delivered, but written again to be due later. So what is due now overtakes a long list of that,
// also where it goes to the same target.
func TestDueRetryBesideWhatIsPutOff(t *testing.T) {
	l := testOwner(t)
	route := testRoute(false)
	route.Target = "orders"
	route.Retry = &topics.Retrying{Backoff: topics.Backoff{Initial: time.Second, Factor: 1, Max: time.Second}, MaxAttempts: 3}
	l.route = mustRoute(route)
	p, err := l.assign(checkpointAt(1, 1, state.Key{Due: testNow - 1, Seq: 0}), 0, 1, 1)
	must(t, err)
	must(t, p.goLive(l.room))
	hs, _ := topics.AppendRetry(nil, nil, testMark, topics.Retry{Due: testNow, Origin: topics.Origin{Offset: 0, Timestamp: testNow - 1000, Due: testNow}}, nil)
	l.read(t, p, testNow, &kgo.Record{Offset: 1, Timestamp: time.UnixMilli(testNow - 1000), Headers: hs})
	for offset := int64(2); offset < 102; offset++ {
		l.read(t, p, testNow, &kgo.Record{Offset: offset, Timestamp: time.UnixMilli(testNow)})
	}
	for part := 1; ; part++ {
		pt := p.Take(testNow, nil, 8, anyBytes)
		if pt == nil {
			t.Fatal("it is not taken")
		}
		for i := range pt.Items {
			if pt.Items[i].Offset == 1 {
				equal(t, "it is taken in part", part, 1)
				return
			}
		}
		l.happened(pt)
	}
}
