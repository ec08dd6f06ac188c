package main

import (
	"bytes"
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor"
)

func TestDemo(t *testing.T) {
	var out, log bytes.Buffer
	err := run(t.Context(), []string{"demo", "--for", "1500ms", "--rate", "200"}, nil, &out, &log)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &log)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := regexp.MustCompile(`^demo: ok: all (\d+) due were delivered exactly once, none early \(lateness p50 \S+ ms, p99 \S+ ms\); 1 dead-lettered, 1 cancelled, \d+ retried, \d+ not due yet$`)
	m := last.FindStringSubmatch(lines[len(lines)-1])
	if m == nil || m[1] == "0" {
		t.Errorf("the last line is %q", lines[len(lines)-1])
	}
	for _, want := range []string{"demo: broker 127.0.0.1:", " produce -b 127.0.0.1:", "kcat -P -b 127.0.0.1:", "   1s  asked ", "reminder-1 is asked for", "is dead-lettered: target_not_allowed: the route delay-requests does not allow the target payroll"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	// Of its one dead letter the log tells, too, and of nothing else.
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "code=target_not_allowed") {
		t.Errorf("warnings: %s", got)
	}
}

// Ctrl-C ends it as --for does.
func TestDemoEndsWhenAsked(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var out, log bytes.Buffer
	if err := run(ctx, []string{"demo"}, nil, &out, &log); err != nil || !strings.Contains(out.String(), "\ndemo: ok: ") {
		t.Errorf("%v\n%s\n%s", err, &out, &log)
	}
}

// seen is a record as the demo's consumer would see it, delivered at due.
func seen(id int64, topic string, due, fired int64, offset int64) *kgo.Record {
	h := func(name string, v int64) kgo.RecordHeader {
		return kgo.RecordHeader{Key: name, Value: []byte(strconv.FormatInt(v, 10))}
	}
	return &kgo.Record{Topic: topic, Offset: offset, Timestamp: time.UnixMilli(fired), Headers: []kgo.RecordHeader{h("demo-id", id), h("delay-due", due)}}
}

func TestDemoNoticesEveryFault(t *testing.T) {
	const due = 1_800_000_000_000
	onTime := time.UnixMilli(due).Add(2 * time.Millisecond)
	for _, test := range []struct {
		name string
		see  func(w *watch)
		want string
	}{
		{"all well", func(w *watch) {
			w.arrived([]*kgo.Record{seen(1, "orders", due, due, 0)}, onTime)
			w.arrived([]*kgo.Record{seen(2, demoDeadLetter, due, due, 0)}, onTime)
		}, "demo: ok: all 1 due were delivered exactly once, none early (lateness p50 2.0 ms, p99 2.0 ms); 1 dead-lettered, 0 cancelled, 0 retried, 1 not due yet"},
		{"nothing came", func(*watch) {}, "demo: FAILED: 2 missing (0 delivered, 0 dead-lettered)"},
		{"twice", func(w *watch) {
			w.arrived([]*kgo.Record{seen(1, "orders", due, due, 0), seen(2, demoDeadLetter, due, due, 0)}, onTime)
			w.arrived([]*kgo.Record{seen(1, "orders", due, due, 1)}, onTime)
		}, "demo: FAILED: 1 delivered twice (1 delivered, 1 dead-lettered)"},
		{"seen early", func(w *watch) {
			w.arrived([]*kgo.Record{seen(1, "orders", due, due, 0), seen(2, demoDeadLetter, due, due, 0)}, time.UnixMilli(due-1))
		}, "demo: FAILED: 1 early (1 delivered, 1 dead-lettered)"},
		{"handed over early", func(w *watch) {
			w.arrived([]*kgo.Record{seen(1, "orders", due, due-1, 0), seen(2, demoDeadLetter, due, due, 0)}, onTime)
		}, "demo: FAILED: 1 early (1 delivered, 1 dead-lettered)"},
		{"in the wrong topic", func(w *watch) {
			w.arrived([]*kgo.Record{seen(1, "billing.invoices", due, due, 0), seen(2, demoDeadLetter, due, due, 0)}, onTime)
		}, "demo: FAILED: 1 in the wrong topic (0 delivered, 1 dead-lettered)"},
		{"dead-lettered without a reason", func(w *watch) {
			w.arrived([]*kgo.Record{seen(1, demoDeadLetter, due, due, 0), seen(2, demoDeadLetter, due, due, 1)}, onTime)
		}, "demo: FAILED: 1 in the wrong topic (0 delivered, 1 dead-lettered)"},
		{"a record of another producer is no fault", func(w *watch) {
			w.arrived([]*kgo.Record{seen(1, "orders", due, due, 0), seen(2, demoDeadLetter, due, due, 0), {Topic: "orders"}, seen(99, "orders", due, due, 3)}, onTime)
		}, "demo: ok: all 1 due were delivered exactly once, none early (lateness p50 2.0 ms, p99 2.0 ms); 1 dead-lettered, 0 cancelled, 0 retried, 1 not due yet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWatch()
			w.expect(due, "orders")
			w.expect(due, "payroll")
			w.expect(due+1000, "orders")
			test.see(w)
			got, ok := w.summary(due)
			if got != test.want || ok != strings.HasPrefix(test.want, "demo: ok") {
				t.Errorf("got  %s (%v)\nwant %s", got, ok, test.want)
			}
		})
	}
}

func TestDemoTable(t *testing.T) {
	const due = 1_800_000_000_000
	now := time.UnixMilli(due)
	d := &demo{broker: "127.0.0.1:9092", admin: "127.0.0.1:9464", every: 2, watch: newWatch(), stats: func() processor.Stats {
		return processor.Stats{Partitions: []processor.PartitionStats{{Pending: 3}, {Pending: 4}}}
	}}
	for i := range int64(8) {
		d.watch.expect(due+i*1_000_000, "orders")
	}
	d.watch.arrived([]*kgo.Record{seen(1, "orders", due, due, 0)}, now.Add(1500*time.Microsecond))
	d.watch.stories.tell(storyCancel, "reminder-1 is asked for, due in 4 s, with an id")
	d.watch.stories.dead(9, &kgo.Record{Headers: []kgo.RecordHeader{{Key: "__delay.errors.code", Value: []byte("too_far_ahead")}, {Key: "__delay.errors.message", Value: []byte("due at the end of all days, which is more than may be")}}})
	want := strings.TrimPrefix(`
demo: broker 127.0.0.1:9092, metrics http://127.0.0.1:9464/metrics, Ctrl-C ends

  asked 8  pending 7  delivered 1 (0/s)  dead-lettered 0  yours 0
  lateness p50 1.5 ms, p99 1.5 ms, max 1.5 ms  early 0  doubled 0

  WAITS, some of it                       DELIVERED
  #2       orders             in 16m40s   #1       orders             1.5 ms
  #4       orders             in 50m0s
  #6       orders             in 1h23m20s
  #7       orders             in 1h40m0s
  #8       orders             in 1h56m40s

  reminder-1 is asked for, due in 4 s, with an id
  #9 is dead-lettered: too_far_ahead: due at the end of all days, which is more…
`, "\n")
	lines := d.table(now, &meter{})
	if got := strings.TrimRight(strings.Join(lines[:14], "\n"), "\n") + "\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if len(lines) > 23 {
		t.Errorf("%d lines do not fit on a screen", len(lines))
	}
	for _, line := range lines {
		if len([]rune(line)) > 80 {
			t.Errorf("%q is too long", line)
		}
	}
}

func TestFrameFitsTheScreen(t *testing.T) {
	got := frame([]string{"abcdef", "µµµµµµ", "gone"}, 4, 2)
	if want := "\x1b[Habcd\x1b[K\r\nµµµµ\x1b[K\r\n\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCountdown(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	for _, test := range []struct {
		in   time.Duration
		want string
	}{
		{-time.Second, "now"}, {0, "now"}, {400 * time.Millisecond, "in 0.4s"}, {90 * time.Second, "in 1m30s"}, {100 * time.Hour, "in 4d4h"},
	} {
		if got := until(now.Add(test.in).UnixMilli(), now); got != test.want {
			t.Errorf("until %v: %q, want %q", test.in, got, test.want)
		}
	}
}

func TestMeter(t *testing.T) {
	m, now := meter{}, time.UnixMilli(0)
	if got := m.perSecond(now, 5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for i := range 100 {
		now = now.Add(100 * time.Millisecond)
		if got := m.perSecond(now, 5+(i+1)*30); got < 299 || got > 301 {
			t.Errorf("step %d: %v a second, want 300", i, got)
		}
	}
}

// A record that is cancelled does not come, and one that its consumer fails to process twice is processed at the third attempt: else the demo
// has failed.
func TestDemoStories(t *testing.T) {
	of := func(topic, name string) *kgo.Record {
		return &kgo.Record{Topic: topic, Headers: []kgo.RecordHeader{{Key: demoStory, Value: []byte(name)}}}
	}
	w := newWatch()
	var again []*kgo.Record
	w.stories.again = func(r *kgo.Record) { again = append(again, r) }
	for range 3 {
		w.arrived([]*kgo.Record{of("orders", "order-1")}, time.Now())
	}
	if _, retried, wrong := w.stories.ends(); retried != 1 || len(again) != 2 || again[0].Topic != demoRetry || len(wrong) > 0 {
		t.Errorf("processed %d, written again %d, %q", retried, len(again), wrong)
	}
	w.stories.cancelled["reminder-1"] = true
	w.arrived([]*kgo.Record{of("orders", "order-1"), of("billing.reminders", "reminder-1"), of(demoRetry+".dead", "order-2")}, time.Now())
	got, ok := w.summary(0)
	for _, want := range []string{"order-1 came again after it was processed", "reminder-1 delivered although it was cancelled", "order-2 dead-lettered"} {
		if ok || !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	if w.yours > 0 || w.doubled > 0 {
		t.Errorf("%d of somebody else, %d doubled", w.yours, w.doubled)
	}
}
