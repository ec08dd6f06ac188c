package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/processor"
)

// demoDue is when what a test requests is due.
const demoDue = 1_800_000_000_000

// demoRequest is a request at an offset of partition 0 of the delay topic.
func demoRequest(offset int64, target string, due int64, headers ...string) *kgo.Record {
	r := &kgo.Record{Topic: demoRequests, Offset: offset, Timestamp: time.UnixMilli(demoDue - 5000), Value: []byte("v"), Headers: []kgo.RecordHeader{
		{Key: "delay-until", Value: strconv.AppendInt(nil, due, 10)}, {Key: "delay-target-topic", Value: []byte(target)}, {Key: demoMark},
	}}
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}

// demoArrival is what a consumer sees of it.
func demoArrival(offset int64, topic string, at, due, fired int64) *kgo.Record {
	return &kgo.Record{Topic: topic, Offset: at, Timestamp: time.UnixMilli(fired), Value: []byte("v"), Headers: []kgo.RecordHeader{
		{Key: demoMark}, {Key: "delay-due", Value: strconv.AppendInt(nil, due, 10)}, {Key: "delay-source", Value: []byte(demoRequests + "/0/" + strconv.FormatInt(offset, 10))},
	}}
}

// demoLetter is a request as it is dead-lettered.
func demoLetter(of *kgo.Record, code, message string) *kgo.Record {
	r := &kgo.Record{Topic: demoRequests + ".dead", Offset: of.Offset, Timestamp: of.Timestamp, Key: of.Key, Value: of.Value, Headers: of.Headers}
	for _, h := range [][2]string{
		{"topic", demoRequests}, {"partition", "0"}, {"offset", strconv.FormatInt(of.Offset, 10)}, {"timestamp", strconv.FormatInt(of.Timestamp.UnixMilli(), 10)},
		{"stage", "AUTHORIZE"}, {"code", code}, {"message", message}, {"instance", "a"}, {"attempts", "0"},
	} {
		r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], kgo.RecordHeader{Key: "__delay.errors." + h[0], Value: []byte(h[1])})
	}
	return r
}

func newTestWatch(t *testing.T) *watch {
	t.Helper()
	w, err := newWatch(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// What is wrong with any record fails the demo, and is named.
func TestDemoNoticesEveryFault(t *testing.T) {
	onTime := time.UnixMilli(demoDue).Add(2 * time.Millisecond)
	good, bad, later := demoRequest(0, "orders", demoDue), demoRequest(1, "payroll", demoDue), demoRequest(2, "orders", demoDue+1000)
	came, letter := demoArrival(0, "orders", 0, demoDue, demoDue), demoLetter(bad, "target_not_allowed", "no")
	altered := demoArrival(0, "orders", 0, demoDue, demoDue)
	altered.Value = []byte("other")
	for _, test := range []struct {
		name string
		see  func(w *watch)
		want string
	}{
		{"all well", func(w *watch) { w.see([]*kgo.Record{came, letter}, onTime) },
			"demo: ok: all 1 due were delivered exactly once, none early (lateness p50 2.0 ms, p99 2.0 ms); 1 dead-lettered, 0 cancelled, 0 retried, 1 not due yet"},
		{"nothing came", func(*watch) {}, "demo: FAILED: 2 missing (0 delivered"},
		{"twice", func(w *watch) {
			w.see([]*kgo.Record{came, letter}, onTime)
			w.see([]*kgo.Record{demoArrival(0, "orders", 1, demoDue, demoDue)}, onTime)
		}, "demo: FAILED: 1 doubled (2 delivered"},
		{"early", func(w *watch) { w.see([]*kgo.Record{demoArrival(0, "orders", 0, demoDue, demoDue-1), letter}, onTime) }, "demo: FAILED: 1 early (1 delivered"},
		{"altered", func(w *watch) { w.see([]*kgo.Record{altered, letter}, onTime) }, "demo: FAILED: 1 altered (1 delivered"},
		{"in the wrong topic", func(w *watch) {
			w.see([]*kgo.Record{demoArrival(0, "billing.invoices", 0, demoDue, demoDue), letter}, onTime)
		}, "demo: FAILED: 1 altered (1 delivered"},
		{"dead-lettered without a reason", func(w *watch) { w.see([]*kgo.Record{demoLetter(good, "target_not_allowed", "no"), letter}, onTime) }, "demo: FAILED: 1 good dead-lettered (0 delivered"},
		{"cancelled, and there", func(w *watch) {
			w.see([]*kgo.Record{came, letter, demoRequest(3, "billing.reminders", demoDue, "delay-id", "x")}, onTime)
			w.see([]*kgo.Record{{Topic: demoRequests, Offset: 4, Headers: []kgo.RecordHeader{{Key: "delay-cancel", Value: []byte("x")}}}}, onTime)
		}, "demo: ok: all 1 due were delivered exactly once, none early (lateness p50 2.0 ms, p99 2.0 ms); 1 dead-lettered, 1 cancelled, "},
		{"of another producer", func(w *watch) { w.see([]*kgo.Record{came, letter, {Topic: "orders", Offset: 1}}, onTime) }, "demo: ok: all 1 due"},
		{"came before its request was read", func(w *watch) {
			w.see([]*kgo.Record{came, letter, demoArrival(3, "orders", 1, demoDue, demoDue)}, onTime)
			w.see([]*kgo.Record{demoRequest(3, "orders", demoDue)}, onTime)
		}, "demo: ok: all 2 due were delivered exactly once, none early (lateness p50 2.0 ms, p99 2.0 ms); 1 dead-lettered, 0 cancelled, 0 retried, 1 not due yet"},
		{"wrong after a kill, and right in the end", func(w *watch) {
			w.see([]*kgo.Record{came, letter}, onTime)
			w.takeovers, w.badTakeovers = 1, 1
		}, "demo: FAILED: something was missing for longer than 10s after a replica was killed (1 delivered"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTestWatch(t)
			w.see([]*kgo.Record{good, bad, later}, onTime)
			test.see(w)
			got, ok := w.summary(time.UnixMilli(demoDue))
			if !strings.HasPrefix(got, test.want) || ok != strings.HasPrefix(test.want, "demo: ok") {
				t.Errorf("got  %s (%v)\nwant %s", got, ok, test.want)
			}
		})
	}
}

// What a replica had that was killed is back when each of its partitions has delivered something that came due after its end, and the verdict
// is the checker's.
func TestTakeover(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(demoDue + ms) }
	from := func(p int32) check.Source { return check.Source{Topic: demoRequests, Partition: p} }
	of := func(p int32) processor.TopicPartition {
		return processor.TopicPartition{Topic: demoRequests, Partition: p}
	}
	var none *takeover
	if none.delivered(from(0), demoDue, at(0)) {
		t.Error("no takeover holds up nothing")
	}
	k := &takeover{victim: "a", began: at(0), gone: at(10), back: map[processor.TopicPartition]*time.Time{of(0): nil, of(1): nil}}
	for _, step := range []struct {
		name      string
		partition int32
		due, seen int64
		held      bool
		over      bool
	}{
		{"seen before the kill", 0, -50, -40, false, false},
		{"its last transaction, seen after the kill", 0, 5, 20, true, false},
		{"of another replica", 2, 20, 25, false, false},
		{"the first partition is back", 0, 100, 1500, true, false},
		{"again", 0, 200, 1501, true, false},
		{"the second one is back", 1, 20, 1800, true, true},
		{"what came due meanwhile", 1, 1700, 1900, true, true},
		{"what came due later", 1, 1801, 1900, false, true},
	} {
		if held := k.delivered(from(step.partition), demoDue+step.due, at(step.seen)); held != step.held || !k.over.IsZero() != step.over {
			t.Errorf("%s: held %v, over %v", step.name, held, k.over)
		}
	}
	if k.over != at(1800) || k.fell != 5 || k.worst != 1780*time.Millisecond {
		t.Errorf("over at %v, %d records, at most %v late", k.over, k.fell, k.worst)
	}

	w := newTestWatch(t)
	w.see([]*kgo.Record{demoRequest(0, "orders", demoDue+20), demoRequest(1, "orders", demoDue+30), demoRequest(2, "orders", demoDue+1900)}, at(0))
	w.see([]*kgo.Record{demoArrival(0, "orders", 0, demoDue+20, demoDue+20)}, at(1800))
	k.report = w.judge(k.over, 0)
	if text, well := k.verdict(); text != "1 lost, 0 doubled, back in 1.8 s" || well {
		t.Errorf("%q, %v", text, well)
	}
	w.see([]*kgo.Record{demoArrival(1, "orders", 1, demoDue+30, demoDue+30)}, at(1900))
	k.report = w.judge(k.over, 0)
	if text, well := k.verdict(); text != "0 lost, 0 doubled, back in 1.8 s" || !well {
		t.Errorf("%q, %v", text, well)
	}
	w.see([]*kgo.Record{demoArrival(1, "orders", 2, demoDue+30, demoDue+29)}, at(1900))
	k.report = w.judge(k.over, 0)
	if text, well := k.verdict(); text != "0 lost, 1 doubled, back in 1.8 s, 1 other fault" || well {
		t.Errorf("%q, %v", text, well)
	}
}

// A consumer that fails twice writes what it has failed to process to the retry topic; after the third attempt the record must not come again.
func TestDemoRetries(t *testing.T) {
	w := newTestWatch(t)
	var again []*kgo.Record
	w.stories.again = func(r *kgo.Record) { again = append(again, r) }
	came := func() *kgo.Record {
		r := demoArrival(0, "orders", 0, demoDue, demoDue)
		r.Headers[0].Value = []byte("order-1")
		return r
	}
	for range 3 {
		w.stories.arrived(came(), check.Source{})
	}
	if retried, wrong := w.stories.ends(); retried != 1 || len(again) != 2 || again[0].Topic != demoRetry || len(wrong) > 0 {
		t.Errorf("processed %d, written again %d, %q", retried, len(again), wrong)
	}
	w.stories.end()
	second := came()
	second.Headers[0].Value = []byte("order-2")
	w.stories.arrived(second, check.Source{})
	if len(again) != 2 || len(w.stories.fresh()) != 3 {
		t.Error("something is written, or said to be, after the end")
	}
	w.stories.arrived(came(), check.Source{})
	if got, ok := w.summary(time.UnixMilli(0)); ok || !strings.Contains(got, "order-1 came again after it was processed") {
		t.Errorf("%s", got)
	}
}

// What waits is counted by how far ahead it is due; what is a moment late is about to come.
func TestDemoAgenda(t *testing.T) {
	w := newTestWatch(t)
	var requests []*kgo.Record
	for i, ahead := range []time.Duration{-time.Second, -99 * time.Millisecond, 0, 2 * time.Second, 2001 * time.Millisecond, 5 * time.Second, time.Minute, time.Hour, 48 * time.Hour, 48 * time.Hour} {
		requests = append(requests, demoRequest(int64(i), "orders", demoDue+ahead.Milliseconds()))
	}
	w.see(requests, time.UnixMilli(demoDue))
	var got []int64
	for _, r := range w.agendaOf(time.UnixMilli(demoDue)) {
		got = append(got, r.Records)
	}
	if want := []int64{1, 3, 2, 0, 1, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	at, q, ok := w.next(time.UnixMilli(demoDue + 1500))
	if !ok || at.Offset != 3 || q.due != demoDue+2000 {
		t.Errorf("the next one is %v, %v, %v", at, q, ok)
	}
}

// What was asked for from another terminal is told apart.
func TestDemoTellsYours(t *testing.T) {
	w, now := newTestWatch(t), time.UnixMilli(demoDue+3)
	own := func(offset int64, headers ...string) *kgo.Record {
		r := demoRequest(offset, "orders", demoDue, headers...)
		r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == demoMark })
		return r
	}
	came := demoArrival(0, "orders", 0, demoDue, demoDue)
	came.Headers = came.Headers[1:]
	w.see([]*kgo.Record{own(0), own(1, "delay-id", "mine"), own(2), own(3), demoRequest(4, "orders", demoDue)}, now)
	w.see([]*kgo.Record{came, demoLetter(own(2), "too_large", "no"), {Topic: demoRequests, Offset: 5, Headers: []kgo.RecordHeader{{Key: "delay-cancel", Value: []byte("mine")}}}}, now)
	if got, want := w.tally().yours.String(), "1 waiting, 1 cancelled, 1 dead-lettered, 1 came, the last 3.0 ms late"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (yours{}); got.any() || got.String() != "" {
		t.Errorf("of nothing: %q", got)
	}
}
