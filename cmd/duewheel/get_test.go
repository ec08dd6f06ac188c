package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/creack/pty"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/topics"
)

// What the audit topic tells of a record counts more than what the watermark lets suppose, also what it was told when the group had another name. It lies in the partition of the handle.
func TestGetReadsTheAuditTopic(t *testing.T) {
	fixTime(t)
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1, "audit": 3})
	s := &lookStory{T: t, c: c, addr: addr}
	s.write(&datadriven.TestData{Input: "v", CmdArgs: []datadriven.CmdArg{{Key: "due", Vals: []string{"-10m"}}, {Key: "delay-target-topic", Vals: []string{"orders"}}}})
	s.checkpoint(&datadriven.TestData{CmdArgs: []datadriven.CmdArg{{Key: "o", Vals: []string{"1"}}, {Key: "w", Vals: []string{"-5m:0"}}}})
	due := lookNow.Add(-10 * time.Minute).UnixMilli()
	handle := topics.Handle{Due: due}
	cl := client(t, addr)
	for _, a := range []topics.Audit{
		{Event: topics.AuditAccepted, Of: handle, In: topics.AppendAuditIn(nil, "delays", "former", due-1000)},
		{Event: topics.AuditDelivered, Of: handle, In: topics.AppendAuditIn(nil, "delays", "g", due+5), Target: "orders"},
		{Event: topics.AuditCancelled, Of: handle, In: topics.AppendAuditIn(nil, "delays", "another", due+6)},
		{Event: topics.AuditCancelled, Of: handle, In: topics.AppendAuditIn(nil, "others", "g", due+6)},
		{Event: topics.AuditCancelled, Of: topics.Handle{Offset: 1, Due: due}, In: topics.AppendAuditIn(nil, "delays", "g", due+7)},
	} {
		value, key := a.Append(nil)
		r := &kgo.Record{Topic: "audit", Key: slices.Clone(key), Value: topics.AppendPlace(value, topics.Place{Partition: 2, Offset: 7}), Timestamp: lookNow.Add(-time.Hour - time.Millisecond)} // by a clock that is behind
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"get", "-b", addr, "-g", "g", "-X", "group.identity=former", "-t", "delays", handle.String()}
	out, err := command(t, "", append(args, "--audit", "audit")...)
	if err != nil || !strings.Contains(out, "the audit topic says delivered in orders/2@7") || strings.Count(out, "accepted") != 1 || strings.Contains(out, "cancelled") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = command(t, "", append(args, "--audit", "audit", "-o", "json")...); err != nil || !strings.Contains(out, `"state":"delivered"`) {
		t.Errorf("%v\n%s", err, out)
	}
	// What was told before partitions were added lies in another one than that of the handle. Of a handle nothing is in the latter, so the others are looked at.
	added := 0
	for _, partitions := range []int{5, 7, 11} {
		if _, err := kadm.NewClient(cl).UpdatePartitions(t.Context(), partitions, "audit"); err != nil {
			t.Fatal(err)
		}
		if auditPartition("audit", handle.String(), partitions) != auditPartition("audit", handle.String(), 3) {
			added++
		}
		if out, err = command(t, "", append(args, "--audit", "audit")...); err != nil || !strings.Contains(out, "the audit topic says delivered in orders/2@7") {
			t.Errorf("with %d partitions: %v\n%s", partitions, err, out)
		}
	}
	if added == 0 {
		t.Error("the handle has stayed in its partition")
	}
	out, notes, err := both(t, append(args, "--audit", "nowhere")...)
	if err != nil || !strings.Contains(notes, "the audit topic nowhere was not read: it does not exist\n") || !strings.Contains(out, "delivered, or dead-lettered") {
		t.Errorf("without the topic: %v\n%s%s", err, out, notes)
	}
	// By which settings it was understood is not known any more, and so neither its due time, which its handle says.
	s.checkpoint(&datadriven.TestData{CmdArgs: []datadriven.CmdArg{{Key: "o", Vals: []string{"1"}}, {Key: "l", Vals: []string{"1"}}, {Key: "parsers", Vals: []string{"1:p1"}}}})
	if out, err = command(t, "", args...); err != nil || !strings.Contains(out, "by which settings it was understood is not known") || strings.Contains(out, handle.String()) {
		t.Errorf("forgotten: %v\n%s", err, out)
	}
	if out, err = command(t, "", append(args, "--audit", "audit")...); err != nil || !strings.Contains(out, "the audit topic says delivered in orders/2@7") || !strings.Contains(out, "handle  "+handle.String()) {
		t.Errorf("forgotten, and told of: %v\n%s", err, out)
	}
}

// An audit topic that is full tells of a record what became of it when it was due, however much it tells of others since that was written: also of one that was
// cancelled as it seems, and was not.
func TestGetReadsAFullAuditTopic(t *testing.T) {
	fixTime(t)
	due := lookNow.Add(-10 * time.Minute).UnixMilli()
	handle := topics.Handle{Due: due}
	written := lookNow.Add(-time.Hour).UnixMilli()
	for name, more := range map[string][]*kgo.Record{
		"resolved":  nil,
		"cancelled": {{Topic: "delays", Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(handle.String())}}, Timestamp: lookNow.Add(-30 * time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1, "audit": 1})
			s := &lookStory{T: t, c: c, addr: addr}
			s.write(&datadriven.TestData{Input: "v", CmdArgs: []datadriven.CmdArg{{Key: "due", Vals: []string{"-10m"}}, {Key: "delay-target-topic", Vals: []string{"orders"}}}})
			all := slices.Clone(more)
			s.checkpoint(&datadriven.TestData{CmdArgs: []datadriven.CmdArg{{Key: "o", Vals: []string{fmt.Sprint(1 + len(all))}}, {Key: "w", Vals: []string{"-5m:0"}}}})
			tell := func(event topics.AuditEvent, of topics.Handle, at int64) {
				a := topics.Audit{Event: event, Of: of, In: topics.AppendAuditIn(nil, "delays", "g", at)}
				value, key := a.Append(nil)
				all = append(all, &kgo.Record{Topic: "audit", Key: slices.Clone(key), Value: value, Timestamp: time.UnixMilli(at)})
			}
			tell(topics.AuditAccepted, handle, written)
			for i := range int64(30_000) {
				tell(topics.AuditAccepted, topics.Handle{Offset: 1 + i, Due: due}, written+i)
			}
			tell(topics.AuditDelivered, handle, due+5)
			if err := client(t, addr).ProduceSync(t.Context(), all...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			args := []string{"get", "-b", addr, "-g", "g", "-t", "delays", handle.String(), "-o", "json"}
			if out, _, err := both(t, args...); err != nil || !strings.Contains(out, `"state":"`+name+`"`) {
				t.Fatalf("without the audit topic: %v\n%s", err, out)
			}
			out, notes, err := both(t, append(args, "--audit", "audit", "--patience", "2ms")...)
			if err != nil || !strings.Contains(out, `"state":"delivered"`) || !strings.Contains(out, `"audit":[{"event":"accepted"`) || strings.Contains(notes, "were not read") {
				t.Errorf("%v\n%s%s", err, out, notes)
			}
		})
	}
}

// That a record waits is said with what else may have become of it, and what the audit topic tells of its beginning does not count more.
func TestGetSaysWhatWaits(t *testing.T) {
	for _, c := range []struct {
		to          int64
		audit       auditRow
		state, says string // what it ends with
	}{
		{9, auditRow{}, "pending", "due 2026-11-20 15:00:00 CET, in 2 h"},
		{7, auditRow{}, "pending", "in 2 h; unless one of the last 2 records of the log has taken it away, which were not searched (--patience)"},
		{8, auditRow{}, "pending", "in 2 h; unless the last record of the log has taken it away, which was not searched (--patience)"},
		{9, auditRow{Event: "accepted"}, "pending", "in 2 h"},
		{7, auditRow{Event: "cancelled", By: "0-7"}, "cancelled", "the audit topic says cancelled by 0-7"},
		{7, auditRow{Event: "dead_lettered", Code: "too_large", Message: "it has 2 MB"}, "dead_lettered", "the audit topic says dead_lettered: too_large: it has 2 MB"},
	} {
		due := lookNow.Add(2 * time.Hour).UnixMilli()
		one := &foundRecord{fate: ahead.Fate{Found: ahead.Found{Due: due}, Waits: ahead.Pending{Due: due, Read: true}}, searched: searched{to: c.to, end: 9}}
		if c.audit.Event != "" {
			one.audit = []auditRow{c.audit}
		}
		state, text := (&view{Looker: &ahead.Looker{Now: lookNow}}).says(one)
		if state != c.state || !strings.HasSuffix(text, c.says) {
			t.Errorf("%+v: %s: %s", c, state, text)
		}
	}
}

// What was taken away as far as the log was searched may have been resolved before, and what another one may have displaced may have been left out.
func TestGetSaysWhatElseMayBe(t *testing.T) {
	due := lookNow.Add(-time.Hour).UnixMilli()
	for _, c := range []struct {
		state ahead.State
		taken bool
		to    int64
		says  string // what it ends with
	}{
		{ahead.IsCancelled, false, 9, "cancelled by offset 5"},
		{ahead.IsReplaced, false, 7, "replaced by offset 5; unless one of the last 2 records of the log says that it was resolved before, which were not searched (--patience)"},
		{ahead.IsReplaced, false, 8, "replaced by offset 5; unless the last record of the log says that it was resolved before, which was not searched (--patience)"},
		{ahead.IsResolved, true, 8, ", and the last record of the log tells, which was not searched (--patience)"},
		{ahead.IsResolved, true, 7, "; or it was carried, or delivered before what is due earlier, and the last 2 records of the log tell, which were not searched (--patience)"},
	} {
		one := &foundRecord{fate: ahead.Fate{Found: ahead.Found{Due: due}, State: c.state, Taken: c.taken, By: 5}, searched: searched{to: c.to, end: 9}}
		if _, text := (&view{Looker: &ahead.Looker{Now: lookNow}}).says(one); !strings.HasSuffix(text, c.says) {
			t.Errorf("%+v: %s", c, text)
		}
	}
}

// An id that was copied from a list, which shows bytes in hex, and a handle that was mistyped are ids that nothing has.
func TestHintAtHandle(t *testing.T) {
	for id, want := range map[string]string{
		"3-8812":      "it is no handle",
		"a-b/3@8812,": "it says where a record lies",
		"a-b/3@8812":  "it says where a record lies",
		"orders/7":    "",
		"me@8812":     "",
		"0xfffe0001":  "name it by its handle",
		"0xfffe…":     "name it by its handle",
		"0xorders":    "",
		"0x":          "",
		"reminder-1":  "",
	} {
		if got := hintAtHandle(id); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q", id, got)
		}
	}
}

// A terminal gets the beginning of each header, and of what it says; anything else gets all of it.
func TestGetOnATerminal(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	due := time.Now().Add(time.Hour).UnixMilli()
	const n = 100_000
	r := &kgo.Record{Topic: "delays", Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "delay-until", Value: fmt.Append(nil, due)}, {Key: "delay-target-topic", Value: []byte("orders")},
		{Key: "kafka_exception-stacktrace", Value: bytes.Repeat([]byte("s"), n)}, {Key: strings.Repeat("k", n)}, {Key: "delay-id", Value: bytes.Repeat([]byte("i"), 300)}}}
	if err := client(t, addr).ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	args := []string{"get", "-b", addr, "-g", "g", "-t", "delays", topics.Handle{Due: due}.String()}
	on := func(args ...string) string {
		master, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		printed := make(chan string)
		go func() {
			b, _ := io.ReadAll(master) // which ends with an error when the other end is closed
			printed <- string(b)
		}()
		err = run(t.Context(), args, strings.NewReader(""), tty, io.Discard)
		if tty.Close(); err != nil {
			t.Error(err)
		}
		return <-printed
	}
	if out := on(args...); len(out) > 6000 || strings.Count(out, "… cut, of 100000 bytes; --whole shows all") != 2 {
		t.Errorf("a terminal gets %d bytes: %.6000s", len(out), out)
	}
	whole, _, err := both(t, args...)
	if out := on(append(args, "--whole")...); len(out) < 2*n || err != nil || len(whole) < 2*n || strings.Contains(whole, "cut") {
		t.Errorf("with --whole it gets %d bytes, and what is none %d, %v", len(out), len(whole), err)
	}
}

// The log and the audit topic share what patience there is.
func TestPatienceIsSpentOnce(t *testing.T) {
	o := getting{patience: 900 * time.Millisecond}
	if got := o.forLog(""); got != o.patience {
		t.Errorf("without an audit topic the log is searched for %v", got)
	}
	for spent, want := range map[time.Duration]time.Duration{100 * time.Millisecond: 800 * time.Millisecond, 600 * time.Millisecond: 300 * time.Millisecond, time.Minute: 300 * time.Millisecond} {
		if got := o.forAudit("audit", spent); got != want {
			t.Errorf("after %v the audit topic is read for %v, want %v", spent, got, want)
		}
	}
}

// A timestamp says when a request was written, unless it is by a clock that is ahead: what became of it may have been told before that.
func TestToldSince(t *testing.T) {
	at := func(s int) time.Time { return time.UnixMilli(1767225605123).Add(time.Duration(s) * time.Second) }
	for _, c := range []struct{ written, due, now, want time.Time }{
		{at(0), at(60), at(30), at(0)},
		{at(0), at(60), at(90), at(0)},
		{at(60), at(10), at(90), at(10)},
		{at(60), at(10), at(30), at(10)},
		{at(60), at(90), at(30), time.UnixMilli(0)},
	} {
		if got := toldSince(c.written, c.due, c.now); !got.Equal(c.want) {
			t.Errorf("written %v, due %v, now %v: %v, want %v", c.written, c.due, c.now, got, c.want)
		}
	}
}
