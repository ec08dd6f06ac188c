package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/verify"
)

// verified runs the command and returns its report.
func verified(t *testing.T, args ...string) (r verify.Report, err error) {
	t.Helper()
	out, notes, err := both(t, append([]string{"verify", "-o", "json"}, args...)...)
	if bad := json.Unmarshal([]byte(out), &r); bad != nil {
		t.Fatalf("printed %q (%v), %v, %v", out, notes, err, bad)
	}
	return r, err
}

const verifyRoutes = `routes:
  - {topic: delays, targets: {allow: [orders, "bill*"]}, jitter: 200ms, on_unknown_cancel: dead_letter, headers: {emit: all}, ids: {remember: 2s}}
  - {topic: keyed, target: orders, mode: keyed, timestamp: original}
  - {topic: once, target: orders, ids: {on_duplicate: ignore, remember: 2s}, timestamp: due}
  - {topic: later, target: billing, delay: 700ms, dead_letter: delays.dead}
  - {topic: retries, retry: {target: from_headers, max_attempts: 2, parking: parked, backoff: {initial: 300ms}}, targets: {allow: [orders]}}
`

// traffic writes requests of all kinds.
func traffic(t *testing.T, addr string, n int) {
	t.Helper()
	cl := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	random := rand.New(rand.NewPCG(1, 2))
	var handles []string
	for i := range n {
		now := time.Now()
		r := &kgo.Record{Topic: "delays", Partition: int32(random.IntN(3)), Key: fmt.Appendf(nil, "k%d", i%17), Value: fmt.Append(nil, i)}
		set := func(name, value string) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		set("trace", fmt.Sprint(i))
		due := now.Add(time.Duration(random.IntN(3000)) * time.Millisecond).UnixMilli()
		named := false
		switch what := random.IntN(14); {
		case what == 0:
			r.Topic, r.Partition = "later", 0
		case what == 1:
			r.Topic, r.Partition = "retries", int32(random.IntN(2))
			set("delay-target-topic", "orders")
			set("delay-attempt", fmt.Sprint(random.IntN(4)))
		case what == 2:
			r.Topic, r.Partition = "keyed", 0
			set("delay-until", fmt.Sprint(due))
		case what == 3:
			r.Topic, r.Partition, r.Value = "keyed", 0, nil
		case what == 4:
			set("delay-for", "1.5s")
			set("delay-target-topic", []string{"nowhere", "secrets", "billing"}[random.IntN(3)])
		case what == 5:
			set("delay-soon", "1")
		case what == 6 && len(handles) > 0:
			set("delay-cancel", handles[random.IntN(len(handles))])
		case what == 7:
			set("delay-id", fmt.Sprint("id", random.IntN(20)))
			set("delay-until", fmt.Sprint(due))
			set("delay-target-topic", "orders")
		case what == 8:
			set("delay-cancel", fmt.Sprint("id", random.IntN(20)))
		case what == 11:
			r.Topic, r.Partition = "once", 0
			set("delay-id", fmt.Sprint("once", random.IntN(20)))
			set("delay-until", fmt.Sprint(due-2000))
		case what == 9:
			set("delay-until", time.UnixMilli(due).UTC().Format(time.RFC3339Nano))
			set("delay-expires", fmt.Sprint(due+1))
			set("delay-target-topic", "billing")
		default:
			named = true
			set("delay-until", fmt.Sprint(due))
			set("delay-target-topic", "orders")
			if what == 10 && len(handles) > 0 {
				h := handles[random.IntN(len(handles))]
				fmt.Sscanf(h, "%d-", &r.Partition)
				set("delay-replace", h)
			}
		}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if named {
			handles = append(handles, fmt.Sprintf("%d-%d-%d", r.Partition, r.Offset, due))
		}
	}
}

// Nothing is wrong with what processors do, with several groups and routes, while they do it and afterwards, and when the older part of topics
// is gone.
func TestVerifyWell(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 3, "keyed": 1, "later": 1, "once": 1, "once.dead": 1, "retries": 2, "others": 1, "orders": 3, "billing": 2,
		"delays.dead": 1, "keyed.dead": 1, "retries.dead": 1, "others.dead": 1, "parked": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nunknown_target_after: 300ms\n"+verifyRoutes)
	other := writeFile(t, "other.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: h}\nroutes:\n  - {topic: others, target: orders, delay: 1s}\n")
	for _, file := range []string{config, other} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- run(ctx, []string{"run", "-c", file, "-X", "state.dir=" + t.TempDir(), "-X", "admin.listen=off"}, strings.NewReader(""), io.Discard, io.Discard)
		}()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	const n = 1500
	for range 50 {
		bare := &kgo.Record{Topic: "others", Value: []byte("x")}
		if err := client(t, addr).ProduceSync(t.Context(), bare).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	written := make(chan struct{})
	go func() { defer close(written); traffic(t, addr, n) }()
	var r verify.Report
	for end := time.Now().Add(patience); ; {
		var err error
		if r, err = verified(t, "-c", config, "--grace", "5s"); err != nil {
			faults, _ := json.MarshalIndent(r.Faults, "", "  ")
			t.Fatalf("%v\n%s", err, faults)
		}
		select {
		case <-written:
			if c := r.Counts; c.Pending == 0 && c.Requested > n/2 {
				goto settled
			}
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("still pending: %+v", r.Counts)
		}
	}
settled:
	c := r.Counts
	if c.Untimed == 0 || c.Untimed > n/4 {
		t.Errorf("%d do not say when they were delivered", c.Untimed)
	}
	if c.Delivered < n/4 || c.DeadLettered < n/20 || c.Taken < n/100 || c.Untold > 0 || c.Foreign != 50 || r.Lateness.Records < n/5 {
		t.Errorf("%+v", c)
	}
	if _, err := verified(t, "-c", other); err != nil {
		t.Error(err)
	}
	out, _, err := both(t, "verify", "-c", config)
	if err != nil || !strings.HasSuffix(out, "\nall is well\n") {
		t.Errorf("%v:\n%s", err, out)
	}
	adm := kadm.NewClient(client(t, addr))
	var cut kadm.Offsets
	for _, topic := range []string{"delays", "orders", "delays.dead"} {
		ends, err := adm.ListEndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		cut.Add(kadm.Offset{Topic: topic, At: ends[topic][0].Offset / 2})
	}
	if _, err := adm.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	if r, err = verified(t, "-c", config); err != nil || r.Counts.Elsewhere == 0 {
		t.Errorf("%v: %+v", err, r)
	}
}

// spoiled is a cluster on which one request was delivered, one was lost and one comes twice.
func spoiled(t *testing.T) (addr, config string) {
	t.Helper()
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1, "delays.dead": 1})
	config = writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, target: orders}\n")
	cl := client(t, addr)
	for i := range 3 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "delays", Value: fmt.Append(nil, i), Timestamp: noon,
			Headers: []kgo.RecordHeader{{Key: "delay-until", Value: fmt.Append(nil, noon.UnixMilli()+int64(i))}}}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{0, 2, 2} {
		if err := cl.ProduceSync(t.Context(), arrived(i)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, addr, "delays", 0, 3, metadataOf(t, c, "delays", 3))
	return addr, config
}

func arrived(i int) *kgo.Record {
	due := noon.UnixMilli() + int64(i)
	return &kgo.Record{Topic: "orders", Value: fmt.Append(nil, i), Timestamp: time.UnixMilli(due + 4),
		Headers: []kgo.RecordHeader{{Key: "delay-due", Value: fmt.Append(nil, due)}, {Key: "delay-source", Value: fmt.Appendf(nil, "delays/0/%d", i)}}}
}

const spoiledReport = `delay delays: from 2026-11-20T12:00:00.000Z on
dead letter delays.dead: whole
target orders: whole
3 requested
  3 delivered
  0 dead-lettered
  0 cancelled, replaced or left out
  0 pending
  0 overdue
  1 missing
  0 of which it cannot be told
  1 arrived again
late: p50 4.0 ms, p99 4.0 ms, max 4.0 ms
note: the routes are taken as they are configured now: where delay, jitter, expire_after, timestamp, ids, partitioner, retry, retry_backoff_max or dead_letter were others, what was right may be a fault here (--from)
MISSING: 1
  delays/0@1: due 1795176000001 (2026-11-20T12:00:00.001Z), should be delivered to orders
DOUBLED: 1
  delays/0@2: seen 2 times, first at orders/0@1, now at orders/0@2 (orders/0@2, written 2026-11-20T12:00:00.006Z)
faults: 2
`

// The exit code is 1 when faults were found, and 2 where it cannot be told.
func TestVerifyExitCodes(t *testing.T) {
	addr, config := spoiled(t)
	out, _, err := both(t, "verify", "-c", config)
	if exitCode(err) != 1 || out != spoiledReport {
		t.Errorf("exit code %d (%v):\n%s", exitCode(err), err, out)
	}
	r, err := verified(t, "-c", config, "--show", "1")
	if exitCode(err) != 1 || r.Counts.Missing != 1 || len(r.Faults) != 2 || r.Faults[1].First[0].At != "orders/0@2" || r.Lateness.Max < 3.99 || r.Lateness.Max > 4.01 {
		t.Errorf("exit code %d: %+v", exitCode(err), r)
	}
	if out, _, err = both(t, "verify", "-c", config, "--from", "2026-11-20T13:00:00Z"); exitCode(err) != 0 || !strings.HasSuffix(out, "all is well: the window is empty, nothing was requested in it\n") {
		t.Errorf("of later: exit code %d (%v):\n%s", exitCode(err), err, out)
	}
	elsewhere := writeFile(t, "elsewhere.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: nothing, target: orders}\n")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-c", elsewhere}, "the delay topic nothing does not exist"},
		{[]string{"-c", config, "here"}, "verify takes no arguments"},
		{[]string{"-c", config, "--nothing"}, "unknown flag: --nothing"},
		{[]string{"-c", config, "--from", "soon"}, `--from "soon": a time such as`},
		{[]string{"-c", config, "--from", "1h", "--to", "2h"}, "nothing lies between them"},
		{[]string{"-c", config, "--watch", "--to", "1h"}, "--to and --watch"},
		{[]string{"-c", config, "--memory", "1KiB"}, "--memory 1KiB: a size of at least 16MiB"},
		{[]string{"-c", config, "--show", "0"}, "--show 0: at least 1"},
		{[]string{"-c", config, "--grace", "2d", "--from", "2030-01-01T00:00Z", "--to", "2029-12-31"}, "--from 2030-01-01T00:00Z is not before --to 2029-12-31"},
		{[]string{"-c", config, "--from", "2090-01-01T00:00Z"}, "--from 2090-01-01T00:00Z lies in the future, in "},
		{[]string{"-c", config, "--watch", "--from", "2090-01-01T00:00Z"}, ": the window is empty"},
		{[]string{"-c", config, "--grace", "1ms"}, "--grace 1ms: at least 1s"},
		{[]string{"-c", config, "--every", "20s"}, "--every is for --watch"},
		{[]string{"-c", config, "--watch", "--listen", ""}, "--listen is empty"},
		{[]string{"-c", config, "--watch", "--listen", ":x"}, "--listen: "},
		{[]string{"-c", config, "--memory", "999999999999TiB"}, "--memory 999999999999TiB: a size of at least 16MiB"},
		{[]string{"-c", config, "--show", "99999999999999999999"}, `--show "99999999999999999999": a whole number`},
		{[]string{"-c", config, "--late", "-1s"}, `--late "-1s": "-1s" is negative`},
		{[]string{"-c", config, "--late", "0"}, "--late 0s: at least 1ms"},
		{[]string{"-c", config, "--cancels-within", "0s"}, "--cancels-within 0s: at least 1ms"},
		{[]string{"-c", config, "--route", ""}, "--route is empty"},
		{[]string{"-c", config, "--route", "other"}, "--route other is not the delay topic"},
		{[]string{"-c", config, "-o", "xml"}, "-o xml: text or json"},
		{[]string{"-b", addr, "-g", "g"}, "no routes"},
		{[]string{"-b", addr}, "group.id is missing"},
	} {
		out, _, err := both(t, append([]string{"verify"}, test.args...)...)
		if exitCode(err) != 2 || !strings.Contains(fmt.Sprint(err), test.want) || out != "" {
			t.Errorf("%v: exit code %d, printed %q, %v; want %q", test.args, exitCode(err), out, err, test.want)
		}
	}
	// Of a file that cannot be read it is not said what is missing in it.
	if _, _, err := both(t, "verify", "-c", "nothing.yaml"); exitCode(err) != 2 || err.Error() != "read configuration: open nothing.yaml: no such file or directory" {
		t.Errorf("exit code %d, %v", exitCode(err), err)
	}
}

// Rights that are missing are no faults, and what may be looked at is told, also of a target that may be described and not be read.
func TestVerifyWithoutRights(t *testing.T) {
	for _, forbidden := range []string{"delays", "orders"} {
		t.Run(forbidden, func(t *testing.T) {
			c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1, "delays.dead": 1})
			config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, target: orders}\n")
			for _, topic := range []string{"delays", "orders"} {
				if err := client(t, addr).ProduceSync(t.Context(), &kgo.Record{Topic: topic}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				r := req.(*kmsg.FetchRequest)
				resp := r.ResponseKind().(*kmsg.FetchResponse)
				for _, asked := range r.Topics {
					topic := kmsg.NewFetchResponseTopic()
					topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
					info := c.TopicInfo(forbidden)
					if asked.Topic != forbidden && (info == nil || asked.TopicID != info.TopicID) {
						continue
					}
					p := kmsg.NewFetchResponseTopicPartition()
					p.ErrorCode = kerr.TopicAuthorizationFailed.Code
					topic.Partitions = append(topic.Partitions, p)
					resp.Topics = append(resp.Topics, topic)
				}
				return resp, nil, len(resp.Topics) > 0
			})
			out, _, err := both(t, "verify", "-c", config)
			if exitCode(err) != 2 || !errors.Is(err, kerr.TopicAuthorizationFailed) {
				t.Errorf("exit code %d: %v", exitCode(err), err)
			}
			if told := strings.Contains(out, "1 requested") && strings.Contains(out, "orders may not be looked at") && !strings.Contains(out, "target orders"); told != (forbidden == "orders") {
				t.Errorf("printed:\n%s", out)
			}
		})
	}
}

// It goes on, tells what is new, and has metrics; when it is stopped it prints all.
func TestVerifyWatch(t *testing.T) {
	addr, config := spoiled(t)
	ctx, cancel := context.WithCancel(t.Context())
	var out, notes heard
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"verify", "-c", config, "--watch", "--every", "1s", "--listen", "127.0.0.1:0"}, strings.NewReader(""), &out, &notes)
	}()
	t.Cleanup(cancel)
	at := notes.await(t, `metrics are at (http://\S+)`)
	out.await(t, `(?m)^\S+ MISSING: 1, and there were 0: delays/0@1: due`)
	if err := client(t, addr).ProduceSync(t.Context(), arrived(2)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	out.await(t, `(?m)^\S+ DOUBLED: 2, and there were 1: delays/0@2: seen 3 times`)
	resp, err := http.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`duewheel_verify_faults{kind="doubled"} 2`, `duewheel_verify_faults{kind="missing"} 1`, `duewheel_verify_faults{kind="altered"} 0`,
		`duewheel_verify_requests{outcome="delivered"} 4`, `duewheel_verify_lateness_seconds_count{target="orders"} 2`, `duewheel_verify_passes_total{outcome="failed"} 0`,
	} {
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("metrics do not have %s", line)
		}
	}
	if t.Failed() {
		t.Log(string(page))
	}
	cancel()
	if err := <-ended; exitCode(err) != 1 || !strings.HasSuffix(out.String(), "faults: 3\n") {
		t.Errorf("exit code %d:\n%s", exitCode(err), out.String())
	}
}

// What a delay topic holds that was made anew cannot be told from what is known of the former one, however often it is looked at: it ends.
func TestVerifyWatchEndsWithItsTopic(t *testing.T) {
	addr, config := spoiled(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out heard
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"verify", "-c", config, "--watch", "--every", "1s", "--listen", "off"}, strings.NewReader(""), &out, io.Discard)
	}()
	out.await(t, `MISSING: 1`)
	adm := kadm.NewClient(client(t, addr))
	if _, err := adm.DeleteTopic(t.Context(), "delays"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "delays"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; exitCode(err) != 2 || !strings.Contains(err.Error(), "made anew: start again, delays is another one now") {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
}

// The table of docs/operations.md has each metric, and no other.
func TestVerifyMetricsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "\n## Is all well?\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for _, found := range regexp.MustCompile("(?m)^\\| `(duewheel_verify_[a-z_]+)").FindAllStringSubmatch(section, -1) {
		documented = append(documented, found[1])
	}
	var is []string
	descs := make(chan *prometheus.Desc, 100)
	new(verify.Metrics).Describe(descs)
	close(descs)
	for d := range descs {
		is = append(is, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1])
	}
	slices.Sort(documented)
	slices.Sort(is)
	if !slices.Equal(documented, is) {
		t.Errorf("documented are %v, and there are %v", documented, is)
	}
	for _, kind := range verify.Kinds() {
		if !strings.Contains(section, "| "+kind+" |") {
			t.Errorf("the kind %q is not documented", kind)
		}
	}
}

// Routes with another prefix, and with headers of other tools, are judged like any other.
func TestVerifyOtherHeaders(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"prefixed": 2, "prefixed.dead": 1, "spring": 1, "spring.dead": 1, "orders": 2})
	config := writeFile(t, "duewheel.yaml", `routes:
  - {topic: prefixed, targets: {allow: [orders]}, headers: {prefix: x-wheel-}}
  - {topic: spring, targets: {allow: [orders]}, headers: {aliases: [spring-retry, connect-dlq]}}
`)
	at := strconv.FormatInt(time.Now().Add(time.Second).UnixMilli(), 10)
	var all []*kgo.Record
	write := func(topic string, headers ...string) {
		r := &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(strconv.Itoa(len(all)))}
		for i := 0; i < len(headers); i += 2 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
		}
		all = append(all, r)
	}
	write("prefixed", "x-wheel-until", at, "x-wheel-target-topic", "orders", "delay-until", "of users", "trace", "1")
	write("prefixed", "x-wheel-until", at, "x-wheel-target-topic", `"orders"`, "x-wheel-id", "a")
	write("prefixed", "x-wheel-until", at) // no target
	write("spring", "retry_topic-backoff-timestamp", at, "kafka_original-topic", "orders", "deliver-at", "of users")
	write("spring", "delay-until", at, "__connect.errors.topic", "orders")
	write("spring", "deliver-at", at) // is not listed
	if err := client(t, addr).ProduceSync(t.Context(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"run", "-b", addr, "-g", "g", "-c", config, "-X", "state.dir=" + t.TempDir(), "-X", "admin.listen=off"}, nil, io.Discard, io.Discard)
	}()
	fetch(t, addr, "orders", 4)
	fetch(t, addr, "prefixed.dead", 1)
	fetch(t, addr, "spring.dead", 1)
	cancel()
	<-ended
	r, err := verified(t, "-b", addr, "-g", "g", "-c", config, "--grace", "1s")
	if err != nil || r.Counts.Requested != 6 || r.Counts.Delivered != 4 || r.Counts.DeadLettered != 2 || r.Counts.Foreign != 0 || r.Counts.Faults != 0 {
		t.Errorf("%v: %+v %+v", err, r.Counts, r.Faults)
	}
	again := fetch(t, addr, "orders", 4)[0] // what was delivered once more is one too many
	if err := client(t, addr).ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Key: again.Key, Value: again.Value, Headers: again.Headers}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if r, err = verified(t, "-b", addr, "-g", "g", "-c", config, "--grace", "1s"); exitCode(err) != 1 || r.Counts.Doubled != 1 {
		t.Errorf("%v: %+v", err, r.Counts)
	}
}
