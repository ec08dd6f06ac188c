package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

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

// The clocks of replicas differ: what lies behind the first dead letter since a time may have been written before it.
func TestDLQListOfMixedTimes(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays.dead": 1})
	bury(t, addr, dead{code: topics.CodeNoDue, at: noon.Add(2 * time.Hour)}, dead{code: topics.CodeNoDue}, dead{code: topics.CodeNoDue, at: noon.Add(3 * time.Hour)})
	out, _, err := both(t, "dlq", "ls", "-b", addr, "-t", "delays.dead", "--since", "2026-11-20T13:00:00Z")
	if got := strings.Join(places(out), " "); err != nil || got != "delays.dead/0@0 delays.dead/0@2" {
		t.Errorf("got %v\n%s", err, out)
	}
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
		{"from a place on, since a time before that", "delays.dead/0@1 delays.dead/1@0 parked/0@0", []string{"--from", "delays.dead/0@1", "--since", "2020-01-01T00:00:00Z"}},
		{"a topic that is named twice", "parked/0@0", []string{"-t", "parked", "-t", "parked"}},
		{"some", "delays.dead/0@0 delays.dead/0@1", []string{"--limit", "2"}},
		{"as many as there are", all, []string{"--limit", "4"}},
		{"all", all, []string{"--limit", "0"}},
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
	if out, notes, err := both(t, "dlq", "ls", "-c", config, "--from", "parked/0@100"); err != nil || !strings.Contains(notes, "note: parked/0 ends at offset 1: nothing of it lies at or behind --from parked/0@100\n") ||
		strings.Contains(out, " parked/0@") {
		t.Errorf("from beyond the end: %v %q\n%s", err, notes, out)
	}
	if _, notes, err := both(t, "dlq", "ls", "-c", config, "--route", "delays"); err != nil || notes != "" {
		t.Errorf("the topics of other routes are looked at: %v %q", err, notes)
	}
	out, _, err := both(t, "dlq", "ls", "-b", addr, "-t", "parked", "-t", "delays.dead", "--route", "delays")
	lines := strings.Split(out, "\n")
	if err != nil || !strings.HasPrefix(lines[0], "PLACE ") || !strings.HasSuffix(lines[1], "why it is unknown_target") || !strings.Contains(lines[2], " orders   delays/0@7  0x00ff  ") {
		t.Errorf("without a configuration: %v\n%s", err, out)
	}
	if lines[4] != "3 dead letters: 2 unknown_target, 1 no_due" {
		t.Errorf("counted %q", lines[4])
	}
	if out, _, err = both(t, "dlq", "ls", "-b", addr, "-t", "delays.dead", "--code", "rejected"); err != nil || out != "no dead letters that were asked for\n" {
		t.Errorf("where there are none of them: %v %q", err, out)
	}
	if out, _, err = both(t, "dlq", "replay", "-c", config, "--yes", "--since", "2090-01-01T00:00Z"); err != nil || out != "no dead letters that were asked for\n" {
		t.Errorf("where there are none of them to replay: %v %q", err, out)
	}
}

// A line says which header is to blame, as explain does: without it a message such as "this version does not support it" says nothing.
func TestDLQListNamesTheHeader(t *testing.T) {
	for blamed, want := range map[string]string{"": "  cannot be read\n", "delay-for=5 minutes": "  header delay-for: cannot be read\n", "x\x1b": `  header "x\x1b": cannot be read` + "\n"} {
		var out strings.Builder
		table := textTable{w: &out}
		l := topics.Letter{DeadLetter: topics.DeadLetter{Topic: "delays", Refusal: &topics.Refusal{Code: topics.CodeUnparsableDue, Message: "cannot be read"}}, Blamed: blamed}
		if err := cmp.Or(table.row(&letter{Letter: l, record: &kgo.Record{Topic: "delays.dead"}}), table.end()); err != nil || !strings.HasSuffix(out.String(), want) {
			t.Errorf("blamed is %q: %v\n%s", blamed, err, &out)
		}
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
	if out, _, err = both(t, "dlq", "show", "-b", addr, "delays.dead/0@0", "delays.dead/0@1"); err != nil || out != want {
		t.Errorf("by places that name their topic: %v\n%s", err, out)
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
		{"a\r\nb\r\n", "x (text, 6 bytes)\n  a\n  b\n"},
		{"a\rb", "x (hex, 3 bytes)\n  00000000  61 0d 62                                          |a.b|\n"},
		{"a\x1b[31m", "x (hex, 6 bytes)\n  00000000  61 1b 5b 33 31 6d                                 |a.[31m|\n"},
	} {
		var b strings.Builder
		if err := showBytes(&b, "x", []byte(test.in), 0); err != nil || b.String() != test.want {
			t.Errorf("%q: got %q, %v", test.in, b.String(), err)
		}
	}
	var b strings.Builder
	if err := showBytes(&b, "x", nil, 0); err != nil || b.String() != "x null\n" {
		t.Errorf("null: %q, %v", b.String(), err)
	}
}

// On a terminal a long value ends with a word of how to see all of it, at the end of a line where it has lines, and no character is cut in two.
func TestShowBytesOnATerminal(t *testing.T) {
	for _, test := range []struct {
		in   string
		most int
		want string
	}{
		{"hello\nworld\n", 12, "x (text, 12 bytes)\n  hello\n  world\n"},
		{"hello\nworld\n", 8, "x (text, 12 bytes)\n  hello\n  … cut; --whole shows all\n"},
		{"ü-ü-ü", 4, "x (text, 8 bytes)\n  ü-\n  … cut; --whole shows all\n"},
		{strings.Repeat("\x01", 32), 80, "x (hex, 32 bytes)\n  00000000  01 01 01 01 01 01 01 01  01 01 01 01 01 01 01 01  |................|\n  … cut; --whole shows all\n"},
	} {
		var b strings.Builder
		if err := showBytes(&b, "x", []byte(test.in), test.most); err != nil || b.String() != test.want {
			t.Errorf("%q: got %q, %v", test.in, b.String(), err)
		}
	}
	if most := (&shows{}).most(&strings.Builder{}); most != 0 {
		t.Errorf("what is no terminal gets %d bytes", most)
	}
}

// A terminal does not get all of a header that is long either, whatever it is.
func TestHeadersOnATerminal(t *testing.T) {
	for _, test := range []struct {
		in, got string
	}{
		{inLine([]byte("value"), mostOnScreen), "value"},
		{inLine(nil, mostOnScreen), "null"},
		{inLine([]byte("…"), mostOnScreen), "…"},
		{inLine([]byte(strings.Repeat("v", 100_000)), mostOnScreen), strings.Repeat("v", mostInLine-1) + "… cut, of 100000 bytes; --whole shows all"},
		{inLine([]byte(strings.Repeat("\x00", 100_000)), mostOnScreen), "0x" + strings.Repeat("0", mostInLine-3) + "… cut, of 100000 bytes; --whole shows all"},
		{inLine([]byte(strings.Repeat("日", 1000)), mostOnScreen), strings.Repeat("日", mostInLine/2-1) + "… cut, of 3000 bytes; --whole shows all"},
		{textInLine("a\tb", mostOnScreen), `"a\tb"`},
		{textInLine(strings.Repeat("n", 2000), mostOnScreen), strings.Repeat("n", mostInLine-1) + "… cut, of 2000 bytes; --whole shows all"},
	} {
		if test.in != test.got {
			t.Errorf("got %.2000q, want %.2000q", test.in, test.got)
		}
	}
	for _, s := range []string{"", "v", strings.Repeat("v", 100_000), strings.Repeat("\x00", 5000)} {
		if got, want := inLine([]byte(s), 0), brief([]byte(s), 1<<20); got != want {
			t.Errorf("not whole: %d of %d columns", len(got), len(want))
		}
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
		{`--since "yesterday": a time such as 2027-01-01T09:00+01:00, or how long ago, such as 90s, 1h or 2d`, inBoth(filters, "--since", "yesterday")},
		{`--since "5": a time such as 2027-01-01T09:00+01:00, or how long ago, such as 90s, 1h or 2d (as a time since 1970 it lies before 1973, or after 5138)`, inBoth(filters, "--since", "5")},
		{`(it has no offset, and what hour it is depends on where: `, inBoth(filters, "--since", "2027-01-01T09:00")},
		{`--until "5": a time such as`, inBoth(filters, "--until", "5")},
		{"--since 1h is not before --until 2h: nothing lies between them", inBoth(filters, "--since", "1h", "--until", "2h")},
		{`"17" is not a place: <partition>@<offset> or <topic>/<partition>@<offset>`, inBoth(filters, "--from", "17")},
		{"0@1 may be in delays.dead or parked or retries.dead: write <topic>/0@1, or choose a topic with -t", inBoth(filters, "-c", config, "--from", "0@1", "-y")},
		{"orders/0@1 is in none of the dead letter topics; those are delays.dead, parked, retries.dead", inBoth(filters, "-c", config, "--from", "orders/0@1", "-y")},
		{"delays.dead has no partition 5", inBoth(filters, "-c", config, "--from", "delays.dead/5@1", "-y")},
		{"which dead letter topic? Name a configuration that has routes with -c, or the topic with -t", inBoth(every, "-b", addr, "-y")},
		{"-t delays is a delay topic; its dead letters are in delays.dead", inBoth(every, "-c", config, "-t", "delays", "-y")},
		{"--route delay is not the delay topic of any route of the configuration; those are delays, retries", inBoth(filters, "-c", config, "--route", "delay", "-y")},
		{"the topic nowhere does not exist", inBoth(every, "-b", addr, "-t", "nowhere", "-y")},
		{"kafka.brokers is missing", inBoth(every, "-t", "dead", "-y")},
		{"reach 127.0.0.1:1: ", inBoth(every, "-b", "127.0.0.1:1", "-t", "dead", "-y")},
		{"the topic nowhere does not exist", [][]string{{"dlq", "show", "-b", addr, "nowhere/0@1"}}},
		{"which dead letter topic? Name a configuration", [][]string{{"dlq", "show", "-b", addr, "delays.dead/0@0", "0@1"}}},
		{"--limit -1: at least 1, and 0 for all", [][]string{{"dlq", "ls", "--limit", "-1"}}},
		{"-o yaml: text or json", [][]string{{"dlq", "ls", "-o", "yaml"}, {"dlq", "show", "0@1", "-o", "yaml"}}},
		{"2 problems:\n  \"a@b\" is not a place: ", [][]string{{"dlq", "show", "a@b", "0@-1"}}},
		{"which dead letter? Give its place", [][]string{{"dlq", "show", "-c", config}}},
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

// What is long, or no text, is cut and said so.
func TestBrief(t *testing.T) {
	for _, tt := range []struct{ text, want string }{{"", ""}, {"ééé", "ééé"}, {"éééé", "éé…"}, {"a\nb", "0x61…"}} {
		if got := brief([]byte(tt.text), 3); got != tt.want {
			t.Errorf("%q is shown as %q, want %q", tt.text, got, tt.want)
		}
	}
}

// The last header of a name counts: with an empty one the route says where a request goes.
func TestTargetOfALetter(t *testing.T) {
	b := boxes{routes: map[string]*topics.Route{"requests": {Target: "orders"}}}
	for _, tt := range []struct{ first, last, want string }{{"", "bills", "bills"}, {"bills", " letters ", "letters"}, {"bills", "", "orders"}} {
		hs := []kgo.RecordHeader{{Key: topics.HeaderTargetTopic, Value: []byte(tt.first)}, {Key: topics.HeaderTargetTopic, Value: []byte(tt.last)}}
		if got := b.target(&kgo.Record{Headers: hs}, "requests"); got != tt.want {
			t.Errorf("%q and %q: the target is %q, want %q", tt.first, tt.last, got, tt.want)
		}
	}
}
