package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// `topics check` says of a topic where one id with one key lies in two partitions, with the id and both. The same id with two keys, one that is
// only cancelled, and what is on routes without ids is nothing to warn of.
func TestScatteredIDs(t *testing.T) {
	put := func(t *testing.T, addr, topic string, partition int32, key string, value []byte, headers ...string) {
		t.Helper()
		r := &kgo.Record{Topic: topic, Partition: partition, Value: value}
		if key != "" {
			r.Key = []byte(key)
		}
		for _, h := range headers {
			name, value, _ := strings.Cut(h, "=")
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		if err := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner())).ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	const due, to = "delay-for=1h", "delay-target-topic=orders"
	for _, tt := range []struct {
		name, route string
		fill        func(t *testing.T, addr string)
		want        string // "": nothing of ids
	}{
		{"two partitioners", "targets: {allow: [orders]}", func(t *testing.T, addr string) {
			for p := range int32(3) {
				put(t, addr, "delays", p, fmt.Sprint(p), nil, due, to, "delay-id=own")
			}
			put(t, addr, "delays", 2, "17", nil, due, to, "delay-id=reminder-17")
			put(t, addr, "delays", 0, "17", nil, due, to, "delay-id=reminder-17")
		}, `warning: delays: id "reminder-17" (key "17") is in partitions 0 and 2
    why:  an id is looked for in one partition only, so both records wait and both are delivered. Either their producers choose partitions differently, or partitions were added between the two
    mend: have all producers choose partitions as Java does; with kcat and other clients of librdkafka: -X partitioner=murmur2_random
`},
		{"several ids", "targets: {allow: [orders]}", func(t *testing.T, addr string) {
			for _, id := range []string{"a", "b", "c"} {
				put(t, addr, "delays", 0, "k", nil, due, to, "delay-id="+id)
			}
			for _, id := range []string{"b", "a", "b"} {
				put(t, addr, "delays", 1, "k", nil, due, to, "delay-id="+id)
			}
		}, `(key "k") is in partitions 0 and 1; of the 3 ids looked at, 2 are in more than one partition`},
		{"no key", "targets: {allow: [orders]}", func(t *testing.T, addr string) {
			put(t, addr, "delays", 1, "", nil, due, to, "delay-id=x")
			put(t, addr, "delays", 2, "", nil, due, to, "delay-id=x")
		}, "id \"x\" (no key) is in partitions 1 and 2\n"},
		{"a long id and a key that is no text", "targets: {allow: [orders]}", func(t *testing.T, addr string) {
			for p := range int32(2) {
				put(t, addr, "delays", p, "\xff"+strings.Repeat("k", 5000), nil, due, to, "delay-id="+strings.Repeat("é", 100))
			}
		}, `id "` + strings.Repeat("é", 59) + `…" (key "0xff` + strings.Repeat("6b", 29) + `…") is in partitions 0 and 1`},
		{"a key that is the id", "target: orders, mode: keyed", func(t *testing.T, addr string) {
			put(t, addr, "delays", 1, "17", []byte("x"), due)
			put(t, addr, "delays", 2, "17", []byte("x"), due)
		}, `key "17", which is the id, is in partitions 1 and 2`},
		{"a cancel elsewhere", "target: orders, mode: keyed", func(t *testing.T, addr string) {
			put(t, addr, "delays", 1, "17", []byte("x"), due)
			put(t, addr, "delays", 2, "17", nil)
			put(t, addr, "delays", 0, "17", []byte("x"), "delay-cancel=17")
			put(t, addr, "delays", 0, "18", []byte("x"), due, "delay-cancel=17")
		}, ""},
		{"one partition", "targets: {allow: [orders]}", func(t *testing.T, addr string) {
			put(t, addr, "delays", 1, "17", nil, due, to, "delay-id=x")
			put(t, addr, "delays", 1, "17", nil, due, to, "delay-id=x")
		}, ""},
		{"a fixed delay", "target: orders, delay: 1h", func(t *testing.T, addr string) {
			put(t, addr, "delays", 1, "17", nil, "delay-id=x")
			put(t, addr, "delays", 2, "17", nil, "delay-id=x")
		}, ""},
		{"a retry route", "target: orders, retry: {target: from_headers}", func(t *testing.T, addr string) {
			put(t, addr, "delays", 1, "17", nil, "delay-id=x")
			put(t, addr, "delays", 2, "17", nil, "delay-id=x")
		}, ""},
		{"nothing", "target: orders", func(*testing.T, string) {}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, addr := cluster(t, map[string]int32{"delays": 3, "delays.dead": 1, "orders": 1})
			tt.fill(t, addr)
			config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes: [{topic: delays, "+tt.route+"}, {topic: nowhere, target: orders}]\n")
			out, _ := command(t, "", "topics", "check", "-c", config)
			if warned := strings.Contains(out, " is in partitions "); warned != (tt.want != "") || !strings.Contains(out, tt.want) {
				t.Errorf("got:\n%s\nwant:\n%s", out, tt.want)
			}
		})
	}
}

// `topics check` says of a retry topic that one record comes to it again and again without the number of its attempt. What has it, what duewheel
// writes again, and what was replayed is nothing to warn of.
func TestCheckSaysThatHeadersAreDropped(t *testing.T) {
	for _, tt := range []struct {
		name    string
		headers []string // of each time that the record comes
		keys    []string
		want    bool
	}{
		{"dropped", []string{"", "", "", ""}, []string{"17", "17", "17", "17"}, true},
		{"dropped, and emptied", []string{"", "delay-attempt=", "delay-attempt=0", ""}, []string{"17", "17", "17", "17"}, true},
		{"replayed", []string{"", "", ""}, []string{"17", "17", "17"}, false},
		{"kept", []string{"", "delay-attempt=1", "delay-attempt=2", "delay-attempt=3"}, []string{"17", "17", "17", "17"}, false},
		{"other records", []string{"", "", "", ""}, []string{"17", "17", "18", "18"}, false},
		{"without keys", []string{"", "", "", ""}, []string{"", "", "", ""}, false},
		{"written by duewheel", []string{"", "", "", "delay-retry=x"}, []string{"17", "17", "17", "17"}, false},
		{"carried", []string{"", "", "", "delay-seq=x"}, []string{"17", "17", "17", "17"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, addr := cluster(t, map[string]int32{"again": 3, "again.dead": 1, "orders": 1})
			cl := client(t, addr)
			for i, h := range tt.headers {
				r := &kgo.Record{Topic: "again", Key: []byte(tt.keys[i]), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "delay-target-topic", Value: []byte("orders")}}}
				if name, v, has := strings.Cut(h, "="); has {
					r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(v)})
				}
				if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes: [{topic: again, target: orders, retry: {target: from_headers}}]\n")
			out, _ := command(t, "", "topics", "check", "-c", config)
			if got := strings.Contains(out, `warning: again: one record (key "17") has come 4 times without delay-attempt`); got != tt.want {
				t.Errorf("got:\n%s", out)
			}
		})
	}
}

// `topics check` notes the target of a retry route that several groups read, and no other.
func TestCheckSaysThatGroupsShareATarget(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"again": 1, "again.dead": 1, "delays": 1, "delays.dead": 1, "orders": 1, "single": 1, "other": 1})
	adm := kadm.NewClient(client(t, addr))
	for group, of := range map[string][]string{"app": {"orders", "single", "other"}, "stock": {"orders", "other"}, "g": {"single"}} {
		var offsets kadm.Offsets
		for _, topic := range of {
			offsets.AddOffset(topic, 0, 5, -1)
		}
		if err := adm.CommitAllOffsets(t.Context(), group, offsets); err != nil {
			t.Fatal(err)
		}
	}
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes: [{topic: again, targets: {allow: [orders, single, 's*']}, retry: {target: from_headers}}, {topic: delays, target: other}]\n")
	out, _ := command(t, "", "topics", "check", "-c", config)
	if !strings.Contains(out, "note: orders: groups app, stock read it\n") || strings.Count(out, " read it\n") != 1 {
		t.Errorf("got:\n%s", out)
	}
}

// Of a long log the end alone is read, and a partition that does not answer is not waited for longer than a sample may take.
func TestSampleIsBounded(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 2, "delays.dead": 1, "orders": 1})
	cl := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	const n = sampleRecords
	for i := range n {
		cl.Produce(t.Context(), &kgo.Record{Topic: "delays", Partition: int32(i & 1), Headers: []kgo.RecordHeader{{Key: "delay-for", Value: []byte("1h")}}}, nil)
		cl.Produce(t.Context(), &kgo.Record{Topic: "delays", Partition: int32(i & 1), Headers: []kgo.RecordHeader{{Key: "delay-for", Value: []byte("1h")}}}, nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	reader := client(t, addr, sampleOpts()...)
	all, err := lastOf(t.Context(), newPatient(reader), "delays")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	sample(t.Context(), reader, all, func(r *kgo.Record) { seen++ })
	if seen != n {
		t.Errorf("%d records of %d are looked at, want the last %d", seen, 2*n, n)
	}

	other := client(t, addr, sampleOpts()...)
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, errors.New("silence"), true // the connection is cut
	})
	began := time.Now()
	sample(t.Context(), other, all, func(*kgo.Record) { t.Error("something came") })
	if passed := time.Since(began); passed > 10*sampleTime {
		t.Errorf("it was waited for %v", passed)
	}
}
