package processor

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// A log that is cut has lost nothing that is pending where all was delivered: what is gone is the memory of ids.
func TestLogCutBelowWhatIsRemembered(t *testing.T) {
	route := testRoute(true)
	route.Remember = time.Hour
	l := testLane(t, func(c *Config) { c.Routes = []topics.Route{route} })
	p := livePartition(t, l)
	r := req(0, testNow, "orders")
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderID, Value: []byte("a")})
	l.read(t, p, testNow, r)
	l.happened(p.take(testNow, nil, 10, anyBytes))
	equal(t, "pending", p.Pending(), 0)
	p.logStart = 1
	if p.checkLog(); p.loss != nil {
		t.Errorf("nothing is pending, and got %v", p.loss)
	}
}
