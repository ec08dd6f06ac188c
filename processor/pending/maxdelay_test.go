package pending

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// A record of a route that delays it by itself asks for nothing, so max_delay refuses none: not where its producer's clock is some ms ahead, and not what
// waits for a delay that was longer once.
func TestWhatARouteDelaysIsNotTooFarAhead(t *testing.T) {
	for _, c := range []struct {
		what    string
		retry   *topics.Retrying
		max     time.Duration
		spec    string
		written int64
	}{
		{"a fixed delay", nil, time.Hour, "", testNow + 5},
		{"a fixed delay that was longer", nil, time.Hour, topics.Spec(24 * time.Hour), testNow - 1},
		{"a retry route", &topics.Retrying{Backoff: topics.Backoff{Initial: time.Hour, Factor: 1, Max: time.Hour}, MaxAttempts: 1}, time.Hour, "", testNow + 5},
	} {
		l := testOwner(t)
		route := testRoute(false)
		route.Target, route.MaxDelay, route.Retry = "orders", c.max, c.retry
		if c.retry == nil {
			route.Delay = time.Hour
		}
		l.route = mustRoute(route)
		at := checkpointAt(0, 0, state.Key{})
		if c.spec != "" {
			at.Parsers = []state.ParserEpoch{{Spec: c.spec}}
		}
		p, err := l.assign(at, 0, 1, 1)
		must(t, err)
		must(t, p.goLive(l.room))
		l.read(t, p, testNow, &kgo.Record{Timestamp: time.UnixMilli(c.written), Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1})})
		if pt := p.Take(testNow, nil, 10, anyBytes); pt != nil {
			t.Errorf("%s: %v", c.what, pt.Items[0].Refusal)
		}
	}
}

// How far ahead a record asks to be due counts from when it was written, by a clock that may be ahead by as much as clocks differ: delay-for of as much as
// max_delay is not refused by chance.
func TestTooFarAheadOfWhenItWasWritten(t *testing.T) {
	for _, c := range []struct {
		ahead   int64 // ms, the producer's clock
		refused bool
	}{{-5, false}, {0, false}, {5, false}, {1000, false}, {1001, true}} {
		l := testOwner(t)
		route := testRoute(false)
		route.Target, route.MaxDelay = "orders", time.Hour
		l.route = mustRoute(route)
		p, err := l.assign(checkpointAt(0, 0, state.Key{}), 0, 1, 1)
		must(t, err)
		must(t, p.goLive(l.room))
		l.read(t, p, testNow, &kgo.Record{Timestamp: time.UnixMilli(testNow + c.ahead), Headers: []kgo.RecordHeader{{Key: topics.HeaderFor, Value: []byte("1h")}}})
		pt := p.Take(testNow, nil, 10, anyBytes)
		if refused := pt != nil && pt.Items[0].Refusal != nil && pt.Items[0].Refusal.Code == topics.CodeTooFarAhead; refused != c.refused {
			t.Errorf("written %d ms ahead: refused is %v, want %v", c.ahead, refused, c.refused)
		}
	}
}

// A record that is due later than a time.Duration can say needs the log for as long as that can say, whether it was read, is only in the store, or leaves a stub.
func TestNeedsOfCenturies(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	for _, years := range []int64{140, 290, 300, 1000, 3000} {
		for _, remember := range []time.Duration{0, 24 * time.Hour, century} {
			l := remembering(t, remember)
			staying(l)
			p := l.live(t)
			l.read(t, p, testNow, withID(req(0, testNow+years*365*24*3600_000, "orders"), "a"))
			what := fmt.Sprintf("due after %d years, remembered for %v: ", years, remember)
			if needs := p.Figures(testNow).Needs; needs < century {
				t.Errorf("%sneeds %v", what, needs)
			}
			p.longest = longestWait{} // as where it was inherited
			if needs := p.Figures(testNow).Needs; needs < century {
				t.Errorf("%sneeds %v by the ledger", what, needs)
			}
		}
	}
	var wait longestWait
	if wait.see(1e14, 0); wait.wait < century {
		t.Errorf("what waits until the year 5138 waits for %v", wait.wait)
	}
}
