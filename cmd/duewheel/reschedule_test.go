package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// What takes the place of a record asks for all that the record asked for, by whatever headers it did, and is delivered as the record would
// have been.
func TestReplacementsAskForTheSame(t *testing.T) {
	until := time.Now().Add(time.Hour)
	millis, seconds := strconv.FormatInt(until.UnixMilli(), 10), strconv.FormatInt(until.Unix(), 10)
	far := time.Now().Add(2 * time.Hour).Format(time.RFC3339)
	for _, c := range []struct {
		name    string
		route   string   // what it says beside
		asks    []string // name=value
		key     string   // of the delivered record
		keeps   []string // headers that are delivered, too
		at      int32    // partition of the delivered record; -1: any
		written []string // headers that the replacement has
	}{
		{"our headers", "", []string{"delay-until=" + millis, "delay-target-topic=orders", "delay-target-key=other", "delay-target-partition=2", "delay-expires=" + far, "trace=17", "trace=18"}, "other", []string{"trace=17", "trace=18"}, 2,
			[]string{"delay-expires"}},
		{"an id in quotes", "", []string{"delay-until=" + millis, "delay-target-topic=orders", `delay-id="a b"`}, "k", nil, -1, []string{"delay-id"}},
		{"an id that would be taken for an envelope", "", []string{"delay-until=" + millis, "delay-target-topic=orders", `delay-id="{\"schema\":null,\"payload\":\"x\"}"`}, "k", nil, -1, []string{"delay-id"}},
		{"another prefix", "headers: {prefix: x-wheel-}", []string{"x-wheel-until=" + millis, "x-wheel-target-topic=orders", "x-wheel-target-partition=1", "delay-until=mine"}, "k", []string{"delay-until=mine"}, 1, nil},
		{"another prefix, and an id", "headers: {prefix: x-wheel-}", []string{"x-wheel-until=" + millis, "x-wheel-target-topic=orders", "x-wheel-id=7"}, "k", nil, -1, []string{"x-wheel-id"}},
		{"plain", "target: orders", []string{"deliver-at=" + millis, "trace=17"}, "k", []string{"trace=17"}, -1, nil},
		{"etf1", "target: billing", []string{"scheduler-epoch=" + seconds, "scheduler-target-topic=orders", "scheduler-target-key=other"}, "other", nil, -1, nil},
		{"karafka", "target: billing", []string{"schedule_target_epoch=" + seconds, "schedule_target_topic=orders", "schedule_target_partition=0", "schedule_target_key=other", "schedule_schema_version=1"}, "other", nil, 0, nil},
		{"cloudevents", "target: orders", []string{"ce_deliverat=" + until.Format(time.RFC3339), "ce_expirytime=" + far}, "k", []string{"ce_expirytime=" + far}, -1, []string{"delay-expires"}},
		{"spring-retry", "target: billing, headers: {aliases: [spring-retry]}", []string{"retry_topic-backoff-timestamp=" + millis, "kafka_original-topic=orders"}, "k", []string{"kafka_original-topic=orders"}, -1, nil},
		{"a jitter", "jitter: 30d", []string{"delay-until=" + millis, "delay-target-topic=orders"}, "k", nil, -1, nil},
		{"keyed", "mode: keyed", []string{"delay-until=" + millis, "delay-target-topic=orders"}, "k", nil, -1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, addr := cluster(t, map[string]int32{"delays": 2, "orders": 3, "billing": 1, "delays.dead": 1})
			route := "topic: delays, targets: {allow: [orders, billing]}"
			if c.route != "" {
				route += ", " + c.route
			}
			config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {"+route+"}\n")
			cl := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			asks := func() *kgo.Record {
				r := &kgo.Record{Topic: "delays", Partition: 1, Key: []byte("k"), Value: []byte{0, 255, 1}, Timestamp: time.Now()}
				for _, h := range c.asks {
					name, v, _ := strings.Cut(h, "=")
					r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(v)})
				}
				if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
				return r
			}
			r := asks()
			out, err := command(t, "", "ls", "-c", config, "-o", "json")
			if err != nil || strings.Count(out, "\n") != 1 {
				t.Fatalf("listed %s, %v", out, err)
			}
			name := out[strings.Index(out, `"handle":"`)+len(`"handle":"`):]
			name = name[:strings.Index(name, `"`)]
			for _, args := range [][]string{{"reschedule", name, "--for", "90m"}, {"deliver-now", ""}} {
				if args[1] == "" { // what stands for it now
					out, err = command(t, "", "ls", "-c", config, "-o", "json")
					if err != nil || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"offset":1,`) || !strings.Contains(out, `"target":"orders"`) {
						t.Fatalf("listed %s, %v", out, err)
					}
					name := out[strings.Index(out, `"handle":"`)+len(`"handle":"`):]
					args[1] = name[:strings.Index(name, `"`)]
				}
				if out, err := command(t, "", append(args, "-c", config)...); err != nil || !strings.Contains(out, "takes the place of 1-") {
					t.Fatalf("%v: printed %q, %v", args, out, err)
				}
			}
			for _, again := range fetch(t, addr, "delays", 3)[1:] {
				h := headers(again)
				for _, name := range c.written {
					if h[name] == "" {
						t.Errorf("%v is not in %v", name, h)
					}
				}
			}
			stop, _ := start(t, addr, t.TempDir(), "-c", config)
			got := fetch(t, addr, "orders", 1)[0]
			if err := stop(); err != nil {
				t.Error(err)
			}
			if string(got.Key) != c.key || string(got.Value) != string(r.Value) || c.at >= 0 && got.Partition != c.at {
				t.Errorf("delivered %q, %q in partition %d, want the key %q in %d", got.Key, got.Value, got.Partition, c.key, c.at)
			}
			var kept []string
			for _, h := range got.Headers {
				if !strings.HasSuffix(h.Key, "-due") && !strings.HasSuffix(h.Key, "-source") {
					kept = append(kept, h.Key+"="+string(h.Value))
				}
			}
			if !slices.Equal(kept, c.keeps) {
				t.Errorf("delivered with %q, want %q", kept, c.keeps)
			}
			if n, others := lengthOf(t, addr, "orders"), lengthOf(t, addr, "billing")+lengthOf(t, addr, "delays.dead"); n != 2 || others != 0 {
				t.Errorf("%d offsets in the target, want that of a record and a marker; %d elsewhere", n, others)
			}
			if out, err := command(t, "", "ls", "-c", config); err != nil || !strings.Contains(out, "nothing is pending") {
				t.Errorf("left %s, %v", out, err)
			}
		})
	}
}

// Where a replacement is delivered whatever it finds, one is not written for a record that may have been cancelled.
func TestReplacementsOfWhatMayBeGone(t *testing.T) {
	for _, c := range []struct {
		name  string
		route *topics.Route
		to    int64
		says  string
	}{
		{"it is known to wait", &topics.Route{ReplacesLate: true}, 9, ""},
		{"too late is dead-lettered", &topics.Route{}, 5, ""},
		{"too late is delivered", &topics.Route{ReplacesLate: true}, 5, "the last 4 records of the log were not read"},
		{"the route is not known", nil, 5, "the last 4 records of the log were not read"},
	} {
		p, err := ahead.New(ahead.Env{}, state.Checkpoint{}, 9)
		if err != nil {
			t.Fatal(err)
		}
		one := &foundRecord{got: &ahead.Looked{Partition: p}, record: &kgo.Record{}, searched: searched{to: c.to, end: 9}}
		v := &view{routes: map[string]*topics.Route{"": c.route}}
		got, err := v.onlyOne("0-0-1795183500000", []*foundRecord{one})
		if c.says == "" && (err != nil || got != one) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// What takes the place of a record that was carried asks for what that was written with, and names it by its own handle.
func TestRescheduleWhatWasCarried(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	s := &lookStory{T: t, c: c, addr: addr}
	arg := func(key, value string) datadriven.CmdArg { return datadriven.CmdArg{Key: key, Vals: []string{value}} }
	due := max(time.Since(lookNow), 0).Round(time.Second) + 24*time.Hour // from lookNow on, and ahead of today
	s.write(&datadriven.TestData{Input: "v", CmdArgs: []datadriven.CmdArg{arg("due", due.String()), arg("delay-target-topic", "orders"), arg("trace", "17")}})
	s.copy(&datadriven.TestData{CmdArgs: []datadriven.CmdArg{arg("of", "0"), arg("due", due.String())}})
	s.checkpoint(&datadriven.TestData{CmdArgs: []datadriven.CmdArg{arg("o", "2"), arg("l", "1")}})
	s.do(&datadriven.TestData{Cmd: "cut", CmdArgs: []datadriven.CmdArg{arg("to", "1")}})
	handle := topics.Handle{Due: lookNow.Add(due).UnixMilli()}.String()
	out, err := command(t, "", "deliver-now", "-b", addr, "-g", "g", "-t", "delays", "-o", "json", handle)
	if err != nil || !strings.HasPrefix(out, `{"topic":"delays","partition":0,"offset":2,"due":`) || !strings.HasSuffix(out, `,"replaces":"`+handle+`"}`+"\n") {
		t.Fatalf("printed %q, %v", out, err)
	}
	r := fetch(t, addr, "delays", 2)[1]
	h := headers(r)
	if string(r.Value) != "v" || h["trace"] != "17" || h["delay-target-topic"] != "orders" || h["delay-replace"] != handle || h["delay-seq"] != "" || h["delay-from"] != "" || len(h) != 4 {
		t.Errorf("it is %q with %v", r.Value, h)
	}
}

// What is due before now by the jitter of its route may have expired by that: such a record is not written, whatever its place would add.
func TestDeliverNowWhereJitterOutlastsExpiry(t *testing.T) {
	for i, c := range []struct {
		route, says string
	}{
		{"jitter: 1m, expire_after: 59s", "`duewheel reschedule --for 0s` has it delivered within 1m0s"},
		{"jitter: 1m, expire_after: 1m", ""},
		{"expire_after: 59s", ""},
	} {
		cl, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
		s := &lookStory{T: t, c: cl, addr: addr}
		due := max(time.Since(lookNow), 0).Round(time.Second) + 24*time.Hour
		s.write(&datadriven.TestData{Input: "v", CmdArgs: []datadriven.CmdArg{{Key: "due", Vals: []string{due.String()}}}})
		config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, target: orders, "+c.route+"}\n")
		_, err := command(t, "", "deliver-now", "-c", config, topics.Handle{Due: lookNow.Add(due).UnixMilli()}.String())
		if written := lengthOf(t, addr, "delays") - 1; (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) || (written == 0) != (err != nil) {
			t.Errorf("case %d: %d written, %v", i, written, err)
		}
	}
}

// Where headers of users would ask for something now, as the route has another prefix, a record is not written again: it would ask for another key, partition or end.
func TestRescheduleWhereHeadersOfUsersWouldAsk(t *testing.T) {
	for _, header := range []string{"delay-target-key", "delay-target-partition", "delay-expires", "delay-target-topic", "trace"} {
		c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1, "others": 2})
		s := &lookStory{T: t, c: c, addr: addr}
		arg := func(key, value string) datadriven.CmdArg { return datadriven.CmdArg{Key: key, Vals: []string{value}} }
		due := lookNow.Add(max(time.Since(lookNow), 0).Round(time.Second) + 24*time.Hour).UnixMilli()
		value := map[string]string{"delay-target-partition": "0", "delay-expires": strconv.FormatInt(due+1e9, 10), "delay-target-topic": "others"}[header]
		if value == "" {
			value = "17"
		}
		s.write(&datadriven.TestData{Input: "v", CmdArgs: []datadriven.CmdArg{arg("x-wheel-until", strconv.FormatInt(due, 10)), arg(header, value)}})
		s.checkpoint(&datadriven.TestData{CmdArgs: []datadriven.CmdArg{arg("o", "1"), arg("parsers", "0:p1^x-wheel-;1:p1")}})
		config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, target: orders, targets: {allow: [others]}}\n")
		out, err := command(t, "", "reschedule", "-c", config, topics.Handle{Due: due}.String(), "--for", "2d")
		if refused := err != nil && strings.Contains(err.Error(), "cannot be written again"); refused == (header == "trace") || !refused && err != nil || lengthOf(t, addr, "delays") != map[bool]int64{true: 1, false: 2}[refused] {
			t.Errorf("%s: printed %q, %v", header, out, err)
		}
	}
}
