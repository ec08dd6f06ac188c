package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/topics"
)

// planned is a request that is due in days.
type planned struct {
	topics.Handle
	id, target string
	bytes      int64
}

// gonePlan is one that was taken away.
type gonePlan struct {
	planned
	state string
	by    int64
}

// planner knows what is due in days without asking: it has written all of it.
type planner struct {
	*lookout
	config  string // a file with the route: requests that it refuses are not in the agenda before replicas have read them, too
	random  *rand.Rand
	plans   []planned
	gone    []gonePlan
	written int // ids so far

	asked, gets, hidden int
}

// agendaBar is a row of the agenda.
type agendaBar struct {
	From    *int64
	To      int64
	Records int64
	Bytes   int64
	Targets map[string]int64
}

// The bars of the agenda, with what each target has of them, are those of what is pending, to the record and the byte, while requests are written,
// cancelled and replaced, replicas are killed, partitions move and records are carried; get says of each what has become of it. While thousands of late
// records are caught up with, what is overdue is what was written and has not come. What a replica says in the end is the same.
func TestAgendaWhileReplicasRun(t *testing.T) {
	t.Parallel()
	// What is written is as if it were more than half as old, so that it is carried.
	s := newTenant(t, shared(t), untilLater(setting{targets: 3, seed: newSeed(t), delayConfig: map[string]string{"retention.ms": "200000"}}))
	p := &planner{lookout: &lookout{tenant: s}, config: filepath.Join(t.TempDir(), "duewheel.yaml"), random: rand.New(rand.NewPCG(s.seed, 4))}
	yaml := fmt.Sprintf("routes:\n  - topic: %s\n    targets: {allow: [%q]}\n", s.route.Topic, s.name+".target-*")
	if err := os.WriteFile(p.config, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	for partition := range int32(4) {
		for range 200 {
			p.add(partition)
		}
	}
	p.agenda()
	k := s.newKiller(2)
	stop := s.keepLoading(load.Config{Rate: 300})
	struck := make(chan struct{})
	go func() {
		defer close(struck)
		for k.kills < 4 || k.open == 0 && k.kills < mostKills {
			k.strike()
		}
	}()
	for over := false; !over || p.asked < 10; {
		for range 20 {
			p.change()
		}
		p.agenda()
		p.get()
		select {
		case <-struck:
			over = true
		default:
		}
	}
	stop()
	s.arrive()
	p.catchUp(k)
	p.agenda()
	k.terminate()
	r := s.start(s.replica())
	s.awaitLive(r, 4)
	p.replicaSays(r)
	r.stop()
	t.Logf("asked %d times for the agenda (and %d times in vain), and %d times for a record, while replicas were killed %d times, %d of them inside an open transaction; %d records are left, and %d were taken away",
		p.asked, p.hidden, p.gets, k.kills, k.open, len(p.plans), len(p.gone))
	if len(p.gone) < 100 {
		t.Error("too little has happened")
	}
}

// untilLater does not have the checker wait for what is due in more than an hour.
func untilLater(set setting) setting {
	before := set.check
	set.check = func(c *check.Config) {
		if before != nil {
			before(c)
		}
		c.Until = time.Now().Add(time.Hour)
	}
	return set
}

// plan writes a request that is due in three hours or later, and notes it.
func (p *planner) plan(partition int32, id string, more ...string) {
	p.t.Helper()
	due := time.Now().Add(3*time.Hour + time.Duration(p.random.Int64N(int64(20*24*time.Hour)))).UnixMilli()
	r := p.request(partition, due, more...)
	target := p.targets[p.random.IntN(len(p.targets))]
	r.Headers[1].Value = []byte(target)
	r.Value = make([]byte, p.random.IntN(300))
	r.Timestamp = time.Now().Add(-110 * time.Second)
	p.produce(r)
	p.plans = append(p.plans, planned{topics.Handle{Partition: partition, Offset: r.Offset, Due: due}, id, target, int64(ahead.SizeOf(r))})
}

// add writes one with an id of its own.
func (p *planner) add(partition int32) {
	p.t.Helper()
	p.written++
	id := fmt.Sprintf("plan-%d", p.written)
	p.plan(partition, id, topics.HeaderID, id)
}

// change adds a request, or cancels or replaces one by its handle or its id.
func (p *planner) change() {
	p.t.Helper()
	if p.random.IntN(4) == 0 {
		p.add(int32(p.random.IntN(4)))
		return
	}
	i := p.random.IntN(len(p.plans))
	was := p.plans[i]
	name, id := was.String(), ""
	if was.id != "" && p.random.IntN(2) == 0 {
		name, id = was.id, was.id
	}
	p.plans = slices.Delete(p.plans, i, i+1)
	if p.random.IntN(2) == 0 {
		p.plan(was.Partition, id, topics.HeaderReplace, name)
		p.gone = append(p.gone, gonePlan{was, "replaced", p.plans[len(p.plans)-1].Offset})
		return
	}
	c := &kgo.Record{Topic: p.route.Topic, Partition: was.Partition, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(name)}}}
	p.produce(c)
	p.gone = append(p.gone, gonePlan{was, "cancelled", c.Offset})
}

// ask runs a command, takes in what it has printed as JSON, one for each line, and returns its notes.
func (p *planner) ask(into any, args ...string) (notes string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), buildBinary(p.t), append(args, "-b", strings.Join(p.cluster.Addrs(), ","), "-g", p.name, "-c", p.config, "-o", "json")...)
	cmd.Env = append(os.Environ(), "TZ=UTC")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal([]byte("["+strings.ReplaceAll(strings.TrimSpace(string(out)), "}\n{", "},\n{")+"]"), into)
	}
	if err != nil {
		p.t.Fatalf("%v: %v\n%s", args, err, said.String())
	}
	return said.String()
}

// bars asks for the agenda until it has no note of an open transaction: a replica that was killed inside one may hide what was written since.
func (p *planner) bars(args ...string) (got []agendaBar) {
	p.t.Helper()
	eventually(p.t, func() string {
		got = nil
		if notes := p.ask(&got, append([]string{"agenda"}, args...)...); strings.Contains(notes, "a transaction is open") {
			p.hidden++
			return notes
		}
		return ""
	})
	return got
}

// agenda asks for that of what is due in two hours or later, and compares it.
func (p *planner) agenda() {
	p.t.Helper()
	p.asked++
	by, step := "hour", time.Hour.Milliseconds()
	if p.asked%2 == 0 {
		by, step = "day", 24*time.Hour.Milliseconds()
	}
	p.compareBars(p.bars("--by", by, "--after", "2h"), step)
}

func (p *planner) compareBars(got []agendaBar, step int64) {
	p.t.Helper()
	want := map[int64]*agendaBar{}
	for _, plan := range p.plans {
		from := plan.Due / step * step
		bar := want[from]
		if bar == nil {
			bar = &agendaBar{From: &from, To: from + step, Targets: map[string]int64{}}
			want[from] = bar
		}
		bar.Records, bar.Bytes = bar.Records+1, bar.Bytes+plan.bytes
		bar.Targets[plan.target]++
	}
	last := int64(0)
	for _, bar := range got {
		if bar.From == nil || *bar.From < last || want[*bar.From] == nil {
			p.t.Fatalf("the agenda has a bar that is not to be: %+v", bar)
		}
		last = *bar.From
		w := want[last]
		delete(want, last)
		if bar.To != w.To || bar.Records != w.Records || bar.Bytes != w.Bytes || !maps.Equal(bar.Targets, w.Targets) {
			p.t.Errorf("the agenda from %d on is %+v, want %+v", last, bar, *w)
		}
	}
	for from, bar := range want {
		p.t.Errorf("the agenda lacks what is due from %d on: %+v", from, *bar)
	}
}

// get asks what has become of a request that was taken away, and of one that waits.
func (p *planner) get() {
	p.t.Helper()
	type row struct {
		State, Handle, Target string
		By                    *int64
		SearchedTo            int64 `json:"searched_to"`
		LogEnd                int64 `json:"log_end"`
	}
	one := func(name string) row {
		p.t.Helper()
		p.gets++
		var got []row
		eventually(p.t, func() string { // as for bars
			if p.ask(&got, "get", name, "--patience", "20s"); len(got) != 1 {
				p.t.Fatalf("get %s: %+v", name, got)
			}
			if got[0].SearchedTo < got[0].LogEnd {
				return fmt.Sprintf("what lies behind %d was not searched: %+v", got[0].SearchedTo, got)
			}
			return ""
		})
		return got[0]
	}
	was := p.gone[p.random.IntN(len(p.gone))]
	if got := one(was.String()); got.State != was.state || got.By == nil || *got.By != was.by || got.Handle != was.String() {
		p.t.Errorf("%v was %s by %d, and get says %+v", was.Handle, was.state, was.by, got)
	}
	is := p.plans[p.random.IntN(len(p.plans))]
	if got := one(cmp.Or(is.id, is.String())); got.State != "pending" || got.Handle != is.String() || got.Target != is.target {
		p.t.Errorf("%v waits for %s, and get says %+v", is.Handle, is.target, got)
	}
}

// catchUp kills all replicas, and starts them again while thousands of late records come.
func (p *planner) catchUp(k *killer) {
	p.t.Helper()
	for _, r := range k.replicas {
		r.Kill()
	}
	before, base := k.watch.Counts().Delivered, p.ends()
	var written, acknowledged atomic.Int64
	cl, err := kgo.NewClient(append(p.opts(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		p.t.Fatal(err)
	}
	defer cl.Close()
	write := func(n int) {
		for range n {
			i := written.Add(1)
			r := p.request(int32(i%4), time.Now().UnixMilli()-i%60_000, topics.HeaderID, fmt.Sprintf("late-%d", i))
			r.Headers[1].Value = []byte(p.targets[i%3])
			cl.Produce(p.t.Context(), r, func(_ *kgo.Record, err error) {
				if err != nil {
					p.t.Errorf("write: %v", err)
				}
				acknowledged.Add(1)
			})
		}
	}
	flush := func() {
		if err := cl.Flush(p.t.Context()); err != nil {
			p.t.Error(err)
		}
	}
	write(6000)
	flush()
	if bars := p.overdueAndRest(); bars.Records != 6000 || bars.Targets[p.targets[0]] != 2000 || bars.Targets[p.targets[1]] != 2000 || bars.Targets[p.targets[2]] != 2000 {
		p.t.Errorf("6,000 records are late, and overdue is %+v", bars)
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				flush()
				return
			case <-time.After(5 * time.Millisecond):
				write(20)
			}
		}
	}()
	between, asked := 0, 0 // of a time when some have come, and some not
	for i := 0; between < 3 && i < 120; i++ {
		asked++
		if i < len(k.replicas) {
			k.start(i)
		}
		came, sure := k.watch.Counts().Delivered-before, acknowledged.Load()
		bars := p.overdueAndRest()
		if least := sure - (p.ends() - base); bars.Records < least {
			p.t.Errorf("%d are overdue, and %d were written and have not come", bars.Records, least)
		}
		if bars.Records > 0 && came > 0 {
			between++
		}
		if bars.Records <= written.Load()-came {
			continue
		}
		// The end of a transaction reaches the checkpoint after the target, whenever brokers come to that.
		eventually(p.t, func() string {
			if bars, most := p.overdueAndRest(), written.Load()-came; bars.Records > most {
				return fmt.Sprintf("%d are overdue, and at most %d can be", bars.Records, most)
			}
			return ""
		})
	}
	close(over)
	<-ended
	p.arrive()
	p.t.Logf("%d late records; %d of %d agendas were of a time when some had come and some not", written.Load(), between, asked)
	if between < 3 {
		p.t.Error("too little was asked while they came")
	}
	eventually(p.t, func() string {
		if bars := p.overdueAndRest(); bars.Records > 0 {
			return fmt.Sprintf("overdue is still %+v", bars)
		}
		return ""
	})
}

// ends is how many records targets have at most: markers of transactions are counted, too.
func (p *planner) ends() (n int64) {
	p.t.Helper()
	ends, err := p.admin.ListEndOffsets(p.t.Context(), p.targets...)
	if err != nil {
		p.t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

// overdueAndRest asks for the whole agenda, compares what is due in days, and returns what is overdue.
func (p *planner) overdueAndRest() (overdue agendaBar) {
	p.t.Helper()
	got := p.bars("--by", "hour")
	if len(got) > 0 && got[0].From == nil {
		overdue, got = got[0], got[1:]
	}
	p.compareBars(got, time.Hour.Milliseconds())
	return overdue
}

// replicaSays compares what a replica counts in each partition with the agenda of that.
func (p *planner) replicaSays(r *running) {
	p.t.Helper()
	for _, of := range r.Stats().Partitions {
		records := int64(0)
		for _, bar := range p.bars("-p", fmt.Sprint(of.Partition)) {
			records += bar.Records
		}
		if records != of.Pending || records == 0 {
			p.t.Errorf("partition %d: the agenda has %d records, and a replica %d", of.Partition, records, of.Pending)
		}
	}
}
