package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/topics"
)

// What is replayed is the request as it was written, in the same partition; and what comes back meanwhile is not replayed.
func TestDLQReplay(t *testing.T) {
	_, addr, config := graveyard(t)
	out, notes, err := both(t, "dlq", "replay", "-c", config, "--yes")
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, notes)
	}
	if got, want := strings.Join(places(out), " "), "delays.dead/0@0 delays.dead/0@1 delays.dead/1@0 parked/0@0"; got != want {
		t.Errorf("replayed %s", got)
	}
	for _, want := range []string{
		"delays.dead/0@0: delays/2@0, due 20", " (in 5 m) to billing, handle 2-0-",
		"delays.dead/0@1: delays/0@0, which will be dead-lettered: no_due",
		"parked/0@0: retries/0@0, a retry, due 8s to 12s after it came\n", "4 dead letters replayed: 2 unknown_target, 1 attempts_exhausted, 1 no_due\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("printed no %q in\n%s", want, out)
		}
	}
	for _, want := range []string{
		"note: dead letters stay where they are, so what is replayed twice is delivered twice\n", "note: they go to delays, retries\n",
		"note: as things are, 1 of them will be dead-lettered again: 1 no_due\n", "note: the target billing does not exist: records for it are dead-lettered\n",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("noted no %q in\n%s", want, notes)
		}
	}
	byPartition := map[int32][]*kgo.Record{}
	for _, r := range fetch(t, addr, "delays", 3) {
		byPartition[r.Partition] = append(byPartition[r.Partition], r)
	}
	r := byPartition[2][0]
	if got, want := headers(r), map[string]string{"delay-for": "5m", "delay-target-topic": "billing", "trace": "abc"}; !maps.Equal(got, want) ||
		string(r.Key) != "k0" || string(r.Value) != `{"n":0}` || time.Since(r.Timestamp) > time.Hour {
		t.Errorf("replayed as %s=%s at %v with %v", r.Key, r.Value, r.Timestamp, got)
	}
	if len(byPartition[0]) != 2 || byPartition[0][0].Value[2] != 0xfe || byPartition[0][1].Key != nil || byPartition[0][1].Value != nil {
		t.Errorf("partition 0 has %+v", byPartition[0])
	}
	// A count of attempts begins anew; what other systems say stays.
	if got, want := headers(fetch(t, addr, "retries", 1)[0]), map[string]string{"kafka_dlt-original-topic": "orders", "delay-due": "1"}; !maps.Equal(got, want) {
		t.Errorf("a retry has %v", got)
	}

	// Again is twice.
	if _, _, err := both(t, "dlq", "replay", "-b", addr, "-t", "delays.dead", "-y", "--code", "no_due"); err != nil {
		t.Fatal(err)
	}
	if out, _, err = both(t, "dlq", "replay", "-b", addr, "-t", "delays.dead", "-y", "1@0", "0@0", "delays.dead/1@0"); err != nil ||
		out != "delays.dead/1@0: delays/0@3\ndelays.dead/0@0: delays/2@1\n2 dead letters replayed: 2 unknown_target\n" {
		t.Errorf("by place: %v\n%s", err, out)
	}
	if n := lengthOf(t, addr, "delays"); n != 6 {
		t.Errorf("delays has %d records, want 3, 1 and 2", n)
	}
}

// A delay counts from the broker's timestamp where that writes them: what is replayed there has no handle that is known.
func TestDLQReplayWithLogAppendTime(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays.dead": 1, "orders": 1})
	if err := c.CreateTopic("delays", 3, map[string]string{"message.timestamp.type": "LogAppendTime"}); err != nil {
		t.Fatal(err)
	}
	bury(t, addr, dead{code: topics.CodeUnknownTarget, headers: []string{"delay-for=5m"}}, dead{code: topics.CodeUnknownTarget, headers: []string{"delay-until=2100-01-01T00:00:00Z"}})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes: [{topic: delays, target: orders, max_delay: 100000d}]\n")
	out, notes, err := both(t, "dlq", "replay", "-c", config, "--yes")
	if err != nil || !strings.Contains(out, " to orders; without a handle") || !strings.Contains(out, " to orders, handle 0-") {
		t.Errorf("printed %v\n%s%s", err, out, notes)
	}
}

func TestDLQReplayDryRun(t *testing.T) {
	_, addr, config := graveyard(t)
	bury(t, addr, dead{code: topics.CodeTooLarge, partition: 1, cut: true})
	out, notes, err := both(t, "dlq", "replay", "-c", config, "--dry-run")
	want := `delays.dead/0@0 to delays/2
delays.dead/0@1 to delays/0, where it is dead-lettered again: no_due: neither delay-until nor delay-for is set
delays.dead/1@0 to delays/0
delays.dead/1@1 is not replayed: it is one that was cut and is not whole
parked/0@0 to retries/0
nothing was written; 4 dead letters: 2 unknown_target, 1 attempts_exhausted, 1 no_due
`
	if out != want || err == nil || err.Error() != "1 dead letter not replayed: 1 that was cut and is not whole" {
		t.Errorf("got %v\n%s%s", err, out, notes)
	}
	if n := lengthOf(t, addr, "delays") + lengthOf(t, addr, "retries"); n != 0 {
		t.Errorf("a dry run has written %d records", n)
	}
}

// What is not whole, or whose way is gone, is not replayed; the rest is.
func TestDLQReplayRefuses(t *testing.T) {
	_, addr, config := graveyard(t)
	bury(t, addr,
		dead{in: "parked", code: topics.CodeTooLarge, cut: true},
		dead{in: "parked", code: topics.CodeNoDue, from: 3},
		dead{in: "parked", code: topics.CodeNoDue, of: "gone"},
		dead{in: "parked", code: topics.CodeUnsupportedHeader, headers: []string{"delay-resolve=a8098c1a:g:0:1:1:1:-1"}},
	)
	out, notes, err := both(t, "dlq", "replay", "-b", addr, "-t", "parked", "--yes")
	if want := "4 dead letters not replayed: 1 of gone, which does not exist any more, 1 of partition 3 of delays, which has only 0 to 2, " +
		"1 that never was a request, 1 that was cut and is not whole"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if out != "parked/0@0: retries/0@0\n1 dead letter replayed: 1 attempts_exhausted\n" || !strings.Contains(notes, "note: parked/0@1 is not replayed: it is one that was cut and is not whole\n") {
		t.Errorf("printed %s, noted %s", out, notes)
	}
	for place, want := range map[string]string{
		"parked/0@1": "1 dead letter not replayed: 1 that was cut and is not whole",
		"parked/0@3": "1 dead letter not replayed: 1 of gone, which is not the delay topic of any route of the configuration",
		"parked/0@9": "there is no dead letter at parked/0@9: the partition has offsets 0 to 4",
	} {
		if out, _, err := both(t, "dlq", "replay", "-c", config, "--yes", place); err == nil || err.Error() != want || out != "" {
			t.Errorf("%s: got %v, printed %q", place, err, out)
		}
	}
	if n := lengthOf(t, addr, "delays"); n != 0 {
		t.Errorf("%d records were written to delays", n)
	}
}

// A replay that ends early says how to go on, and nothing is left out or written twice then.
func TestDLQReplayGoesOn(t *testing.T) {
	_, _, config := graveyard(t)
	out, notes, err := both(t, "dlq", "replay", "-c", config, "--yes", "--max", "2")
	if err != nil || len(places(out)) != 2 || !strings.Contains(notes, "note: there are more; --from delays.dead/1@0 goes on\n") {
		t.Fatalf("%v\n%s%s", err, out, notes)
	}
	out, _, err = both(t, "dlq", "replay", "-c", config, "--yes", "--from", "delays.dead/1@0")
	if got := strings.Join(places(out), " "); err != nil || got != "delays.dead/1@0 parked/0@0" {
		t.Errorf("went on with %s, %v", got, err)
	}
}

// What is dead-lettered while a replay runs is left for the next one, which --since chooses.
func TestDLQReplayLeavesWhatComesBack(t *testing.T) {
	_, addr, config := graveyard(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, notes strings.Builder
	confirmed := writerFunc(func(b []byte) (int, error) {
		if out.Len() == 0 { // partition 1 has not been read yet
			bury(t, addr, dead{code: topics.CodeUnknownTarget, partition: 1, at: time.Now().Add(time.Minute)}, dead{in: "parked", code: topics.CodeNoDue, at: time.Now().Add(time.Minute)})
		}
		return out.Write(b)
	})
	if err := run(ctx, []string{"dlq", "replay", "-c", config, "--yes", "--rate", "19"}, nil, confirmed, &notes); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(places(out.String()), " "); got != "delays.dead/0@0 delays.dead/0@1 delays.dead/1@0 parked/0@0" {
		t.Errorf("replayed %s", got)
	}
	_, since, _ := strings.Cut(notes.String(), "note: --since ")
	since, _, _ = strings.Cut(since, " ")
	listed, _, err := both(t, "dlq", "ls", "-c", config, "--since", since)
	if got := strings.Join(places(listed), " "); err != nil || got != "delays.dead/1@1 parked/0@1" {
		t.Errorf("--since %s chooses %s, %v", since, got, err)
	}
}

func TestDLQReplayIsRefusedByTheBroker(t *testing.T) {
	c, _, config := graveyard(t)
	var asked atomic.Int32
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if asked.Add(1) == 1 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range req.(*kmsg.ProduceRequest).Topics {
			refused := kmsg.ProduceResponseTopic{Topic: topic.Topic, TopicID: topic.TopicID}
			for _, p := range topic.Partitions {
				refused.Partitions = append(refused.Partitions, kmsg.ProduceResponseTopicPartition{Partition: p.Partition, ErrorCode: kerr.PolicyViolation.Code, BaseOffset: -1})
			}
			resp.Topics = append(resp.Topics, refused)
		}
		return resp, nil, true
	})
	out, _, err := both(t, "dlq", "replay", "-c", config, "--yes", "--rate", "10") // one at a time
	if want := "; 1 dead letter replayed before that; delays.dead/0@1 was not acknowledged, and may have been written all the same; --from delays.dead/0@1 goes on"; err == nil ||
		!strings.HasPrefix(err.Error(), "produce to delays/0: POLICY_VIOLATION") || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	if got := places(out); len(got) != 1 || got[0] != "delays.dead/0@0" {
		t.Errorf("printed %s", out)
	}
}

// What is no topic name is not asked for: brokers answer that with an error, and nothing could be replayed beside it.
func TestDLQReplayBesideWhatIsNoTopicName(t *testing.T) {
	c, addr, config := graveyard(t)
	bury(t, addr, dead{code: topics.CodeInvalidTarget, headers: []string{"delay-for=5m", "delay-target-topic=.."}}, dead{code: topics.CodeNoDue, headers: []string{"delay-target-topic=a b"}})
	var asked atomic.Int32
	c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for _, topic := range req.(*kmsg.MetadataRequest).Topics {
			if topic.Topic != nil && topics.CheckTopic(*topic.Topic) != nil {
				asked.Add(1)
			}
		}
		return nil, nil, false
	})
	_, notes, err := both(t, "dlq", "replay", "-c", config, "--dry-run")
	if err != nil || asked.Load() > 0 || !strings.Contains(notes, "1 invalid_target") || strings.Contains(notes, "the target ..") {
		t.Errorf("brokers were asked %d times for what is no topic; %v\n%s", asked.Load(), err, notes)
	}
}

// Ctrl-C ends a replay between two records, and it says with which to go on.
func TestDLQReplayIsInterrupted(t *testing.T) {
	_, addr, config := graveyard(t)
	ctx, interrupt := context.WithCancelCause(t.Context())
	confirmed := writerFunc(func(b []byte) (int, error) { interrupt(errors.New("signal interrupt")); return len(b), nil })
	err := run(ctx, []string{"dlq", "replay", "-c", config, "--yes", "--rate", "1"}, nil, confirmed, io.Discard)
	if want := "signal interrupt; 1 dead letter replayed before that; --from delays.dead/0@1 goes on"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if n := lengthOf(t, addr, "delays"); n != 1 {
		t.Errorf("%d records were written", n)
	}
}

// On a terminal a person is asked, and sees how far it has come.
func TestDLQReplayAsks(t *testing.T) {
	_, addr, config := graveyard(t)
	f := &flags{file: config}
	replayed := func(answer bool) (out, notes, bar string, err error) {
		t.Helper()
		var stdout, stderr, drawn strings.Builder
		o := replaying{rate: 1000}
		err = o.withLetters(f, func(l *letters) error {
			r := &replay{letters: l, rate: o.rate, now: time.Now, stdout: &stdout, stderr: &stderr, bar: &drawn,
				ask: func(context.Context) (bool, error) { return answer, nil }}
			return o.run(t.Context(), r, filter{})
		}, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		return stdout.String(), stderr.String(), drawn.String(), err
	}
	out, notes, _, err := replayed(false)
	if err == nil || err.Error() != "nothing was replayed" || out != "" || !strings.HasSuffix(notes, "replay 4 dead letters: 2 unknown_target, 1 attempts_exhausted, 1 no_due? [y/N] ") {
		t.Errorf("no: %v, printed %q, asked %q", err, out, notes)
	}
	if n := lengthOf(t, addr, "delays"); n != 0 {
		t.Errorf("after a no %d records were written", n)
	}
	out, _, bar, err := replayed(true)
	if err != nil || out != "4 dead letters replayed: 2 unknown_target, 1 attempts_exhausted, 1 no_due\n" || bar != progress(4, 4, 0, 80)+"\n" {
		t.Errorf("yes: %v, printed %q, drew %q", err, out, bar)
	}
	for said, want := range map[string]bool{"y\n": true, " YES \n": true, "n\n": false, "\n": false, "": false, "yesterday\n": false} {
		if got, err := answered(t.Context(), strings.NewReader(said)); got != want || err != nil {
			t.Errorf("%q is taken for %v, %v", said, got, err)
		}
	}
}

// It waits after each write as long as all that is written may take. The clock that it asks stands still, so it never has less to wait for.
func TestReplayKeepsToItsRate(t *testing.T) {
	const rate = 19 // one at a time
	_, _, config := graveyard(t)
	o, began := replaying{rate: rate}, time.Now()
	var at []time.Time
	printed := writerFunc(func(b []byte) (int, error) { at = append(at, time.Now()); return len(b), nil })
	err := o.withLetters(&flags{file: config}, func(l *letters) error {
		r := &replay{letters: l, rate: o.rate, now: func() time.Time { return began }, stdout: printed, stderr: io.Discard}
		return o.run(t.Context(), r, filter{})
	}, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil || len(at) != 5 { // four dead letters, and what is said at the end
		t.Fatalf("%v, printed %d times", err, len(at))
	}
	for n := 1; n < len(at); n++ {
		if got, least := at[n].Sub(at[n-1]), due(n, rate); got < least {
			t.Errorf("after %d it waited for %v, want %v", n, got, least)
		}
	}
}

func TestReplayPaceAndProgress(t *testing.T) {
	for _, test := range []struct {
		n, rate int
		want    time.Duration
	}{{0, 1, 0}, {1, 1, time.Second}, {100, 1000, 100 * time.Millisecond}, {3_000_000, 1000, 3000 * time.Second}} {
		if got := due(test.n, test.rate); got != test.want {
			t.Errorf("after %d at %d/s: %v, want %v", test.n, test.rate, got, test.want)
		}
	}
	for _, test := range []struct {
		n, total, columns int
		want              string
	}{
		{0, 10, 80, "\r[" + strings.Repeat(" ", 30) + "] 0 of 10 (0 %)\x1b[K"},
		{5, 10, 80, "\r[" + strings.Repeat("=", 15) + strings.Repeat(" ", 15) + "] 5 of 10 (50 %), 8s left\x1b[K"},
		{5, 10, 57, "\r[" + strings.Repeat("=", 15) + strings.Repeat(" ", 15) + "] 5 of 10 (50 %), 8s left\x1b[K"},
		{5, 10, 37, "\r[" + strings.Repeat("=", 5) + strings.Repeat(" ", 5) + "] 5 of 10 (50 %), 8s left\x1b[K"}, // a line that is wrapped is not drawn over
		{5, 10, 30, "\r5 of 10 (50 %), 8s left\x1b[K"},
		{5, 10, 12, "\r5 of 10 (50\x1b[K"},
		{10, 10, 80, "\r[" + strings.Repeat("=", 30) + "] 10 of 10 (100 %)\x1b[K"},
		{11, 10, 80, "\r[" + strings.Repeat("=", 30) + "] 11 of 10 (100 %)\x1b[K"},
	} {
		if got := progress(test.n, test.total, 8*time.Second, test.columns); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// Thousands are read in many fetches and written in many batches, each once and in order.
func TestDLQManyLetters(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 2, "delays.dead": 2})
	const n = 5000
	cl := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range n {
		r := dead{in: "delays.dead", of: "delays", partition: int32(i % 2), from: int32(i % 2), code: topics.CodeUnknownTarget, at: noon, value: fmt.Appendf(nil, "%d", i)}.record()
		cl.Produce(t.Context(), r, nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, _, err := both(t, "dlq", "replay", "-b", addr, "-t", "delays.dead", "--yes", "--rate", "1000000")
	if err != nil || !strings.HasSuffix(out, "5000 dead letters replayed: 5000 unknown_target\n") {
		t.Fatalf("%v, printed %q", err, out[max(0, len(out)-100):])
	}
	next := []int{0, 1}
	for _, r := range fetch(t, addr, "delays", n) {
		if want := fmt.Sprint(next[r.Partition]); string(r.Value) != want {
			t.Fatalf("partition %d has %s, want %s", r.Partition, r.Value, want)
		}
		next[r.Partition] += 2
	}
	if next[0] != n || next[1] != n+1 {
		t.Errorf("the next are %v", next)
	}
}

// What the delay topic takes one by one is not put into a batch that it does not take.
func TestDLQReplayBatchesAreTaken(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "delays.dead": 1})
	if err := c.CreateTopic("small", 1, map[string]string{"max.message.bytes": "4096"}); err != nil {
		t.Fatal(err)
	}
	cl := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	produce := func(of string, n, size int) {
		for range n {
			d := dead{in: "delays.dead", of: of, code: topics.CodeUnknownTarget, at: noon, value: incompressible(size)}
			if err := cl.ProduceSync(t.Context(), d.record()).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	produce("delays", 3, 500_000)
	produce("small", 5, 3000)
	produce("delays", 1, 500_000)
	produce("small", 3, 100)
	out, _, err := both(t, "dlq", "replay", "-b", addr, "-t", "delays.dead", "--yes")
	if err != nil || !strings.HasSuffix(out, "12 dead letters replayed: 12 unknown_target\n") {
		t.Fatalf("%v, printed %q", err, out[max(0, len(out)-100):])
	}
	fetch(t, addr, "small", 8)
	fetch(t, addr, "delays", 4)
}

// From a request that its route does not allow to its delivery, once the route does.
func TestDLQReplayIsDelivered(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 2, "delays.dead": 1, "orders": 1, "payroll": 1})
	if _, err := command(t, "", "produce", "-b", addr, "-t", "delays", "--for", "1ms", "--to", "payroll", "-v", "x", "-H", "trace=abc"); err != nil {
		t.Fatal(err)
	}
	stop, _ := start(t, addr, t.TempDir())
	fetch(t, addr, "delays.dead", 1)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	out, _, err := both(t, "dlq", "replay", "-b", addr, "-t", "delays.dead", "--code", "target_not_allowed", "--target", "payroll", "--yes")
	if err != nil || !strings.HasSuffix(out, "1 dead letter replayed: 1 target_not_allowed\n") {
		t.Fatalf("%v, printed %q", err, out)
	}
	start(t, addr, t.TempDir(), "-X", "routes[0].targets.allow=orders,payroll")
	r := fetch(t, addr, "payroll", 1)[0]
	if got := headers(r); string(r.Value) != "x" || got["trace"] != "abc" || got["__delay.errors.code"] != "" {
		t.Errorf("delivered %s with %v", r.Value, got)
	}
}

// A request that would have expired is dead-lettered once more.
func TestReplayKnowsWhatHasExpired(t *testing.T) {
	routes, err := topics.NewRoutes(topics.Route{Topic: "requests", Target: "orders", DeadLetter: "requests.dead", ExpireAfter: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1767225605123)
	r := &replay{letters: &letters{boxes: boxes{routes: map[string]*topics.Route{"requests": routes[0]}}}, now: func() time.Time { return now }}
	for _, tt := range []struct {
		late time.Duration
		want topics.Code
	}{{time.Minute, ""}, {time.Minute + time.Millisecond, topics.CodeExpired}} {
		due := strconv.FormatInt(now.Add(-tt.late).UnixMilli(), 10)
		var code topics.Code
		if refusal := r.judge(&again{record: &kgo.Record{Topic: "requests", Headers: []kgo.RecordHeader{{Key: topics.HeaderUntil, Value: []byte(due)}}}}); refusal != nil {
			code = refusal.Code
		}
		if code != tt.want {
			t.Errorf("%v late it is refused with %q, want %q", tt.late, code, tt.want)
		}
	}
}

// What is replayed is judged as a replica does that reads it where it goes to: a replacement by its handle belongs into that partition, and where the
// key is the id, what has no value is a cancel.
func TestReplayJudgesWhatItWrites(t *testing.T) {
	routes, err := topics.NewRoutes(topics.Route{Topic: "requests", Target: "orders", DeadLetter: "requests.dead"}, topics.Route{Topic: "keyed", Target: "orders", DeadLetter: "keyed.dead", Keyed: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &replay{letters: &letters{boxes: boxes{routes: map[string]*topics.Route{"requests": routes[0], "keyed": routes[1]}}}, now: time.Now}
	of := func(topic, key string, value []byte, headers ...kgo.RecordHeader) *kgo.Record {
		return &kgo.Record{Topic: topic, Partition: 2, Key: []byte(key), Value: value, Headers: headers}
	}
	replaces := []kgo.RecordHeader{{Key: topics.HeaderFor, Value: []byte("5m")}, {Key: topics.HeaderReplace, Value: []byte("2-7-1767225605123")}}
	for _, tt := range []struct {
		name   string
		record *kgo.Record
		want   topics.Code
	}{
		{"a replacement", of("requests", "", nil, replaces...), ""},
		{"one of another partition", of("requests", "", nil, replaces[0], kgo.RecordHeader{Key: topics.HeaderReplace, Value: []byte("0-7-1767225605123")}), topics.CodeWrongPartition},
		{"a cancel without a value", of("keyed", "reminder-17", nil), ""},
		{"a request without a due time", of("keyed", "reminder-17", []byte("x")), topics.CodeNoDue},
		{"a request without a key", of("keyed", "", []byte("x"), replaces[0]), topics.CodeInvalidID},
	} {
		var code topics.Code
		if refusal := r.judge(&again{record: tt.record}); refusal != nil {
			code = refusal.Code
		}
		if code != tt.want {
			t.Errorf("%s is refused with %q, want %q", tt.name, code, tt.want)
		}
	}
}
