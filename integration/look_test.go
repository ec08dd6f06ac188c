package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench"
	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/topics"
)

// near is a request that is due while the test runs.
type nearRequest struct {
	due     int64     // ms
	written time.Time // it was acknowledged before
}

// lookout knows what is pending without asking: what it has written, and what has arrived.
type lookout struct {
	*tenant
	looker *ahead.Looker
	id     kafka.TopicID
	far    map[topics.Place]int64 // due in hours, and neither cancelled nor replaced: due

	carried  int // records of one look that were read where they were carried to, at most
	commands int // how often commands were asked
	unread   int // how often a record was not listed since it lay behind an open transaction

	mu        sync.Mutex
	near      map[topics.Place]nearRequest
	delivered map[topics.Place]time.Time // when it was seen
}

// What a looker says is pending is what is pending, while replicas are killed, partitions move, and what is far is carried: all that is due later and was
// not taken away, and nothing that has arrived. The commands say the same.
func TestLookWhileReplicasRun(t *testing.T) { lookWhileReplicasRun(t, shared(t), func() {}) }

// lookWhileLeadersMove is the same with three brokers, of which one is restarted after the other, so that logs and checkpoints are led by others.
func lookWhileLeadersMove(t *testing.T, c *brokers.Cluster) {
	lookWhileReplicasRun(t, c, func() {
		for n := 1; n <= 3; n++ {
			if err := c.Node(n).Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if err := c.Node(n).Start(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func lookWhileReplicasRun(t *testing.T, c *brokers.Cluster, meanwhile func()) {
	const farEach = 400
	// What is far is written as if it were more than half as old, and long before brokers may delete it.
	s := newTenant(t, c, setting{seed: newSeed(t), delayConfig: map[string]string{"retention.ms": "200000"}})
	routes, err := topics.NewRoutes(s.route)
	if err != nil {
		t.Fatal(err)
	}
	o := &lookout{tenant: s, far: map[topics.Place]int64{}, near: map[topics.Place]nearRequest{}, delivered: map[topics.Place]time.Time{}}
	o.looker = &ahead.Looker{Client: s.client, Group: s.name, Skew: time.Second, Now: time.Now(), Route: func(string) *topics.Route { return routes[0] }}
	details, err := s.admin.ListTopics(t.Context(), s.route.Topic)
	if err != nil {
		t.Fatal(err)
	}
	o.id = kafka.TopicID(details[s.route.Topic].ID)
	o.writeFar(farEach)
	o.look() // before any replica has read anything
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { o.writeNear(ctx) })
	wg.Go(func() { o.readTargets(ctx) })
	k := s.newKiller(2)
	struck := make(chan struct{})
	t.Cleanup(func() { <-struck }) // it tells this test what goes wrong
	var much atomic.Bool
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		meanwhile()
	}()
	go func() {
		defer close(struck)
		defer func() { <-moved }()
		for k.kills < 5 || !much.Load() && k.kills < mostKills {
			k.strike()
		}
	}()
	looks := 0
	for over := false; !over || looks < 10; {
		release := func() {}
		if looks%4 == 0 {
			release = o.hold()
		}
		o.look()
		release()
		if looks++; looks%8 == 0 {
			o.command()
		}
		much.Store(o.carried >= farEach && o.arrived() >= 500)
		select {
		case <-struck:
			over = true
		case <-time.After(200 * time.Millisecond):
		}
	}
	o.look()
	o.command()
	cancel()
	wg.Wait()
	k.terminate()
	o.mu.Lock()
	defer o.mu.Unlock()
	t.Logf("looked %d times, and %d times by commands, while replicas were killed %d times, %d of them inside an open transaction; %d records arrived, and at most %d of %d had been carried at one time",
		looks, o.commands, k.kills, k.open, len(o.delivered), o.carried, len(o.far))
	if o.commands < 2 || len(o.delivered) < 500 || o.carried < farEach || o.unread == 0 {
		t.Errorf("too little has happened; %d records were behind an open transaction", o.unread)
	}
}

// produce writes records, and returns where they lie.
func (o *lookout) produce(rs ...*kgo.Record) {
	o.t.Helper()
	cl, err := kgo.NewClient(append(o.opts(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		o.t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(o.t.Context(), rs...).FirstErr(); err != nil {
		o.t.Fatal(err)
	}
}

func (o *lookout) request(partition int32, due int64, more ...string) *kgo.Record {
	r := &kgo.Record{Topic: o.route.Topic, Partition: partition, Value: []byte("v"), Headers: []kgo.RecordHeader{
		{Key: topics.HeaderUntil, Value: strconv.AppendInt(nil, due, 10)}, {Key: topics.HeaderTargetTopic, Value: []byte(o.targets[0])}}}
	for i := 0; i < len(more); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: more[i], Value: []byte(more[i+1])})
	}
	return r
}

func placeOf(r *kgo.Record) topics.Place {
	return topics.Place{Partition: r.Partition, Offset: r.Offset}
}

// writeFar writes what is due in hours; each seventh is cancelled, by handle or id, and each eleventh replaced.
func (o *lookout) writeFar(each int) {
	due := time.Now().Add(3 * time.Hour).UnixMilli()
	for p := range int32(4) {
		var all []*kgo.Record
		for i := range each {
			r := o.request(p, due+int64(i), topics.HeaderID, fmt.Sprintf("far-%d-%d", p, i))
			r.Timestamp = time.Now().Add(-110 * time.Second)
			all = append(all, r)
		}
		o.produce(all...)
		for i, r := range all {
			handle := topics.Handle{Partition: p, Offset: r.Offset, Due: due + int64(i)}.String()
			name := map[bool]string{true: fmt.Sprintf("far-%d-%d", p, i), false: handle}[i%2 == 0]
			switch {
			case i%7 == 0:
				o.produce(&kgo.Record{Topic: o.route.Topic, Partition: p, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(name)}}})
			case i%11 == 0:
				again := o.request(p, due+1_000_000, topics.HeaderReplace, name)
				o.produce(again)
				o.far[placeOf(again)] = due + 1_000_000
			default:
				o.far[placeOf(r)] = due + int64(i)
			}
		}
	}
}

// hold opens a transaction of a producer in each partition, and writes something behind its first record: that is not there yet to those who read. It returns what ends it.
func (o *lookout) hold() (release func()) {
	o.t.Helper()
	cl, err := kgo.NewClient(append(o.opts(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(o.name+"-by-hand"))...)
	if err != nil {
		o.t.Fatal(err)
	}
	if err := cl.BeginTransaction(); err != nil {
		o.t.Fatal(err)
	}
	inEach := func(due time.Time) (rs []*kgo.Record) {
		for p := range int32(4) {
			rs = append(rs, o.request(p, due.UnixMilli()))
		}
		return rs
	}
	if err := cl.ProduceSync(o.t.Context(), inEach(time.Now().Add(30*time.Minute))...).FirstErr(); err != nil {
		o.t.Fatal(err)
	}
	due := time.Now().Add(20 * time.Second) // after the look that follows
	behind := inEach(due)
	o.produce(behind...)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range behind {
		o.near[placeOf(r)] = nearRequest{due.UnixMilli(), time.Now()}
	}
	return func() {
		defer cl.Close()
		if err := cl.EndTransaction(context.WithoutCancel(o.t.Context()), kgo.TryAbort); err != nil {
			o.t.Error(err)
		}
	}
}

// writeNear writes what is due within two seconds until it is told to stop.
func (o *lookout) writeNear(ctx context.Context) {
	cl, err := kgo.NewClient(append(o.opts(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		o.t.Error(err)
		return
	}
	defer cl.Close()
	for i := 0; ctx.Err() == nil; i++ {
		due := time.Now().UnixMilli() + int64(i*37%2000)
		r := o.request(int32(i%4), due)
		cl.Produce(context.WithoutCancel(ctx), r, func(r *kgo.Record, err error) {
			if err != nil {
				o.t.Errorf("write: %v", err)
				return
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.near[placeOf(r)] = nearRequest{due, time.Now()}
		})
		passes(o.t, 2*time.Millisecond)
	}
	if err := cl.Flush(context.WithoutCancel(ctx)); err != nil {
		o.t.Error(err)
	}
}

// readTargets notes what arrives.
func (o *lookout) readTargets(ctx context.Context) {
	cl, err := kgo.NewClient(append(o.opts(), kgo.ConsumeTopics(o.targets...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		o.t.Error(err)
		return
	}
	defer cl.Close()
	for ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			parts := strings.Split(string(topics.Last(r.Headers, topics.HeaderSource)), "/")
			partition, _ := strconv.Atoi(parts[1])
			offset, _ := strconv.ParseInt(parts[2], 10, 64)
			o.mu.Lock()
			defer o.mu.Unlock()
			o.delivered[topics.Place{Partition: int32(partition), Offset: offset}] = time.Now()
		})
	}
}

// arrived is how many records have.
func (o *lookout) arrived() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.delivered)
}

// stable is up to where each partition can be read: the first offset of its oldest open transaction, or its end.
func (o *lookout) stable() (ends [4]int64) {
	o.t.Helper()
	var listed kadm.ListedOffsets
	eventually(o.t, func() string { // leaders move
		var err error
		if listed, err = o.admin.ListCommittedOffsets(o.t.Context(), o.route.Topic); err == nil {
			err = listed.Error()
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	for p := range ends {
		end, _ := listed.Lookup(o.route.Topic, int32(p))
		ends[p] = end.Offset
	}
	return ends
}

// list is what a looker says is pending: when it is due; and up to where it has read each partition.
func (o *lookout) list() (listed map[topics.Place]int64, readTo [4]int64) {
	o.t.Helper()
	listed = map[topics.Place]int64{}
	carried := 0
	for p := range int32(4) {
		got, err := o.looker.Look(o.t.Context(), kafka.TopicPartition{Topic: o.route.Topic, Partition: p}, o.id)
		if err != nil {
			o.t.Fatalf("look: %v", err)
		}
		for w := range got.All() {
			listed[topics.Place{Partition: p, Offset: w.Offset}] = w.Due
			if w.Place != w.Offset {
				carried++
			}
		}
		readTo[p] = got.ReadTo
	}
	o.carried = max(o.carried, carried)
	return listed, readTo
}

// command compares what ls, agenda and get say of what is far.
func (o *lookout) command() {
	o.t.Helper()
	o.commands++
	ask := func(into any, args ...string) {
		o.t.Helper()
		cmd := exec.CommandContext(o.t.Context(), buildBinary(o.t), append(args, "-b", strings.Join(o.cluster.Addrs(), ","), "-g", o.name, "-t", o.route.Topic, "-o", "json")...)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal([]byte("["+strings.ReplaceAll(strings.TrimSpace(string(out)), "}\n{", "},\n{")+"]"), into)
		}
		if err != nil {
			o.t.Fatalf("%v: %v\n%s", args, err, said.String())
		}
	}
	var bars []struct{ Records int }
	ask(&bars, "agenda", "--after", "2h")
	sum := 0
	for _, bar := range bars {
		sum += bar.Records
	}
	var rows []struct {
		Partition   int32
		Offset, Due int64
		Handle      string
	}
	ask(&rows, "ls", "--after", "2h", "--limit", "0")
	if sum != len(o.far) || len(rows) != len(o.far) {
		o.t.Errorf("%d records are far; the agenda has %d, and %d are listed", len(o.far), sum, len(rows))
	}
	for _, row := range rows {
		if due := o.far[topics.Place{Partition: row.Partition, Offset: row.Offset}]; due != row.Due {
			o.t.Errorf("listed is %+v, and it is due at %d", row, due)
		}
	}
	if len(rows) == 0 {
		return
	}
	var one []struct{ State string }
	handle := rows[o.commands*97%len(rows)].Handle
	if ask(&one, "get", handle); len(one) != 1 || one[0].State != "pending" {
		o.t.Errorf("%s is %+v", handle, one)
	}
}

// look compares what a looker says with what is known.
func (o *lookout) look() {
	o.t.Helper()
	began, stable := time.Now(), o.stable()
	listed, readTo := o.list()
	for p, end := range stable {
		if readTo[p] < end {
			o.t.Errorf("partition %d was read up to %d, and its end was %d", p, readTo[p], end)
		}
	}
	arrived := o.compare(listed, readTo, began, time.Now())
	if len(arrived) == 0 {
		return
	}
	// The end of a transaction reaches the checkpoint after the target, whenever brokers come to that.
	eventually(o.t, func() string {
		listed, _ := o.list()
		for _, at := range arrived {
			if _, has := listed[at]; has {
				return fmt.Sprintf("%v has arrived, and is listed", at)
			}
		}
		return ""
	})
}

// compare returns what is listed that had arrived before.
func (o *lookout) compare(listed map[topics.Place]int64, readTo [4]int64, began, ended time.Time) (arrived []topics.Place) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for at, due := range o.far {
		if listed[at] != due {
			o.t.Errorf("%v is due at %d, and the looker says %d", at, due, listed[at])
		}
	}
	for at, due := range listed {
		_, far := o.far[at]
		if due > ended.Add(time.Hour).UnixMilli() && !far {
			o.t.Errorf("%v was taken away, and is listed", at)
		}
		if seen, ok := o.delivered[at]; ok && seen.Before(began) {
			arrived = append(arrived, at)
		}
	}
	for at, r := range o.near {
		if _, has := listed[at]; has || r.written.After(began) || r.due <= ended.UnixMilli()+1000 {
			continue
		}
		if at.Offset >= readTo[at.Partition] {
			o.unread++ // a transaction is open before it: replicas do not see it either
			continue
		}
		o.t.Errorf("%v is due in %d ms, and is not listed", at, r.due-ended.UnixMilli())
	}
	return arrived
}

// A million pending records, each with an id, for hundreds of targets and spread over a year, are listed in bounded memory.
func TestLookAtAMillion(t *testing.T) {
	const records, most = 1_000_000, 256 << 20        // bytes
	const targets, year = 300, 365 * 24 * 3600 * 1000 // ms
	s := newTenant(t, shared(t), setting{partitions: 1, seed: newSeed(t)})
	cl, err := kgo.NewClient(append(s.opts(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(100_000), kgo.ProducerLinger(10*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	o := &lookout{tenant: s}
	due := time.Now().Add(time.Hour).UnixMilli()
	for i := range int64(records) {
		r := o.request(0, due+i*7_919_000%year, topics.HeaderID, fmt.Sprintf("reminder-%d", i))
		r.Headers[1].Value = fmt.Appendf(nil, "%s.target-%d", s.name, i%targets)
		r.Value = make([]byte, 80)
		cl.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ls", "--limit", "5"}, {"agenda"}, {"agenda", "--by", "minute", "-o", "json"}, {"ls", "--limit", "0"}, {"get", "reminder-77"}} {
		cmd := exec.Command(buildBinary(t), append(args, "-b", s.cluster.Addrs()[0], "-g", s.name, "-t", s.route.Topic)...)
		out, u, err := bench.Measure(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%v: %v, %v of CPU, %d MiB", args, u.Took.Round(time.Millisecond), u.CPU.Round(time.Millisecond), u.Peak>>20)
		if u.Peak > most || u.Peak == 0 {
			t.Errorf("%v takes %d bytes, at most %d", args, u.Peak, most)
		}
		if args[0] != "get" && args[len(args)-1] != "json" && !strings.Contains(string(out), "1,000,000 records") {
			t.Errorf("%v: %s", args, out[max(len(out)-200, 0):])
		}
	}
}
