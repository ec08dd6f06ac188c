package check

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// naming is a request that others name, and what has become of all of them.
type naming struct {
	*outcome
	first, second  *kgo.Record // cancels
	instead        *kgo.Record // a replacement
	foreign, again *kgo.Record // a cancel in another partition, and what was written for it
}

func newNaming() *naming {
	w := newWorld()
	w.config.Routes[0].CancelsAnswered = true
	n := &naming{outcome: &outcome{w: w}}
	n.good = w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders")
	name := fmt.Sprintf("1-%d-%s", n.good.Offset, millis(due))
	n.first = w.request("k", "", "delay-cancel="+name)
	n.second = w.request("k", "", "delay-cancel="+name)
	n.instead = w.request("k", "v2", "delay-until="+millis(due), "delay-target-topic=orders", "delay-replace="+name)
	n.foreign = w.append(&kgo.Record{Topic: "requests", Partition: 2, Timestamp: now, Headers: parse([]string{"delay-cancel=" + name})})
	n.again = w.request("", "", "delay-cancel="+name, fmt.Sprintf("delay-forwarded=abcdef01:g:1:2:%d:%d", n.foreign.Offset, now.UnixMilli()))
	n.again.Key, n.again.Value = nil, nil
	n.more = []*kgo.Record{n.good, n.first, n.second, n.instead, n.foreign, n.again}
	return n
}

// vain answers a record that has come in vain.
func (n *naming) vain(rs ...*kgo.Record) {
	for _, r := range rs {
		as := *r
		if r == n.again {
			as.Headers = r.Headers[:1]
		}
		code := "too_late"
		n.arrivals = append(n.arrivals, n.w.condemn(&as, code))
	}
}

func (n *naming) delivered(rs ...*kgo.Record) {
	for _, r := range rs {
		n.arrivals = append(n.arrivals, n.w.deliver(r, due))
	}
}

// shuffled is all of an outcome in a random order.
func (o *outcome) shuffled(seed uint64) []*kgo.Record {
	all := append(o.more[:len(o.more):len(o.more)], o.arrivals...)
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// Of what is named exactly one thing becomes, in whatever order all of it is seen.
func TestNaming(t *testing.T) {
	for _, tt := range []struct {
		name   string
		spoil  func(n *naming)
		want   map[Kind]int64
		detail string
	}{
		{"it is delivered", func(n *naming) { n.delivered(n.good); n.vain(n.first, n.second, n.instead, n.again) }, nil, ""},
		{"it is cancelled", func(n *naming) { n.vain(n.second, n.instead, n.again) }, nil, ""},
		{"it is cancelled by what was forwarded", func(n *naming) { n.vain(n.first, n.second, n.instead) }, nil, ""},
		{"it is replaced", func(n *naming) { n.delivered(n.instead); n.vain(n.first, n.second, n.again) }, nil, ""},
		{"it is delivered and cancelled", func(n *naming) { n.delivered(n.good); n.vain(n.second, n.instead, n.again) }, map[Kind]int64{Doubled: 1}, "1 cancels of it were not answered"},
		{"it is cancelled twice", func(n *naming) { n.vain(n.instead, n.again) }, map[Kind]int64{Doubled: 1}, "2 cancels of it were not answered"},
		{"it is replaced and delivered", func(n *naming) { n.delivered(n.good, n.instead); n.vain(n.first, n.second, n.again) }, map[Kind]int64{Doubled: 1}, "1 replacements"},
		{"nothing becomes of it", func(n *naming) { n.vain(n.first, n.second, n.instead, n.again) }, map[Kind]int64{Missing: 1}, "neither delivered nor taken away"},
		{"it was never requested", func(n *naming) { n.more = n.more[1:]; n.vain(n.first, n.second, n.instead, n.again) }, nil, ""},
		{"it was never requested, and a cancel is not answered", func(n *naming) { n.more = n.more[1:]; n.vain(n.second, n.instead, n.again) }, map[Kind]int64{Missing: 1}, "was never requested"},
		{"it was never requested, and is replaced", func(n *naming) { n.more = n.more[1:]; n.vain(n.first, n.second, n.again); n.delivered(n.instead) }, map[Kind]int64{BadDelivered: 1}, "in its place"},
		{"it is not forwarded", func(n *naming) { n.more = n.more[:5]; n.vain(n.second, n.instead) }, map[Kind]int64{Missing: 1}, "was not forwarded"},
		{"it is forwarded twice", func(n *naming) {
			twice := *n.again
			n.w.append(&twice)
			n.more = append(n.more, &twice)
			n.vain(n.second, n.instead, n.again)
			as := twice
			as.Headers = as.Headers[:1]
			n.arrivals = append(n.arrivals, n.w.condemn(&as, "too_late"))
		}, map[Kind]int64{Doubled: 1}, "was forwarded 2 times"},
		{"a cancel is delivered", func(n *naming) { n.vain(n.second, n.instead, n.again); n.delivered(n.first) }, map[Kind]int64{BadDelivered: 1, Missing: 1}, "should be dead-lettered"},
		{"a replacement is lost", func(n *naming) { n.delivered(n.good); n.vain(n.first, n.second, n.again) }, map[Kind]int64{Missing: 1}, "delivered to orders"},
	} {
		for seed := range uint64(12) {
			t.Run(fmt.Sprintf("%s/%d", tt.name, seed), func(t *testing.T) {
				n := newNaming()
				tt.spoil(n)
				c := newChecker(t, n.w.config)
				feed(c, n.shuffled(seed)...)
				expectFaults(t, c, tt.want, tt.detail)
				if left := c.Counts().Outstanding; left != 0 != (tt.want[Missing] > 0) && tt.want[Doubled] == 0 {
					t.Errorf("%d are still waited for", left)
				}
			})
		}
	}
}

// What a processor writes of a record whose timestamp is missing has -1 for that, and is known all the same.
func TestWithoutATimestamp(t *testing.T) {
	s := &source{topic: "delays", partition: 3, route: &route{}}
	header := func(name, numbers string) kgo.RecordHeader {
		return kgo.RecordHeader{Key: name, Value: []byte("a8098c1a:billing:3:" + numbers)}
	}
	r := &kgo.Record{Offset: 9, Headers: []kgo.RecordHeader{header("delay-retry", "2:-1:1767225605123:1:1767225606123")}}
	if origin, again, ok := s.retryOf(r); !ok || origin.Offset != 2 || again.due != 1767225606123 {
		t.Errorf("a retry: of %+v, %+v, %v", origin, again, ok)
	}
	r.Headers = []kgo.RecordHeader{{Key: "delay-cancel", Value: []byte("3-2-1767225605123")}, header("delay-forwarded", "1:7:-1")}
	if from, _, ok := s.forwarded(r); !ok || from != (Source{"delays", 1, 7}) {
		t.Errorf("a cancel that was passed on: %v, %v", from, ok)
	}
	text := func(name, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: name, Value: []byte(value)} }
	letter := []kgo.RecordHeader{text("__delay.errors.timestamp", "-1"), text("__delay.errors.stage", "PARSE"), text("__delay.errors.code", "due_out_of_range"), text("__delay.errors.message", "it has none")}
	if p := fromDeadLetter(letter); p.problem != "" {
		t.Errorf("a dead letter: %s", p.problem)
	}
	all := &route{Route: Route{Emit: emitAll}}
	emitted := []kgo.RecordHeader{text("delay-due", "5"), text("delay-source", "delays/0/1"), text("delay-fired", "6"), text("delay-source-timestamp", "-1")}
	if p := fromDelivered(emitted); p.problem != "" || (delivery{route: all, p: p}).misEmitted() != "" {
		t.Errorf("delivered: %q, %q", p.problem, (delivery{route: all, p: p}).misEmitted())
	}
	if p := fromDelivered(append(emitted, emitted[3])); p.problem == "" {
		t.Error("two timestamps, and nothing is said")
	}
	if p := fromDelivered(emitted[:3]); (delivery{route: all, p: p}).misEmitted() == "" {
		t.Error("no timestamp, and nothing is said")
	}
	for _, numbers := range []string{"-1:5:1767225605123:1:1767225606123", "2:5:-1:1:1767225606123", "2:5:1767225605123:-1:1767225606123", "2:5:1767225605123:1:-1", "2:-2:1767225605123:1:1767225606123"} {
		r.Headers = []kgo.RecordHeader{header("delay-retry", numbers)}
		if _, _, ok := s.retryOf(r); ok {
			t.Errorf("made up, and believed: %s", numbers)
		}
	}
}

// What has an id, and was cancelled by its handle, is not waited for, in whichever order the two are read.
func TestIDsThatAreNamed(t *testing.T) {
	for seed := range uint64(12) {
		w := newWorld()
		q := w.request("k", "v", "delay-until="+millis(due), "delay-target-topic=orders", "delay-id=a")
		by := w.request("", "", fmt.Sprintf("delay-cancel=1-%d-%s", q.Offset, millis(due)))
		checker := newChecker(t, w.config)
		feed(checker, (&outcome{w: w, more: []*kgo.Record{q, by}}).shuffled(seed)...)
		if left := checker.Counts().Outstanding; left != 0 {
			t.Errorf("%d are still waited for, in order %d", left, seed)
		}
		expectFaults(t, checker, nil, "")
	}
}

// A retry record may say by which names of headers its request asks.
func TestRetryWithNames(t *testing.T) {
	s := &source{topic: "delays", partition: 3, route: &route{}}
	for value, want := range map[string]bool{
		"2:5:1767225605123:1:1767225606123": true, "2:5:1767225605123:1:1767225606123:^x-wheel-": true, "2:5:1767225605123:1:1767225606123:!pe^x.": true,
		"2:5:1767225605123:1:1767225606123:!": true, "2:5:1767225605123:1:1767225606123:+!^x.": true, "2:5:1767225605123:1:1767225606123:": false, "2:5:1767225605123:1:1767225606123:x": false, "2:5:1767225605123:1:^x-": false,
	} {
		r := &kgo.Record{Offset: 9, Headers: []kgo.RecordHeader{{Key: "delay-retry", Value: []byte("a8098c1a:billing:3:" + value)}}}
		if origin, again, is := s.retryOf(r); is != want || is && (origin.Offset != 2 || again.due != 1767225606123) {
			t.Errorf("%s: %v, %+v", value, is, again)
		}
	}
}
