package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// aheads is every case of LookAhead, in the order in which they run.
var aheads = []benchCase{
	{"ls", lookAhead("ls", "ls", "--limit", "20")},
	{"agenda", lookAhead("agenda", "agenda")},
	{"get", get},
	{"get-behind", getBehind},
	{"forms", forms},
}

// LookAheadCases names every case of LookAhead in the order in which they run.
func LookAheadCases() []string { return namesOf(aheads) }

// LookAhead measures how soon it is known what is pending, from Kafka alone, and what it costs to read when a record is due. Like Run it makes topics and groups of its own and deletes them.
func LookAhead(ctx context.Context, o Options) ([]Result, error) {
	if o.Command == nil {
		return nil, errors.New("bench: LookAhead needs Options.Command")
	}
	return runAll(ctx, o.withDefaults(), aheads)
}

// Usage is what a program took.
type Usage struct {
	Took time.Duration // from its start to its end
	CPU  time.Duration
	Peak int64 // bytes that it had in memory at most; 0: this system does not tell
}

// Measure runs a program to its end, and returns what it has printed to its standard output.
func Measure(cmd *exec.Cmd) ([]byte, Usage, error) {
	var out, notes bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &notes
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, Usage{}, err
	}
	var peak atomic.Int64
	over, looked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looked)
		for {
			peak.Store(max(peak.Load(), peakOf(cmd.Process.Pid)))
			select {
			case <-over:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	err := cmd.Wait()
	u := Usage{Took: time.Since(began), CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	close(over)
	<-looked
	u.Peak = peak.Load()
	if err != nil {
		err = fmt.Errorf("%v: %w: %s", cmd.Args[1:], err, bytes.TrimSpace(notes.Bytes()))
	}
	return out.Bytes(), u, err
}

// peakOf is the most that a process has had in memory. What the system says when it has ended counts its parent, too, as of its start.
func peakOf(pid int) int64 {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, is := strings.CutPrefix(lines.Text(), "VmHWM:"); is {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}

// backlog is a topic with records that are due within a day, of which one half lies below the checkpoints of a group.
type backlog struct {
	topic, group string
	partitions   int
	first        topics.Handle // of the first record in partition 0
}

// newBacklog writes one.
func (r *runner) newBacklog(ctx context.Context, name string, partitions int) (b backlog, err error) {
	b.partitions = partitions
	b.topic = fmt.Sprintf("%s-%s-%d", r.id, name, r.stages)
	b.group = b.topic
	r.stages++
	if err := r.newTopic(ctx, b.topic, partitions); err != nil {
		return b, err
	}
	now := time.Now().Add(time.Hour).UnixMilli()
	b.first = topics.Handle{Due: now}
	value := make([]byte, 100)
	if err := r.fill(ctx, func(i int64) *kgo.Record {
		return &kgo.Record{Topic: b.topic, Partition: int32(i) % int32(partitions), Key: fmt.Appendf(nil, "customer-%d", i%10_000), Value: value, Headers: []kgo.RecordHeader{
			{Key: topics.HeaderUntil, Value: strconv.AppendInt(nil, b.due(i), 10)},
			{Key: topics.HeaderTargetTopic, Value: fmt.Appendf(nil, "target-%d", i%3)}}}
	}); err != nil {
		return b, err
	}
	return b, r.checkpoint(ctx, b)
}

// due is when its i-th record is, in ms.
func (b *backlog) due(i int64) int64 { return b.first.Due + i*7919%86_400_000 }

// fill writes as many records as are to be pending.
func (r *runner) fill(ctx context.Context, record func(i int64) *kgo.Record) error {
	cl, err := r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed atomic.Pointer[error]
	for i := range int64(r.o.Pending) {
		cl.Produce(ctx, record(i), func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := errors.Join(cl.Flush(ctx), ctx.Err()); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// checkpoint commits what a replica has read that has ended meanwhile: half of it.
func (r *runner) checkpoint(ctx context.Context, b backlog) error {
	details, err := r.adm.ListTopics(ctx, b.topic)
	if err != nil {
		return err
	}
	id := details[b.topic].ID
	var offsets kadm.Offsets
	for p := range int32(b.partitions) {
		c := state.Checkpoint{TopicID: [4]byte(id[:4]), Offset: int64(r.o.Pending / b.partitions / 2)}
		c.Parsers = pending.WithParser(c, topics.Spec(0), 0)
		m, err := c.Metadata()
		if err != nil {
			return err
		}
		offsets.Add(kadm.Offset{Topic: b.topic, Partition: p, At: c.Offset, LeaderEpoch: -1, Metadata: m})
	}
	r.made = append(r.made, made{group: b.group})
	return r.adm.CommitAllOffsets(ctx, b.group, offsets)
}

// lookAhead measures a command that reads all that is pending.
func lookAhead(name string, args ...string) func(context.Context, *runner) ([]Result, error) {
	return func(ctx context.Context, r *runner) ([]Result, error) {
		b, err := r.newBacklog(ctx, name, r.o.Partitions)
		if err != nil {
			return nil, err
		}
		var took, cpu []float64
		var peak int64
		all := thousands(int64(r.o.Pending)) + " records"
		for round := range r.o.Rounds + 1 {
			out, u, err := Measure(r.o.Command(append(slices.Clone(args), "-t", b.topic, "-g", b.group)...))
			if err != nil {
				return nil, err
			}
			if !strings.Contains(string(out), all) {
				return nil, fmt.Errorf("%s does not say %s: %s", name, all, out)
			}
			r.progress("%s: %s: %v, %v of CPU, %d MiB", name, roundName(round), u.Took.Round(time.Millisecond), u.CPU.Round(time.Millisecond), u.Peak>>20)
			if peak = max(peak, u.Peak); round > 0 {
				took, cpu = append(took, u.Took.Seconds()), append(cpu, u.CPU.Seconds())
			}
		}
		f := Figures{"log_per_s": float64(r.o.Pending) / median(took), "took_s": median(took), "cpu_s": median(cpu), "peak_mib": float64(peak) / (1 << 20)}
		return []Result{{
			Case:     name,
			What:     fmt.Sprintf("`duewheel %s` over %s of 100 B that are pending, half of them below O: how much log it reads a second, its own start counted, and what it has in memory at most. Medians of %d runs after a warm-up.", strings.Join(args, " "), all, r.o.Rounds),
			Measured: fmt.Sprintf("%s/s (%.2f s, %.2f s of CPU), %.0f MiB", thousands(int64(f["log_per_s"])), f["took_s"], f["cpu_s"], f["peak_mib"]),
			Figures:  f, Checked: all + " counted",
		}}, nil
	}
}

// get measures a command that shows one record.
func get(ctx context.Context, r *runner) ([]Result, error) {
	b, err := r.newBacklog(ctx, "get", r.o.Partitions)
	if err != nil {
		return nil, err
	}
	return r.getFirst("get", b, fmt.Sprintf("the first of %s records that are pending", thousands(int64(r.o.Pending))))
}

// getBehind is get where all lies in one partition behind the record, and an audit topic of one partition has told of each of them since.
func getBehind(ctx context.Context, r *runner) ([]Result, error) {
	b, err := r.newBacklog(ctx, "get-behind", 1)
	if err != nil {
		return nil, err
	}
	audit := b.topic + "-audit"
	if err := r.newTopic(ctx, audit, 1); err != nil {
		return nil, err
	}
	in := topics.AppendAuditIn(nil, b.topic, b.group, time.Now().UnixMilli())
	if err := r.fill(ctx, func(i int64) *kgo.Record {
		a := topics.Audit{Event: topics.AuditAccepted, Of: topics.Handle{Offset: i, Due: b.due(i)}, In: in}
		value, key := a.Append(nil)
		return &kgo.Record{Topic: audit, Key: key, Value: value}
	}); err != nil {
		return nil, err
	}
	all := thousands(int64(r.o.Pending))
	return r.getFirst("get-behind", b, fmt.Sprintf("the first of %s records that are pending in one partition, with an audit topic of one partition that has %s records since", all, all), "--audit", audit)
}

// getFirst measures how long it takes to show the first record of a backlog.
func (r *runner) getFirst(name string, b backlog, of string, more ...string) ([]Result, error) {
	var took []float64
	for round := range r.o.Rounds + 1 {
		out, u, err := Measure(r.o.Command(append([]string{"get", b.first.String(), "-t", b.topic, "-g", b.group}, more...)...))
		if err != nil {
			return nil, err
		}
		if !strings.Contains(string(out), "pending, due") {
			return nil, fmt.Errorf("%s says %s", name, out)
		}
		r.progress("%s: %s: %v, %v of CPU", name, roundName(round), u.Took.Round(time.Millisecond), u.CPU.Round(time.Millisecond))
		if round > 0 {
			took = append(took, u.Took.Seconds())
		}
	}
	f := Figures{"took_s": median(took), "took_max_s": most(took)}
	return []Result{{
		Case:     name,
		What:     fmt.Sprintf("`duewheel get <handle>` of %s: from its start to its end, with the default --patience. Median of %d runs after a warm-up.", of, cmp.Or(r.o.Rounds, 1)),
		Measured: fmt.Sprintf("%.2f s (longest %.2f s)", f["took_s"], f["took_max_s"]),
		Figures:  f, Checked: "the record shown, and that it is pending",
	}}, nil
}
