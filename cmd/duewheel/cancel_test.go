package main

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestCancel(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 3})
	out, err := command(t, "", "cancel", "-b", addr, "-t", "delays", "2-0-1767225605123", "1-7-1767225605124")
	if want := "delays/2@0, asks to cancel 2-0-1767225605123\ndelays/1@0, asks to cancel 1-7-1767225605124\n"; err != nil || out != want {
		t.Fatalf("printed %q, %v", out, err)
	}
	for _, r := range fetch(t, addr, "delays", 2) {
		if got := headers(r); len(got) != 1 || !strings.HasPrefix(got["delay-cancel"], string('0'+rune(r.Partition))+"-") || r.Key != nil || r.Value != nil {
			t.Errorf("partition %d: %s=%q with %v", r.Partition, r.Key, r.Value, got)
		}
	}
	for _, around := range []string{`"2-0-1767225605123"`, " 2-0-1767225605123 "} { // which is read as the same handle
		if out, err := command(t, "", "cancel", "-b", addr, "-t", "delays", around); err != nil || !strings.HasPrefix(out, "delays/2@") || !strings.HasSuffix(out, ", asks to cancel 2-0-1767225605123\n") {
			t.Errorf("%q: printed %q, %v", around, out, err)
		}
	}
	for _, bad := range []struct {
		args []string
		says string
	}{
		{[]string{"-t", "delays"}, "which record? Give its handle or its id"},
		{[]string{"-t", "", "2-0-1"}, "--topic is empty"},
		{[]string{"2-0-1"}, "which delay topic? Give it with -t"},
		{[]string{"-t", "delays", strings.Repeat("x", 257), "2-0-1767225605123"}, "an id has 256 bytes at most"},
		{[]string{"-t", "delays", ""}, "neither a handle nor an id"},
		{[]string{"-t", "delays", "null"}, `"null" is neither a handle nor an id`},
		{[]string{"-t", "delays", "3-0-1767225605123"}, "delays has no partition 3, only 0 to 2"},
		{[]string{"-t", "delays", "3-0-1767225605123", "2-0-1767225605123"}, "delays has no partition 3, only 0 to 2"},
		{[]string{"-t", "nowhere", "0-0-1767225605123"}, "duewheel topics create"},
	} {
		if out, err := command(t, "", append([]string{"cancel", "-b", addr}, bad.args...)...); err == nil || !strings.Contains(err.Error(), bad.says) || out != "" {
			t.Errorf("%v: printed %q, %v; want an error that says %q", bad.args, out, err, bad.says)
		}
	}
}

// As JSON it is an object for each, with the handle or the id as a replica reads it.
func TestCancelAsJSON(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1})
	out, err := command(t, "", "cancel", "-b", addr, "-t", "delays", "-o", "json", "0-0-1767225605123", `"reminder \"1\""`)
	want := `{"topic":"delays","partition":0,"offset":0,"cancels":"0-0-1767225605123"}` + "\n" + `{"topic":"delays","partition":0,"offset":1,"cancels":"reminder \"1\""}` + "\n"
	if err != nil || out != want {
		t.Errorf("printed %q, %v", out, err)
	}
}

// An id is looked for where its key is, and in any partition without one.
func TestCancelOfIDs(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 3, "orders": 1})
	out, err := command(t, "", "produce", "-b", addr, "-t", "delays", "--to", "orders", "--until", "2100-01-01T00:00:00Z", "-v", "x", "-k", "k", "--id", "a-1")
	if err != nil {
		t.Fatalf("printed %q, %v", out, err)
	}
	at := out[:strings.Index(out, "@")]
	for _, keys := range [][]string{{"-k", "k"}, nil} {
		want := ", asks to cancel the id a-1"
		if keys == nil {
			want += ", in whatever partition a replica finds it"
		}
		out, err := command(t, "", append([]string{"cancel", "-b", addr, "-t", "delays", "a-1", "0-9-1767225605123"}, keys...)...)
		lines := strings.Split(out, "\n")
		if err != nil || keys != nil && !strings.HasPrefix(lines[0], at+"@") || !strings.HasSuffix(lines[0], want) || !strings.HasPrefix(lines[1], "delays/0@") {
			t.Errorf("%v: printed %q, %v; the id is in %s", keys, out, err, at)
		}
	}
	for _, r := range fetch(t, addr, "delays", 5) {
		if strings.HasPrefix(headers(r)["delay-cancel"], "0-9-") && r.Key != nil {
			t.Errorf("a handle is cancelled with the key %q, which is that of an id", r.Key)
		}
	}
}

// What the delay topic takes one by one is not put into a batch that it does not take.
func TestCancelBatchesAreTaken(t *testing.T) {
	c, addr := cluster(t, nil)
	if err := c.CreateTopic("small", 1, map[string]string{"max.message.bytes": "4096"}); err != nil {
		t.Fatal(err)
	}
	names := make([]string, 40)
	for i := range names {
		names[i] = fmt.Sprintf("%d%x", i%10, incompressible(120))
	}
	out, err := command(t, "", append([]string{"cancel", "-b", addr, "-t", "small"}, names...)...)
	if err != nil || strings.Count(out, "asks to cancel the id ") != len(names) {
		t.Fatalf("%v, printed %q", err, out)
	}
	for i, r := range fetch(t, addr, "small", len(names)) {
		if got := headers(r)["delay-cancel"]; got != names[i] {
			t.Errorf("%d: cancels %q, want %q", i, got, names[i])
		}
	}
}

// Where a batch of cancels is refused, those behind it are not written, and it is said how many.
func TestCancelsBehindWhatIsRefused(t *testing.T) {
	c, addr := cluster(t, nil)
	if err := c.CreateTopic("small", 1, map[string]string{"max.message.bytes": "4096"}); err != nil {
		t.Fatal(err)
	}
	refuse := true
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range req.(*kmsg.ProduceRequest).Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, refuse
	})
	names := make([]string, 40)
	for i := range names {
		names[i] = fmt.Sprintf("%d%x", i%10, incompressible(120))
	}
	out, err := command(t, "", append([]string{"cancel", "-b", addr, "-t", "small"}, names...)...)
	if err == nil || out != "" {
		t.Fatalf("printed %q, %v", out, err)
	}
	refused := strings.Count(err.Error(), "TOPIC_AUTHORIZATION_FAILED")
	if want := fmt.Sprintf("%d cancels behind these not written", len(names)-refused); refused == 0 || refused == len(names) || !strings.Contains(err.Error(), want) {
		t.Errorf("%d were refused, and it does not say %q: %v", refused, want, err)
	}
	if out, err := command(t, "", "cancel", "-b", addr, "-t", "small", names[0]); err == nil || out != "" || strings.Contains(err.Error(), "not written") {
		t.Errorf("there is none behind the last one: printed %q, %v", out, err)
	}
}

// A handle that was mistyped is an id that nothing has, and is told of.
func TestCancelOfAMistypedHandle(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1})
	for name, says := range map[string]string{"3-8812": "the id 3-8812, in whatever partition a replica finds it; and it is no handle: that is <partition>-<offset>-<due in ms since 1970>\n", "reminder-17": "the id reminder-17, in whatever partition a replica finds it\n", "17": "the id 17, in whatever partition a replica finds it\n"} {
		if out, err := command(t, "", "cancel", "-b", addr, "-t", "delays", name); err != nil || !strings.HasSuffix(out, says) {
			t.Errorf("printed %q, %v; want %q", out, err, says)
		}
	}
}

// With a configuration nothing is written to a topic that is none of its delay topics, nor where nothing can be cancelled.
func TestCancelKnowsRoutes(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "fixed": 1, "again": 1, "orders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes: [{topic: delays, target: orders}, {topic: fixed, target: orders, delay: 5m},\n"+
		"  {topic: again, target: orders, retry: {max_attempts: 3}}]\n")
	for topic, says := range map[string]string{"delays": "", "orders": "is not the delay topic of any route", "fixed": "has a fixed delay"} {
		_, err := command(t, "", "cancel", "-c", config, "-t", topic, "0-0-1767225605123")
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", topic, err, says)
		}
	}
	if out, err := command(t, "", "cancel", "-c", config, "-t", "again", "0-0-1767225605123", "reminder-17"); err == nil || !strings.Contains(err.Error(), "whose records have no ids") {
		t.Errorf("printed %q, %v", out, err)
	}
}

// Where the key is the id, a cancel of an id has that key, by which it comes to where the record waits; the key that is asked for goes before.
func TestCancelOfAKey(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 3, "orders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes: [{topic: delays, target: orders, mode: keyed}]\n")
	for _, key := range []string{"", "another"} {
		args := []string{"cancel", "-c", config, "reminder-17", "0-7-1767225605123"}
		if key != "" {
			args = append(args, "-k", key)
		}
		if out, err := command(t, "", args...); err != nil {
			t.Fatalf("printed %q, %v", out, err)
		}
	}
	keys := map[string]int{}
	for _, r := range fetch(t, addr, "delays", 4) {
		keys[headers(r)["delay-cancel"]+" "+string(r.Key)]++
	}
	if want := map[string]int{"reminder-17 reminder-17": 1, "reminder-17 another": 1, "0-7-1767225605123 ": 2}; !maps.Equal(keys, want) {
		t.Errorf("written %v, want %v", keys, want)
	}
}

// A cancel is written by the names that the route has for our headers: by another one it would be a record to deliver.
func TestCancelWithAnotherPrefix(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes: [{topic: delays, target: orders, headers: {prefix: x-wheel-}}]\n")
	if out, err := command(t, "", "cancel", "-c", config, "0-0-1767225605123", "reminder-17"); err != nil {
		t.Fatalf("printed %q, %v", out, err)
	}
	for i, r := range fetch(t, addr, "delays", 2) {
		if got := headers(r); len(got) != 1 || got["x-wheel-cancel"] == "" {
			t.Errorf("%d: %v", i, got)
		}
	}
}

// A delay counts from the broker's timestamp where that writes them, so the handle is not known; of a time it is.
func TestProduceWithLogAppendTime(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"orders": 1})
	if err := c.CreateTopic("delays", 1, map[string]string{"message.timestamp.type": "LogAppendTime"}); err != nil {
		t.Fatal(err)
	}
	for flags, says := range map[string]string{"--for 1h": "; without a handle", "--until 2100-01-01T00:00:00Z": ", handle 0-"} {
		out, err := command(t, "", append([]string{"produce", "-b", addr, "-t", "delays", "--to", "orders", "-v", "x"}, strings.Fields(flags)...)...)
		if err != nil || !strings.Contains(out, says) {
			t.Errorf("%s: printed %q, %v; want %q", flags, out, err, says)
		}
	}
}

// An id is known in one partition alone, so what names one has a key or a partition.
func TestProduceWithAnIDSaysWhere(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 3, "single": 1, "orders": 1})
	produce := func(topic, args string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), append([]string{"produce", "-b", addr, "-t", topic, "--to", "orders", "--for", "1h", "-v", "x"}, strings.Fields(args)...), strings.NewReader(""), &out, &out)
		return out.String(), err
	}
	const refused, note = "the id r-17 is looked for in one partition only, and without a key a record goes to any: give the key", "note: an id is known in its partition alone"
	for _, args := range []string{"--replace r-17", "-H delay-replace=r-17"} {
		if out, err := produce("delays", args); err == nil || !strings.Contains(err.Error(), refused) || strings.Contains(out, "@") {
			t.Errorf("%s: printed %q, %v; want %q", args, out, err, refused)
		}
		for _, good := range []string{"delays -k 17", "delays -p 2", "delays --no-check", "single"} {
			topic, more, _ := strings.Cut(good, " ")
			if out, err := produce(topic, args+" "+more); err != nil || strings.Contains(out, note) {
				t.Errorf("%s to %s: printed %q, %v", args, good, out, err)
			}
		}
	}
	for args, noted := range map[string]bool{"--id r-18": true, "--id r-19 -k 17": false, "--id r-20 -p 1": false, "-k 17": false} {
		if out, err := produce("delays", args); err != nil || strings.Contains(out, note) != noted {
			t.Errorf("%s: printed %q, %v", args, out, err)
		}
	}
	const beside = "note: a record that cancels does nothing else: --for, --to passed over\n"
	if out, err := produce("delays", "-H delay-cancel=r-18"); err != nil || !strings.Contains(out, beside) {
		t.Errorf("a cancel beside a delay: printed %q, %v; want %q", out, err, beside)
	}
}

// A replacement goes to the partition that its handle names, and has a handle of its own.
func TestProduceReplacement(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 3, "orders": 1})
	produce := func(args ...string) (string, error) {
		return command(t, "", append([]string{"produce", "-b", addr, "-t", "delays", "--to", "orders", "--until", "2100-01-01T00:00:00Z", "-v", "x", "-k", "k"}, args...)...)
	}
	for i, want := range []string{"handle 2-0-4102444800000\n", "handle 2-1-4102444800000\n"} {
		if out, err := produce("--replace", "2-0-1767225605123"); err != nil || !strings.HasSuffix(out, want) {
			t.Fatalf("%d: printed %q, %v", i, out, err)
		}
	}
	if r := fetch(t, addr, "delays", 2)[0]; r.Partition != 2 || headers(r)["delay-replace"] != "2-0-1767225605123" {
		t.Errorf("written to %d with %v", r.Partition, headers(r))
	}
	for _, bad := range []struct {
		args []string
		says string
	}{
		{[]string{"--replace", "2-0-1767225605123", "--id", "x"}, "has no id"},
		{[]string{"--replace", "x", "--id", "y"}, "no other"},
		{[]string{"--id", "2-0-1767225605123"}, "like a handle"},
		{[]string{"--id", ""}, "--id is empty"},
		{[]string{"--replace", ""}, "--replace is empty"},
		{[]string{"--to-key", ""}, "--to-key is empty"},
		{[]string{"--replace", "2-0-1767225605123", "-p", "1"}, "belongs into the partition of what it replaces, which is 2"},
		{[]string{"--replace", "9-0-1767225605123"}, "has no partition 9"},
		{[]string{"--replace", "2-0-1767225605123", "-H", "delay-replace=1-0-1"}, "a flag has given delay-replace already"},
	} {
		if out, err := produce(bad.args...); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%v: printed %q, %v; want an error that says %q", bad.args, out, err, bad.says)
		}
	}
	if out, err := command(t, "", "produce", "-b", addr, "-t", "delays", "-v", "", "-p", "0", "-H", "delay-cancel=2-0-1767225605123"); err != nil || !strings.HasSuffix(out, "asks to cancel 2-0-1767225605123\n") {
		t.Errorf("a cancel by header: printed %q, %v", out, err)
	}
}
