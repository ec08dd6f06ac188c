package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// lookNow is the time of these tests, in a zone of its own.
var lookNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).In(time.FixedZone("CET", 3600))

// fixTime sets the clock by which due times are told.
func fixTime(t *testing.T) {
	t.Helper()
	wallClock = func() time.Time { return lookNow }
	t.Cleanup(func() { wallClock = time.Now })
}

// lookStory is a cluster, and what is said of it.
type lookStory struct {
	*testing.T
	c            *kfake.Cluster
	addr, config string
}

// Each file in testdata/look is a story of one group, in which a time is from noon on: +2h, -10m.
//
//	topics <name>=<partitions>...
//	config                      the configuration, as $CONFIG
//	write <header>=<value>... [partition= key= at= due= forwarded=<written at>]   a record; its value is the input
//	copy of=<offset> due=       a carried copy of what lies there, of the topic delays
//	cut to=<offset>             the log of that loses what lies below
//	checkpoint topic= partition= o= [w=<due>:<seq>] [l=] [parsers=<from>:<spec>;…] [version=]
//	run                         a command, as a line; what it has printed, its notes, and its error
func TestLook(t *testing.T) {
	fixTime(t)
	t.Setenv("LC_ALL", "C.UTF-8")
	datadriven.Walk(t, "testdata/look", func(t *testing.T, path string) {
		s := &lookStory{T: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.T = t
			return s.do(d)
		})
	})
}

func (s *lookStory) do(d *datadriven.TestData) string {
	switch d.Cmd {
	case "topics":
		all := map[string]int32{}
		for _, a := range d.CmdArgs {
			n, _ := strconv.Atoi(a.Vals[0])
			all[a.Key] = int32(n)
		}
		s.c, s.addr = cluster(s.T, all)
	case "config":
		s.config = writeFile(s.T, "duewheel.yaml", "kafka: {brokers: '"+s.addr+"'}\ngroup: {id: g}\n"+d.Input+"\n")
	case "write":
		return s.write(d)
	case "copy":
		return s.copy(d)
	case "cut":
		n, _ := strconv.Atoi(d.CmdArgs[0].Vals[0])
		if err := s.c.DeleteRecords("delays", 0, int64(n)); err != nil {
			s.Fatal(err)
		}
	case "checkpoint":
		s.checkpoint(d)
	case "run":
		args := strings.Fields(strings.NewReplacer("$CONFIG", s.config, "$B", "-b "+s.addr+" -g g").Replace(d.Input))
		out, notes, err := both(s.T, args...)
		if notes != "" {
			out += "-- notes\n" + notes
		}
		if err != nil {
			out += "-- error\n" + err.Error() + "\n"
		}
		return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(out, "broker")
	default:
		s.Fatalf("there is no command %s", d.Cmd)
	}
	return ""
}

// instant reads a time of a story.
func (s *lookStory) instant(text string) time.Time {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.Fatal(err)
	}
	return lookNow.Add(d)
}

func (s *lookStory) write(d *datadriven.TestData) string {
	r := &kgo.Record{Topic: "delays", Timestamp: lookNow.Add(-time.Hour), Value: []byte(d.Input)}
	for _, a := range d.CmdArgs {
		v := strings.Join(a.Vals, ",")
		switch a.Key {
		case "topic":
			r.Topic = v
		case "partition":
			n, _ := strconv.Atoi(v)
			r.Partition = int32(n)
		case "key":
			r.Key = []byte(v)
		case "at":
			r.Timestamp = s.instant(v)
		case "due":
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderUntil, Value: strconv.AppendInt(nil, s.instant(v).UnixMilli(), 10)})
		case "resolves": // an offset and the due time of what lies there
			id := s.c.TopicInfo(r.Topic).TopicID
			offset, due, _ := strings.Cut(v, ":")
			seq, _ := strconv.ParseInt(offset, 10, 64)
			r.Headers = append(r.Headers, topics.Resolve(topics.NewMark([4]byte(id[:4]), "g", r.Partition), seq, s.instant(due).UnixMilli(), seq)...)
		case "forwarded":
			id := s.c.TopicInfo(r.Topic).TopicID
			r.Headers, _ = topics.AppendForward(nil, r.Headers, topics.NewMark([4]byte(id[:4]), "g", r.Partition), r.Partition+1, 7, s.instant(v).UnixMilli(), nil)
		default:
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: a.Key, Value: []byte(v)})
		}
	}
	if d.Input == "null" {
		r.Value = nil
	}
	cl := client(s.T, s.addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.ProduceSync(s.Context(), r).FirstErr(); err != nil {
		s.Fatal(err)
	}
	return fmt.Sprintf("%s/%d@%d\n", r.Topic, r.Partition, r.Offset)
}

func (s *lookStory) copy(d *datadriven.TestData) string {
	at, _ := strconv.Atoi(d.CmdArgs[0].Vals[0])
	from := client(s.T, s.addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"delays": {0: kgo.NewOffset().At(int64(at))}}))
	r := from.PollRecords(s.Context(), 1).Records()[0]
	id := s.c.TopicInfo("delays").TopicID
	mark := topics.NewMark([4]byte(id[:4]), "g", 0)
	written, c, is := mark.Copied(r.Headers, r.Offset)
	if !is {
		c = topics.Copy{Seq: r.Offset, Due: s.instant(d.CmdArgs[1].Vals[0]).UnixMilli(), Timestamp: r.Timestamp.UnixMilli()}
	}
	c.From = r.Offset
	copied := &kgo.Record{Topic: "delays", Key: r.Key, Value: r.Value, Timestamp: lookNow}
	copied.Headers, _ = topics.AppendCopy(nil, written, mark, c, nil)
	if err := client(s.T, s.addr, kgo.RecordPartitioner(kgo.ManualPartitioner())).ProduceSync(s.Context(), copied).FirstErr(); err != nil {
		s.Fatal(err)
	}
	return fmt.Sprintf("delays/0@%d\n", copied.Offset)
}

func (s *lookStory) checkpoint(d *datadriven.TestData) {
	topic, partition, version := "delays", 0, "dw1"
	c := state.Checkpoint{Parsers: []state.ParserEpoch{{Spec: "p1"}}}
	for _, a := range d.CmdArgs {
		v := strings.Join(a.Vals, ",")
		n, _ := strconv.Atoi(v)
		switch a.Key {
		case "topic":
			topic = v
		case "partition":
			partition = n
		case "o":
			c.Offset = int64(n)
		case "l":
			c.LowWater = int64(n)
		case "w":
			due, seq, _ := strings.Cut(v, ":")
			at, _ := strconv.Atoi(seq)
			c.Watermark = state.Key{Due: s.instant(due).UnixMilli(), Seq: int64(at)}
		case "parsers":
			c.Parsers = nil
			for _, epoch := range strings.Split(v, ";") {
				from, spec, _ := strings.Cut(epoch, ":")
				at, _ := strconv.ParseInt(from, 10, 64)
				c.Parsers = append(c.Parsers, state.ParserEpoch{From: at, Spec: spec})
			}
		case "version":
			version = v
		}
	}
	id := s.c.TopicInfo(topic).TopicID
	c.TopicID = [4]byte(id[:4])
	m, err := c.Metadata()
	if err != nil {
		s.Fatal(err)
	}
	commit(s.T, s.addr, topic, int32(partition), c.Offset, strings.Replace(m, "dw1", version, 1))
}

// denyGroup answers who may not describe a group.
func denyGroup(req kmsg.Request) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
	for _, g := range req.(*kmsg.OffsetFetchRequest).Groups {
		rg := kmsg.NewOffsetFetchResponseGroup()
		rg.Group, rg.ErrorCode = g.Group, kerr.GroupAuthorizationFailed.Code
		resp.Groups = append(resp.Groups, rg)
	}
	return resp
}

// denyFetch answers who may not read a topic.
func denyFetch(req kmsg.Request) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, tp := range req.(*kmsg.FetchRequest).Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = tp.Topic, tp.TopicID
		for _, p := range tp.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// What a cluster refuses is said with what to ask for.
func TestLookWithoutRights(t *testing.T) {
	for _, c := range []struct {
		name string
		key  int16
		deny func(kmsg.Request) kmsg.Response
		says string
	}{
		{"to the group", int16(kmsg.OffsetFetch), denyGroup, "ask for the right to Describe that group (kafka-acls.sh --add --operation Describe --group g)"},
		{"to read the topic", int16(kmsg.Fetch), denyFetch, "ask for the right to Read delays"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster, addr := cluster(t, map[string]int32{"delays": 3, "orders": 1})
			fill(t, addr, "delays", 3, 3)
			cluster.ControlKey(c.key, func(req kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				return c.deny(req), nil, true
			})
			for _, args := range [][]string{{"ls"}, {"agenda"}, {"get", "some-id"}} {
				out, _, err := both(t, append(args, "-b", addr, "-g", "g", "-t", "delays")...)
				if err == nil || strings.Count(err.Error(), c.says) != 1 || strings.Contains(out, "nothing is pending") {
					t.Errorf("%v: printed %q, %v; want an error that says once %q, of all partitions", args, out, err, c.says)
				}
			}
			if c.key != int16(kmsg.Fetch) {
				return
			}
			for _, args := range [][]string{{"dlq", "ls", "-t", "delays"}, {"dlq", "show", "-t", "delays", "0@0"}} {
				if out, _, err := both(t, append(args, "-b", addr)...); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v: printed %q, %v; want an error that says %q", args, out, err, c.says)
				}
			}
		})
	}
}

// A leader that sends nothing, or moves, is asked again; a command that is given up ends.
func TestLookAgain(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	fill(t, addr, "delays", 1, 3)
	for name, answer := range map[string]func(*kmsg.FetchRequest, *kmsg.FetchResponse){
		"it has moved": func(_ *kmsg.FetchRequest, resp *kmsg.FetchResponse) { resp.ErrorCode = kerr.NotLeaderForPartition.Code },
		"it has just become the leader, and does not know yet what is committed": func(req *kmsg.FetchRequest, resp *kmsg.FetchResponse) {
			topic, partition := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
			topic.Topic, topic.TopicID, topic.Partitions = req.Topics[0].Topic, req.Topics[0].TopicID, append(topic.Partitions, partition)
			resp.Topics = append(resp.Topics, topic)
		},
	} {
		refused := 0
		c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			if refused++; refused > 2 {
				return nil, nil, false
			}
			c.KeepControl()
			resp := req.ResponseKind().(*kmsg.FetchResponse)
			answer(req.(*kmsg.FetchRequest), resp)
			return resp, nil, true
		})
		out, _, err := both(t, "ls", "-b", addr, "-g", "g", "-t", "delays", "-o", "json")
		if err != nil || strings.Count(out, "\n") != 3 || refused < 2 {
			t.Errorf("%s: printed %q, %v, after %d refusals", name, out, err, refused)
		}
	}
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		resp.ErrorCode = kerr.NotLeaderForPartition.Code
		return resp, nil, true
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	if err := run(ctx, []string{"ls", "-b", addr, "-g", "g", "-t", "delays"}, strings.NewReader(""), &strings.Builder{}, &strings.Builder{}); err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// On a terminal it is shown how far what takes long is, and taken away at the end; elsewhere nothing is.
func TestBar(t *testing.T) {
	var shown, hidden strings.Builder
	b := &bar{w: &shown, live: true, began: time.Now()}
	b.add(0, 1000) // is quick so far
	b.began = b.began.Add(-10 * time.Second)
	b.add(250, 0)
	b.add(1, 0) // too soon after that
	b.drawn = time.Time{}
	b.add(0, 4) // there is more to do
	b.end()
	b.end()
	b.add(700, 0)
	full := strings.Repeat("=", barWidth/4) + strings.Repeat(" ", barWidth-barWidth/4)
	if got, want := shown.String(), "\r["+full+"] 250 of 1000 (25 %), 30s left\x1b[K\r["+full+"] 251 of 1004 (25 %), 30s left\x1b[K\r\x1b[K"; got != want {
		t.Errorf("shown is\n%q, want\n%q", got, want)
	}
	none := newBar(&hidden)
	none.began = none.began.Add(-10 * time.Second)
	none.add(250, 1000)
	if none.end(); hidden.Len() > 0 {
		t.Errorf("printed %q", hidden.String())
	}
}

func TestSpans(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "in 0 ms"}, {999 * time.Millisecond, "in 999 ms"}, {time.Second, "in 1 s"}, {125 * time.Minute, "in 2 h 5 m"}, {-61 * time.Second, "1 m 1 s ago"},
		{49 * time.Hour, "in 2 d 1 h"}, {24*time.Hour + time.Second, "in 1 d"}, {time.Minute, "in 1 m"},
	} {
		if got := relative(lookNow.Add(c.d), lookNow); got != c.want {
			t.Errorf("%v is %q, want %q", c.d, got, c.want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 9_949: "9.9 kB", 12_345: "12 kB", 999_600: "1.0 MB", 185_000_000: "185 MB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1_234_567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// A replacement has all of the record but its due time, and a replica takes it for what it is.
func TestReschedule(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 2, "orders": 1, "delays.dead": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, targets: {allow: [orders]}}\n")
	handle := func(id string, args ...string) string {
		t.Helper()
		out, err := command(t, "", append([]string{"produce", "-c", config, "-t", "delays", "--to", "orders", "--for", "1h", "-p", "1", "-k", "k", "-v", id, "-H", "trace=17"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out[strings.LastIndex(out, " "):])
	}
	first := handle("first")
	handle("second", "--id", "second")
	third := handle("third")
	handle("fourth", "--id", "fourth")
	for _, args := range [][]string{{"reschedule", first, "--for", "2h"}, {"reschedule", "second", "--until", time.Now().Add(48 * time.Hour).Format(time.RFC3339)}, {"deliver-now", third}, {"deliver-now", "fourth"}} {
		out, err := command(t, "", append(args, "-c", config)...)
		if err != nil || !strings.Contains(out, "takes the place of 1-") {
			t.Errorf("%v: printed %q, %v", args, out, err)
		}
	}
	all := fetch(t, addr, "delays", 8)
	for i, r := range all[4:] {
		h := headers(r)
		if string(r.Key) != "k" || string(r.Value) != string(all[i].Value) || h["trace"] != "17" || h["delay-target-topic"] != "orders" || h["delay-replace"] == "" || h["delay-id"] != headers(all[i])["delay-id"] {
			t.Errorf("%s stands for %s with %v", r.Value, all[i].Value, h)
		}
	}
	if _, err := command(t, "", "reschedule", first, "--for", "3h", "-c", config); exitCode(err) != 1 || !strings.Contains(err.Error(), "does not wait: replaced by offset 4") {
		t.Errorf("once more: exit code %d, %v", exitCode(err), err)
	}
	stop, _ := start(t, addr, t.TempDir(), "-c", config)
	delivered := fetch(t, addr, "orders", 2)
	if got := string(delivered[0].Value) + " " + string(delivered[1].Value); got != "third fourth" {
		t.Errorf("delivered %s", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	out, err := command(t, "", "ls", "-c", config, "-o", "json")
	if err != nil || strings.Count(out, "\n") != 2 || !strings.Contains(out, `"offset":4`) || !strings.Contains(out, `"id":"second"`) {
		t.Errorf("left %s %v", out, err)
	}
	out, err = command(t, "", "get", "-c", config, "third")
	if err == nil {
		t.Errorf("an id that is none: %s", out)
	}
}

// That nothing is known of a record which its log has lost does not say that it was resolved, where not all was searched in which a copy may lie.
func TestRemovedUnlessCarried(t *testing.T) {
	one := &foundRecord{got: &ahead.Looked{Bounds: kafka.Bounds{Start: 7}}, searched: searched{to: 9, end: 9}}
	whole := removed("g", partitionOf{}, one, topics.Handle{}).Error()
	one.searched = searched{to: 8, end: 10}
	part := removed("g", partitionOf{}, one, topics.Handle{}).Error()
	const carried = "unless it was carried, to where the last 2 records of the log lie, which were not searched (--patience), or the topic had lost"
	if strings.Contains(whole, "carried") || !strings.Contains(part, carried) {
		t.Errorf("it is said:\n%s\n%s", whole, part)
	}
}

// What lies behind a transaction that is open for long is not there yet, and ls says so; get does not say that nothing has taken a record away.
func TestLookBehindATransaction(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	s := &lookStory{T: t, c: c, addr: addr}
	due := time.Since(lookNow).Round(time.Second) + 24*time.Hour
	s.write(&datadriven.TestData{Input: "v", CmdArgs: []datadriven.CmdArg{{Key: "due", Vals: []string{due.String()}}, {Key: "delay-target-topic", Vals: []string{"orders"}}}})
	s.checkpoint(&datadriven.TestData{CmdArgs: []datadriven.CmdArg{{Key: "o", Vals: []string{"1"}}}})
	cl := client(t, addr, kgo.TransactionalID("open"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "delays"}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	args := []string{"-b", addr, "-g", "g", "-t", "delays"}
	for _, group := range []string{"g", "new"} { // which has no checkpoint
		out, notes, err := both(t, append(args, "-g", group, "ls")...)
		if err != nil || !strings.Contains(out, "1 record is pending") || !strings.Contains(notes, "note: delays/0: a transaction is open there for long") {
			t.Errorf("%s: %v\n%s%s", group, err, out, notes)
		}
	}
	handle := topics.Handle{Due: lookNow.Add(due).UnixMilli()}.String()
	if out, _, err := both(t, append(args, "get", handle)...); err != nil || !strings.Contains(out, "unless the last record of the log has taken it away, which was not searched (an open transaction)") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Rows of a table are cut at the right edge of a terminal, and are whole elsewhere.
func TestCutter(t *testing.T) {
	var b strings.Builder
	c := &cutter{w: &b, columns: 5, end: "…"}
	for _, part := range []string{"abcde\nab", "cdef\nµµµµµµ\n", "", "\nrest"} {
		if n, err := c.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if got, want := b.String(), "abcde\nabcd…\nµµµµ…\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if w := cutting(&b); w != io.Writer(&b) {
		t.Error("what is no terminal is cut")
	}
}

// A few records that are due in a year leave those of the next minutes apart.
func TestFittingStep(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	for _, test := range []struct {
		overdue, soon, far int
		ahead              time.Duration
		want               step
	}{
		{0, 0, 1, 10 * time.Minute, byMinute}, {0, 0, 1, 24 * time.Hour, byHour}, {0, 0, 1, 30 * 24 * time.Hour, byDay},
		{0, 90, 10, 365 * 24 * time.Hour, byMinute}, {0, 89, 11, 365 * 24 * time.Hour, byDay}, {0, 89, 11, 24 * time.Hour, byHour},
		{50, 40, 10, 365 * 24 * time.Hour, byMinute}, {90, 0, 10, 365 * 24 * time.Hour, byMinute},
	} {
		s := schedule{zone: time.UTC}
		for range test.overdue {
			s.add(ahead.Pending{Due: now.UnixMilli() - 1}, now.UnixMilli())
		}
		for i := range test.soon {
			s.add(ahead.Pending{Due: now.UnixMilli() + int64(i)*1000}, now.UnixMilli())
		}
		for range test.far {
			s.add(ahead.Pending{Due: now.Add(test.ahead).UnixMilli()}, now.UnixMilli())
		}
		if got := s.fitting(now); got != test.want {
			t.Errorf("%d overdue, %d soon, %d in %v: got %v, want %v", test.overdue, test.soon, test.far, test.ahead, got, test.want)
		}
	}
}
