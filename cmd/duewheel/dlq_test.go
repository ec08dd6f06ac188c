package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/topics"
)

// dead is a dead letter to be written for a test.
type dead struct {
	in        string // dead letter topic
	partition int32  // there
	at        time.Time
	code      topics.Code
	of        string // delay topic
	from      int32  // its partition
	key       []byte
	value     []byte
	headers   []string // name=value
	cut       bool
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func (d dead) record() *kgo.Record {
	r := &kgo.Record{Topic: d.in, Partition: d.partition, Timestamp: d.at, Key: d.key, Value: d.value}
	var in []kgo.RecordHeader
	for _, h := range d.headers {
		name, value, _ := strings.Cut(h, "=")
		in = append(in, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	r.Headers, _ = topics.AppendDeadLetter(nil, in, topics.DeadLetter{Topic: d.of, Partition: d.from, Offset: 7, Timestamp: noon.UnixMilli(), Instance: "host-1",
		Refusal: &topics.Refusal{Code: d.code, Stage: topics.StageProduce, Message: "why it is " + string(d.code)}}, nil)
	if d.cut {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderErrorCut, Value: []byte("key=0 value=9000 headers=1 size=9100")})
	}
	return r
}

// bury writes dead letters, one after the other.
func bury(t *testing.T, addr string, all ...dead) {
	t.Helper()
	cl := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for _, d := range all {
		if d.in == "" {
			d.in = "delays.dead"
		}
		if d.of == "" {
			d.of = "delays"
		}
		if d.at.IsZero() {
			d.at = noon
		}
		if err := cl.ProduceSync(t.Context(), d.record()).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// both runs a command and returns what it has written to its two outputs.
func both(t *testing.T, args ...string) (out, notes string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	err = run(ctx, args, strings.NewReader(""), &stdout, &stderr)
	return stdout.String(), stderr.String(), err
}

func lengthOf(t *testing.T, addr, topic string) (n int64) {
	t.Helper()
	ends, err := kadm.NewClient(client(t, addr)).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

const dlqRoutes = "routes:\n  - {topic: delays, targets: {allow: [orders, billing]}}\n" +
	"  - {topic: retries, retry: {target: from_headers, parking: parked}, targets: {allow: [orders]}}\n"

// graveyard is a cluster with two dead letter topics, a parking topic, and dead letters in all of them.
func graveyard(t *testing.T) (c *kfake.Cluster, addr, config string) {
	t.Helper()
	c, addr = cluster(t, map[string]int32{"delays": 3, "retries": 1, "delays.dead": 2, "parked": 1, "orders": 1})
	config = writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\n"+dlqRoutes)
	bury(t, addr,
		dead{code: topics.CodeUnknownTarget, from: 2, key: []byte("k0"), value: []byte(`{"n":0}`), headers: []string{"delay-for=5m", "delay-target-topic=billing", "trace=abc"}},
		dead{code: topics.CodeNoDue, at: noon.Add(time.Hour), key: []byte{0, 0xff}, value: []byte{1, 2, 0xfe}, headers: []string{"delay-target-topic=orders", "trace=def"}},
		dead{code: topics.CodeUnknownTarget, partition: 1, at: noon.Add(2 * time.Hour), headers: []string{"delay-for=1s", "delay-target-topic=billing"}},
		dead{in: "parked", of: "retries", code: topics.CodeExhausted, at: noon.Add(3 * time.Hour), value: []byte("again"),
			headers: []string{"kafka_dlt-original-topic=orders", "delay-attempt=8", "delay-due=1"}},
	)
	return c, addr, config
}

// places are the first words of lines that begin with a place.
func places(out string) (all []string) {
	for line := range strings.Lines(out) {
		if word, _, _ := strings.Cut(line, " "); strings.Contains(word, "@") {
			all = append(all, strings.TrimSuffix(word, ":"))
		}
	}
	return all
}

func TestDLQList(t *testing.T) {
	_, addr, config := graveyard(t)
	all := "delays.dead/0@0 delays.dead/0@1 delays.dead/1@0 parked/0@0"
	for _, test := range []struct {
		name, want string
		args       []string
	}{
		{"all", all, nil},
		{"a code", "delays.dead/0@0 delays.dead/1@0", []string{"--code", "unknown_target"}},
		{"two codes", "delays.dead/0@1 parked/0@0", []string{"--code", "no_due,attempts_exhausted"}},
		{"a header", "delays.dead/0@0", []string{"-H", "trace=abc"}},
		{"a header's name", "delays.dead/0@0 delays.dead/0@1", []string{"--header", "trace"}},
		{"two headers", "delays.dead/0@1", []string{"-H", "trace", "-H", "delay-target-topic=orders"}},
		{"a header of ours", all, []string{"-H", "__delay.errors.instance=host-1"}},
		{"a header that none has", "", []string{"-H", "trace="}},
		{"from a time", "delays.dead/1@0 parked/0@0", []string{"--since", "2026-11-20T14:00:00Z"}},
		{"until a time", "delays.dead/0@0 delays.dead/0@1", []string{"--until", "2026-11-20T15:00:00+01:00"}},
		{"between two", "delays.dead/0@1", []string{"--since", "2026-11-20T12:00:01Z", "--until", "2026-11-20T14:00:00Z"}},
		{"so long ago", all, []string{"--since", "5000d"}},
		{"since the end", "", []string{"--since", "2090-11-20T12:00:01Z"}},
		{"a target", "delays.dead/0@0 delays.dead/1@0", []string{"--target", "billing"}},
		{"a target that another system names", "delays.dead/0@1 parked/0@0", []string{"--target", "orders"}},
		{"a route", "parked/0@0", []string{"--route", "retries"}},
		{"a topic", "parked/0@0", []string{"-t", "parked"}},
		{"from a place on", "delays.dead/0@1 delays.dead/1@0 parked/0@0", []string{"--from", "delays.dead/0@1"}},
		{"from the end of a partition on", "delays.dead/1@0 parked/0@0", []string{"--from", "delays.dead/0@2"}},
		{"some", "delays.dead/0@0 delays.dead/0@1", []string{"--limit", "2"}},
		{"as many as there are", all, []string{"--limit", "4"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, notes, err := both(t, append([]string{"dlq", "ls", "-c", config}, test.args...)...)
			if got := strings.Join(places(out), " "); err != nil || got != test.want {
				t.Errorf("got %v\n%s\nwant %s", err, out, test.want)
			}
			more, limited := strings.Contains(notes, "more than --limit 2; --from delays.dead/1@0 goes on"), test.name == "some"
			if !strings.Contains(notes, "note: retries.dead does not exist; `duewheel topics create` makes it\n") && strings.Contains(test.want, all) || more != limited {
				t.Errorf("noted %q", notes)
			}
		})
	}
	out, _, err := both(t, "dlq", "ls", "-b", addr, "-t", "parked", "-t", "delays.dead", "--route", "delays")
	lines := strings.Split(out, "\n")
	if err != nil || !strings.HasPrefix(lines[0], "PLACE ") || !strings.HasSuffix(lines[1], "why it is unknown_target") || !strings.Contains(lines[2], " orders   delays/0@7  0x00ff  ") {
		t.Errorf("without a configuration: %v\n%s", err, out)
	}
	if lines[4] != "3 dead letters: 2 unknown_target, 1 no_due" {
		t.Errorf("counted %q", lines[4])
	}
	if out, _, err = both(t, "dlq", "ls", "-b", addr, "-t", "delays.dead", "--code", "rejected"); err != nil || out != "no dead letters\n" {
		t.Errorf("where there are none: %v %q", err, out)
	}
}

func TestDLQListAsJSON(t *testing.T) {
	_, _, config := graveyard(t)
	out, notes, err := both(t, "dlq", "ls", "-c", config, "-o", "json", "--route", "delays")
	if err != nil || !strings.Contains(notes, "3 dead letters: 2 unknown_target, 1 no_due\n") {
		t.Fatalf("%v, noted %q", err, notes)
	}
	var rows []letterRow
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var row letterRow
		if err := dec.Decode(&row); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if len(rows) != 3 {
		t.Fatalf("%d rows in %s", len(rows), out)
	}
	r := rows[0]
	if r.Topic != "delays.dead" || r.Timestamp != noon.UnixMilli() || r.Code != "unknown_target" || r.Target != "billing" || r.ValueSize != 7 || *r.Key != "k0" ||
		r.Request != (requestRow{"delays", 2, 7, noon.UnixMilli()}) {
		t.Errorf("row %+v", r)
	}
	if r := rows[1]; r.Key != nil || string(r.KeyBytes) != "\x00\xff" {
		t.Errorf("a key that is not text: %+v", r)
	}
	if r := rows[2]; r.Key != nil || r.KeyBytes != nil {
		t.Errorf("no key: %+v", r)
	}
}

// What lies in a dead letter topic and is none, what is not committed, and the markers of transactions are passed over; and what
// a terminal would act on is shown and not sent to it.
func TestDLQListPassesOver(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"dead": 1})
	cl := client(t, addr, kgo.TransactionalID("writer"), kgo.DefaultProduceTopic("dead"))
	write := func(how kgo.TransactionEndTry, r *kgo.Record) {
		t.Helper()
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
	}
	letter := dead{in: "dead", of: "delays", code: "made\x1b[2Jup", at: noon}
	write(kgo.TryCommit, &kgo.Record{Value: []byte("of another program")})
	write(kgo.TryAbort, letter.record())
	write(kgo.TryCommit, letter.record())
	write(kgo.TryAbort, letter.record())
	out, notes, err := both(t, "dlq", "ls", "-b", addr, "-t", "dead")
	if err != nil || !strings.Contains(out, "dead/0@4 ") || !strings.HasSuffix(out, "1 dead letter: 1 \"made\\x1b[2Jup\"\n") || strings.Contains(out, "\x1b") {
		t.Errorf("got %v\n%s", err, out)
	}
	if want := "note: 1 record is not a dead letter of duewheel and was passed over\n"; notes != want {
		t.Errorf("noted %q, want %q", notes, want)
	}
	for place, want := range map[string]string{
		"0@0":  "dead/0@0 is not a dead letter of duewheel",
		"0@2":  "there is no dead letter at dead/0@2: no record of a committed transaction has that offset",
		"0@3":  "there is no dead letter at dead/0@3: no record of a committed transaction has that offset",
		"0@8":  "there is no dead letter at dead/0@8: the partition has offsets 0 to 7",
		"1@0":  "dead has no partition 1",
		"x@1":  `"x@1" is not a place`,
		"/0@1": `"/0@1" is not a place`,
	} {
		if _, _, err := both(t, "dlq", "show", "-b", addr, "-t", "dead", place); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("show %s: %v, want %s", place, err, want)
		}
	}
}

func TestDLQShow(t *testing.T) {
	_, addr, config := graveyard(t)
	out, _, err := both(t, "dlq", "show", "-c", config, "delays.dead/0@0", "delays.dead/0@1")
	want := `delays.dead/0@0, written 2026-11-20T12:00:00.000Z
  code      unknown_target
  message   why it is unknown_target
  stage     PRODUCE
  request   delays/2@7, written 2026-11-20T12:00:00.000Z
  target    billing
  attempts  0
  instance  host-1
headers
  delay-for           5m
  delay-target-topic  billing
  trace               abc
key (text, 2 bytes)
  k0
value (JSON, 7 bytes)
  {
    "n": 0
  }

delays.dead/0@1, written 2026-11-20T13:00:00.000Z
  code      no_due
  message   why it is no_due
  stage     PRODUCE
  request   delays/0@7, written 2026-11-20T12:00:00.000Z
  target    orders
  attempts  0
  instance  host-1
headers
  delay-target-topic  orders
  trace               def
key (hex, 2 bytes)
  00000000  00 ff                                             |..|
value (hex, 3 bytes)
  00000000  01 02 fe                                          |...|
`
	if err != nil || out != want {
		t.Errorf("got %v\n%s", err, out)
	}
	out, _, err = both(t, "dlq", "show", "-b", addr, "-t", "delays.dead", "0@1", "-o", "json")
	var row fullRow
	if err := errors.Join(err, json.Unmarshal([]byte(out), &row)); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if string(row.ValueBytes) != "\x01\x02\xfe" || row.Value != nil || len(row.Headers) != 2 || *row.Headers[1].Value != "def" || row.Code != "no_due" {
		t.Errorf("got %+v", row)
	}
}

func TestShowBytes(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"hello\nworld\n", "x (text, 12 bytes)\n  hello\n  world\n"},
		{`[1,2]`, "x (JSON, 5 bytes)\n  [\n    1,\n    2\n  ]\n"},
		{`{not JSON`, "x (text, 9 bytes)\n  {not JSON\n"},
		{"", "x empty\n"},
		{"a\x1b[31m", "x (hex, 6 bytes)\n  00000000  61 1b 5b 33 31 6d                                 |a.[31m|\n"},
	} {
		var b strings.Builder
		if err := showBytes(&b, "x", []byte(test.in)); err != nil || b.String() != test.want {
			t.Errorf("%q: got %q, %v", test.in, b.String(), err)
		}
	}
	var b strings.Builder
	if err := showBytes(&b, "x", nil); err != nil || b.String() != "x null\n" {
		t.Errorf("null: %q, %v", b.String(), err)
	}
}

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
		"delays.dead/0@0: delays/2@0, due 20", " (in 5m0s) to billing, handle 2-0-",
		"delays.dead/0@1: delays/0@0, which will be dead-lettered: no_due",
		"parked/0@0: retries/0@0, a retry, due ", "4 dead letters replayed: 2 unknown_target, 1 attempts_exhausted, 1 no_due\n",
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
	if out, _, err = both(t, "dlq", "replay", "-b", addr, "-t", "delays.dead", "-y", "1@0", "0@0"); err != nil ||
		out != "delays.dead/1@0: delays/0@3\ndelays.dead/0@0: delays/2@1\n2 dead letters replayed: 2 unknown_target\n" {
		t.Errorf("by place: %v\n%s", err, out)
	}
	if n := lengthOf(t, addr, "delays"); n != 6 {
		t.Errorf("delays has %d records, want 3, 1 and 2", n)
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
	if err != nil || out != "4 dead letters replayed: 2 unknown_target, 1 attempts_exhausted, 1 no_due\n" || bar != progress(4, 4, 0)+"\n" {
		t.Errorf("yes: %v, printed %q, drew %q", err, out, bar)
	}
	for said, want := range map[string]bool{"y\n": true, " YES \n": true, "n\n": false, "\n": false, "": false, "yesterday\n": false} {
		if got, err := answered(t.Context(), strings.NewReader(said)); got != want || err != nil {
			t.Errorf("%q is taken for %v, %v", said, got, err)
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
		n, total int
		want     string
	}{
		{0, 10, "\r[" + strings.Repeat(" ", 30) + "] 0 of 10 (0 %)\x1b[K"},
		{5, 10, "\r[" + strings.Repeat("=", 15) + strings.Repeat(" ", 15) + "] 5 of 10 (50 %), 8s left\x1b[K"},
		{10, 10, "\r[" + strings.Repeat("=", 30) + "] 10 of 10 (100 %)\x1b[K"},
		{11, 10, "\r[" + strings.Repeat("=", 30) + "] 11 of 10 (100 %)\x1b[K"},
	} {
		if got := progress(test.n, test.total, 8*time.Second); got != test.want {
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

func TestDLQSaysWhatIsWrong(t *testing.T) {
	_, addr, config := graveyard(t)
	inBoth := func(cmds []string, args ...string) (all [][]string) {
		for _, cmd := range cmds {
			all = append(all, append([]string{"dlq", cmd}, args...))
		}
		return all
	}
	filters := []string{"ls", "replay"}
	every := []string{"ls", "replay"}
	for _, test := range []struct {
		want string
		args [][]string
	}{
		{"--code unknown_taget: there is no such code; the nearest is unknown_target, and all are no_due, ", inBoth(filters, "--code", "unknown_taget")},
		{`--header "=x": name=value, or a name alone`, inBoth(filters, "-H", "=x")},
		{`--since "yesterday": a time such as 2027-01-01T09:00:00+01:00, or how long ago, such as 90s, 1h or 2d`, inBoth(filters, "--since", "yesterday")},
		{`--until "5": a time such as`, inBoth(filters, "--until", "5")},
		{"--since 1h is not before --until 2h: nothing lies between them", inBoth(filters, "--since", "1h", "--until", "2h")},
		{`"17" is not a place: <partition>@<offset> or <topic>/<partition>@<offset>`, inBoth(filters, "--from", "17")},
		{"0@1 may be in delays.dead or parked or retries.dead: write <topic>/0@1, or choose a topic with -t", inBoth(filters, "-c", config, "--from", "0@1", "-y")},
		{"orders/0@1 is in none of the dead letter topics; those are delays.dead, parked, retries.dead", inBoth(filters, "-c", config, "--from", "orders/0@1", "-y")},
		{"delays.dead has no partition 5", inBoth(filters, "-c", config, "--from", "delays.dead/5@1", "-y")},
		{"which dead letter topic? Name a configuration that has routes with -c, or the topic with -t", inBoth(every, "-b", addr, "-y")},
		{"-t delays is a delay topic; its dead letters are in delays.dead", inBoth(every, "-c", config, "-t", "delays", "-y")},
		{"--route delay is not the delay topic of any route of the configuration; those are delays, retries", inBoth(filters, "-c", config, "--route", "delay", "-y")},
		{"topic nowhere: UNKNOWN_TOPIC_OR_PARTITION", inBoth(every, "-b", addr, "-t", "nowhere", "-y")},
		{"kafka.brokers is missing", inBoth(every, "-t", "dead", "-y")},
		{"reach 127.0.0.1:1: ", inBoth(every, "-b", "127.0.0.1:1", "-t", "dead", "-y")},
		{"--limit 0: at least 1", [][]string{{"dlq", "ls", "--limit", "0"}}},
		{"-o yaml: text or json", [][]string{{"dlq", "ls", "-o", "yaml"}, {"dlq", "show", "0@1", "-o", "yaml"}}},
		{"2 problems:\n  \"a@b\" is not a place: ", [][]string{{"dlq", "show", "a@b", "0@-1"}}},
		{"requires at least 1 arg(s), only received 0", [][]string{{"dlq", "show", "-c", config}}},
		{"--rate 0: at least 1 record a second", [][]string{{"dlq", "replay", "-y", "--rate", "0"}}},
		{"--max 0: at least 1", [][]string{{"dlq", "replay", "-y", "--max", "0"}}},
		{"--code chooses among all dead letters, and places name some: give one of them", [][]string{{"dlq", "replay", "-y", "--code", "no_due", "0@1"}}},
		{"there is no terminal to ask on: --yes replays without asking, and --dry-run says what would be done", [][]string{{"dlq", "replay", "-c", config}}},
		{`unknown command "bury" for "duewheel dlq"`, [][]string{{"dlq", "bury"}}},
	} {
		for _, args := range test.args {
			if args[1] == "ls" {
				args = args[:len(args)-len(flagsOnlyOf(args))]
			}
			t.Run(strings.Join(args, " "), func(t *testing.T) {
				out, _, err := both(t, args...)
				if err == nil || !strings.Contains(err.Error(), test.want) || out != "" {
					t.Errorf("got  %v\nwant %s\nprinted %q", err, test.want, out)
				}
			})
		}
	}
	if n := lengthOf(t, addr, "delays"); n != 0 {
		t.Errorf("%d records were written", n)
	}
}

// flagsOnlyOf are arguments at the end that only replay knows.
func flagsOnlyOf(args []string) []string {
	if args[len(args)-1] == "-y" {
		return args[len(args)-1:]
	}
	return nil
}
