package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestProduce(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 2})
	out, err := command(t, "", "produce", "-b", addr, "-t", "delays", "--to", "orders", "--for", "5m", "-k", "17", "-v", "hello",
		"-H", "a=b=c", "-H", "none", "--to-key", "18", "--to-partition", "3", "-p", "1")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^delays/1@0, due 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ \(in 5 m\) to orders, handle 1-0-\d{13}\n$`).MatchString(out) {
		t.Errorf("printed %q", out)
	}
	r := fetch(t, addr, "delays", 1)[0]
	want := map[string]string{
		"delay-for": "5m", "delay-target-topic": "orders", "delay-target-key": "18", "delay-target-partition": "3", "a": "b=c", "none": "",
	}
	if got := headers(r); !maps.Equal(got, want) || string(r.Key) != "17" || string(r.Value) != "hello" || r.Partition != 1 {
		t.Errorf("record %s=%s on %d with %v", r.Key, r.Value, r.Partition, got)
	}
	if h := r.Headers[5]; h.Key != "none" || h.Value != nil {
		t.Errorf("a header without a value is %q, want null", h.Value)
	}
}

// The delay topic of a configuration with one route need not be named.
func TestProduceToTheOnlyRoute(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	one := "kafka: {brokers: '" + addr + "'}\nroutes:\n  - {topic: delays, target: orders}\n"
	out, err := command(t, "", "produce", "-c", writeFile(t, "one.yaml", one), "--for", "5m", "-v", "x")
	if err != nil || !strings.HasPrefix(out, "delays/0@0, due ") {
		t.Errorf("printed %q, %v", out, err)
	}
	spread := writeFile(t, "spread.yaml", strings.Replace(one, "target: orders", "target: orders, jitter: 30d, max_delay: 36500d", 1))
	out, err = command(t, "", "produce", "-c", spread, "--until", "2100-01-01T00:00:00Z", "-v", "x")
	if err != nil || !strings.HasSuffix(out, ", handle 0-1-4102444800000\n") {
		t.Errorf("with a jitter: printed %q, %v", out, err)
	}
	two := writeFile(t, "two.yaml", one+"  - {topic: more, target: orders}\n")
	if out, err := command(t, "", "produce", "-c", two, "--for", "5m", "-v", "x"); err == nil || !strings.HasPrefix(err.Error(), "which delay topic? Choose one of delays, more with -t") {
		t.Errorf("printed %q, %v", out, err)
	}
}

// A script takes the handle from -o json. What is not known is left out.
func TestProduceAsJSON(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "fixed": 1, "retries": 1, "orders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\nroutes:\n  - {topic: delays, target: orders}\n  - {topic: fixed, delay: 5m, target: orders}\n  - {topic: retries, target: orders, retry: {max_attempts: 3}}\n")
	for _, test := range []struct{ topic, want string }{
		{"delays", `{"topic":"delays","partition":0,"offset":0,"due":4102444800000,"target":"orders","handle":"0-0-4102444800000"}`},
		{"fixed", `{"topic":"fixed","partition":0,"offset":0,"due":W,"target":"orders"}`},
		{"retries", `{"topic":"retries","partition":0,"offset":0,"target":"orders"}`},
	} {
		args := []string{"produce", "-c", config, "-t", test.topic, "-v", "x", "--no-check", "-o", "json"}
		if test.topic != "fixed" {
			args = append(args, "--until", "2100-01-01")
		}
		out, err := command(t, "", args...)
		if test.topic == "fixed" {
			out = regexp.MustCompile(`"due":\d+`).ReplaceAllString(out, `"due":W`)
		}
		if err != nil || out != test.want+"\n" {
			t.Errorf("%s: printed %q, %v", test.topic, out, err)
		}
	}
	out, err := command(t, "", "produce", "-b", addr, "-t", "delays", "--for", "nine days", "-v", "x", "--no-check", "-o", "json")
	if err != nil || !strings.HasPrefix(out, `{"topic":"delays","partition":0,"offset":1,"dead_lettered":"unparsable_due: `) {
		t.Errorf("printed %q, %v", out, err)
	}
}

func TestProduceLinesAndNulls(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1})
	out, err := command(t, "one\ntwo\n\n", "produce", "-b", addr, "-t", "delays", "--to", "orders", "--until", "2100-01-01T00:00:00Z")
	want := "delays/0@0, due 2100-01-01T00:00:00.000Z (in W) to orders, handle 0-0-4102444800000\n" +
		"delays/0@1, due 2100-01-01T00:00:00.000Z (in W) to orders, handle 0-1-4102444800000\n" +
		"delays/0@2, due 2100-01-01T00:00:00.000Z (in W) to orders, handle 0-2-4102444800000\n"
	if got := regexp.MustCompile(`\(in [^)]*\)`).ReplaceAllString(out, "(in W)"); err != nil || got != want {
		t.Fatalf("printed %q, %v", out, err)
	}
	if _, err := command(t, "", "produce", "-b", addr, "-t", "delays", "--to", "orders", "--to-partition", "0", "--for", "1s", "--null-value"); err != nil {
		t.Fatal(err)
	}
	records := fetch(t, addr, "delays", 4)
	for i, want := range []string{"one", "two", ""} {
		if r := records[i]; string(r.Value) != want || r.Value == nil || r.Key != nil {
			t.Errorf("record %d is %q=%q", i, r.Key, r.Value)
		}
	}
	if got := headers(records[3])["delay-target-partition"]; got != "0" {
		t.Errorf("--to-partition 0 wrote %q", got)
	}
	if records[3].Value != nil {
		t.Errorf("--null-value wrote %q", records[3].Value)
	}
}

// How large a record may be is for its topic to say: the client's own limit is lower than Kafka's.
func TestProduceTellsAPersonHowToEnd(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1})
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = master.Close(), tty.Close() })
	if _, err := master.Write([]byte{4}); err != nil { // Ctrl-D
		t.Fatal(err)
	}
	none, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	for in, want := range map[*os.File]string{tty: "each line is the value of a record; Ctrl-D ends\n0 records written to delays\n", none: "0 records written to delays\n"} {
		var notes bytes.Buffer
		if err := run(t.Context(), []string{"produce", "-b", addr, "-t", "delays", "--to", "orders", "--for", "5m", "--no-check"}, in, io.Discard, &notes); err != nil || notes.String() != want {
			t.Errorf("%s: %v %q", in.Name(), err, notes.String())
		}
	}
}

func TestProduceLargeRecord(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1})
	value := incompressible(1_040_000)
	if _, err := command(t, string(value), "produce", "-b", addr, "-t", "delays", "--to", "orders", "--for", "1s"); err != nil {
		t.Fatal(err)
	}
	if got := fetch(t, addr, "delays", 1)[0].Value; len(got) != len(value) {
		t.Errorf("%d bytes arrived", len(got))
	}
}

// Lines that the topic takes one by one are not put into a batch that it does not take.
func TestProduceManyLines(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1})
	if err := c.CreateTopic("small", 1, map[string]string{"max.message.bytes": "4096"}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		topic   string
		n, size int
	}{{"delays", 40, 60_000}, {"small", 40, 1500}} {
		var lines strings.Builder
		for range tt.n {
			fmt.Fprintf(&lines, "%s\n", incompressible(tt.size))
		}
		if _, err := command(t, lines.String(), "produce", "-b", addr, "-t", tt.topic, "--to", "orders", "--for", "1s"); err != nil {
			t.Error(err)
			continue
		}
		values := strings.Split(lines.String(), "\n")
		for i, r := range fetch(t, addr, tt.topic, tt.n) {
			if string(r.Value) != values[i] {
				t.Fatalf("%s: line %d is not where it belongs", tt.topic, i)
			}
		}
	}
}

// incompressible is a line of so many letters.
func incompressible(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(rand.IntN(26))
	}
	return b
}

// What would be dead-lettered is refused before it is sent, and --no-check sends it.
func TestProduceChecks(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "fixed": 1, "orders": 2})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n"+
		"  - {topic: delays, targets: {allow: [orders, nowhere]}, max_delay: 1d}\n  - {topic: fixed, target: orders, delay: 5m}\n"+
		"  - {topic: gone, target: nowhere}\n")
	noRoutes := writeFile(t, "none.yaml", "kafka: {brokers: '"+addr+"'}\n")
	contradicting := writeFile(t, "loop.yaml", "kafka: {brokers: '"+addr+"'}\nroutes: [{topic: delays, target: orders, dead_letter: orders}]\n")
	for _, test := range []struct {
		name, want string
		args       []string
	}{
		{"no due time", "no_due: neither delay-until nor delay-for is set: give --for or --until, or with -c the route, if that has a delay", []string{"-b", addr, "-t", "delays", "--to", "orders"}},
		{"no due time on a route without a delay", "no_due: neither delay-until nor delay-for is set: give --for or --until\n", []string{"-c", config, "-t", "delays", "--to", "orders"}},
		{"an id that is none", `--id "null": that is as good as absent`, []string{"-b", addr, "-t", "delays", "--to", "orders", "--for", "1s", "--id", "null"}},
		{"nothing to replace", `--replace "null": that is as good as absent`, []string{"-b", addr, "-t", "delays", "--to", "orders", "--for", "1s", "--replace", "null"}},
		{"a slip in a header's name", "unsupported_header", []string{"-b", addr, "-t", "delays", "--for", "5m", "-H", "delay-untill=1"}},
		{"a target that is not allowed", "target_not_allowed", []string{"-c", config, "-t", "delays", "--for", "5m", "--to", "payroll"}},
		{"too far ahead", "too_far_ahead", []string{"-c", config, "-t", "delays", "--for", "2d", "--to", "orders"}},
		{"a delay of its own on a fixed route", "unsupported_header", []string{"-c", config, "-t", "fixed", "--for", "2d"}},
		{"of no use any more", "expired: header delay-expires: it expired at 2021-01-01T00:00:00.000Z",
			[]string{"-c", config, "-t", "delays", "--until", "2020-01-01", "--to", "orders", "-H", "delay-expires=2021-01-01"}},
		{"no target", "no_target", []string{"-c", config, "-t", "delays", "--for", "5m"}},
		{"a target that is not there", "the target nowhere does not exist: records for it are dead-lettered (--no-check writes it all the same)",
			[]string{"-c", config, "-t", "delays", "--for", "5m", "--to", "nowhere"}},
		{"a fixed target that is not there", "the target nowhere does not exist", []string{"-c", config, "-t", "gone", "--for", "5m"}},
		{"a partition that the target does not have", "the target orders has no partition 2, only 0 to 1",
			[]string{"-c", config, "-t", "delays", "--for", "5m", "--to", "orders", "--to-partition", "2"}},
		{"a partition that the delay topic does not have", "delays has no partition 7, only 0 to 0", []string{"-b", addr, "-t", "delays", "--for", "5m", "--to", "orders", "-p", "7"}},
		{"the partition behind the last one", "delays has no partition 1, only 0 to 0", []string{"-b", addr, "-t", "delays", "--for", "5m", "--to", "orders", "-p", "1"}},
		{"a topic without a route", "orders is not the delay topic of any route of the configuration; those are delays, fixed, gone",
			[]string{"-c", config, "-t", "orders", "--for", "5m", "--to", "orders"}},
		{"a configuration without routes", "no routes: name a configuration that has some with -c", []string{"-c", noRoutes, "-t", "delays", "--for", "5m"}},
		{"a configuration that contradicts itself", "the dead letter topic of route", []string{"-c", contradicting, "-t", "delays", "--for", "5m"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := command(t, "", append([]string{"produce", "-v", "x"}, test.args...)...)
			if err == nil || !strings.Contains(err.Error()+"\n", test.want) || out != "" {
				t.Errorf("got %v, want %s; printed %q", err, test.want, out)
			}
		})
	}
	adm := kadm.NewClient(client(t, addr))
	ends, err := adm.ListEndOffsets(t.Context(), "delays", "fixed")
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset != 0 {
			t.Errorf("%d records were written to %s", o.Offset, o.Topic)
		}
	})
	out, err := command(t, "", "produce", "-c", config, "-t", "fixed", "-v", "x")
	if err != nil || !strings.Contains(out, "to orders") {
		t.Errorf("a fixed route needs no header: %q, %v", out, err)
	}
	for _, args := range [][]string{{"-b", addr}, {"-c", config}, {"-c", noRoutes}} {
		out, err := command(t, "", append(args, "produce", "-t", "delays", "-v", "x", "--no-check")...)
		if err != nil || !regexp.MustCompile(`^delays/0@\d, which will be dead-lettered: no_due: `).MatchString(out) {
			t.Errorf("--no-check with %v: %q, %v", args, out, err)
		}
	}
}

// Without the route nothing can be said of its target, and that is said. With it there is nothing to say.
func TestProduceSaysWhatItCannotKnow(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes: [{topic: delays, target: orders}]\n")
	for _, test := range []struct {
		name       string
		args       []string
		out, notes string
	}{
		{"no target", []string{"-b", addr}, " to the target of its route",
			"note: no configuration (-c) has the route of delays: where the records go is not known here; without a target of its own the route dead-letters them\n"},
		{"a target", []string{"-b", addr, "--to", "orders"}, " to orders",
			"note: no configuration (-c) has the route of delays: whether it allows the target orders was not checked\n"},
		{"a target that is not there", []string{"-b", addr, "--to", "nowhere"}, " to nowhere",
			"note: no configuration (-c) has the route of delays: whether it allows the target nowhere was not checked\n" +
				"note: the target nowhere does not exist: records for it are dead-lettered\n"},
		{"with the route", []string{"-c", config}, " to orders", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, notes strings.Builder
			err := run(t.Context(), append([]string{"produce", "-t", "delays", "--for", "5m", "-v", "x"}, test.args...), strings.NewReader(""), &out, &notes)
			if err != nil || !strings.Contains(out.String(), test.out+", handle ") || notes.String() != test.notes {
				t.Errorf("got %v\n%s\n%s", err, out.String(), notes.String())
			}
		})
	}
}

// What was refused is not counted, and what was written before it is confirmed.
func TestProduceCountsWhatWasWritten(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1})
	var taken atomic.Int32
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if taken.Add(1) == 1 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		resp.Topics = []kmsg.ProduceResponseTopic{{Topic: "delays", TopicID: req.(*kmsg.ProduceRequest).Topics[0].TopicID,
			Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: kerr.PolicyViolation.Code, BaseOffset: -1}}}}
		return resp, nil, true
	})
	lines, typing := io.Pipe()
	first := make(chan struct{})
	go func() {
		fmt.Fprintln(typing, "one")
		<-first
		fmt.Fprintln(typing, "two")
		<-t.Context().Done() // no further line, and no end: the command must not wait for either
		typing.Close()
	}()
	var out, notes strings.Builder
	confirmed := writerFunc(func(b []byte) (int, error) {
		defer close(first) // a second confirmation would panic
		return out.Write(b)
	})
	err := run(t.Context(), []string{"produce", "-b", addr, "-t", "delays", "--for", "5m", "--to", "orders"}, lines, confirmed, &notes)
	if err == nil || !strings.Contains(err.Error(), "POLICY_VIOLATION") {
		t.Errorf("got %v", err)
	}
	if !strings.HasPrefix(out.String(), "delays/0@0, due ") || !strings.HasSuffix(notes.String(), "1 record written to delays\n") {
		t.Errorf("printed %q and %q", out.String(), notes.String())
	}
}

// Ctrl-C ends a command that waits for a line.
func TestProduceIsInterrupted(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	ctx, interrupt := context.WithCancel(t.Context())
	lines, typing := io.Pipe()
	defer typing.Close()
	go fmt.Fprintln(typing, "one")
	confirmed := writerFunc(func(b []byte) (int, error) { interrupt(); return len(b), nil })
	if err := run(ctx, []string{"produce", "-b", addr, "-t", "delays", "--for", "5m", "--to", "orders"}, lines, confirmed, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestProduceToNowhere(t *testing.T) {
	_, addr := cluster(t, nil)
	_, err := command(t, "", "produce", "-b", addr, "-t", "delays", "--for", "1s", "--to", "orders", "-v", "x")
	want := "produce to delays: UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition.; `duewheel topics create` makes the topics of a configuration"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A broker that was sent a record, said nothing and went away keeps nobody waiting for ever.
func TestAnsweredWithin(t *testing.T) {
	t.Parallel()
	c, addr := cluster(t, map[string]int32{"delays": 1})
	sent := make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(sent)
		return nil, errors.New("the connection ends"), true
	})
	cl, err := kgo.NewClient(append(answeredWithin(time.Second), kgo.SeedBrokers(addr))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	answered := make(chan error, 1)
	cl.Produce(t.Context(), &kgo.Record{Topic: "delays", Value: []byte("x")}, func(_ *kgo.Record, err error) { answered <- err })
	<-sent
	c.Close()
	select {
	case err = <-answered:
	case <-time.After(20 * time.Second):
		t.Fatal("it is not answered")
	}
	if err == nil {
		t.Fatal("it was written")
	}
	if err := (&order{topic: "delays"}).explain(err); !strings.Contains(err.Error(), "may be there or not") {
		t.Errorf("it is explained as %v", err)
	}
}
