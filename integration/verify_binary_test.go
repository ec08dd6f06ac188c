package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/verify"
)

// sweeper runs `duewheel verify` on the topics of a tenant.
type sweeper struct {
	*forger
	config string
	second string // the delay topic of a retry route that is trimmed

	seen map[string]int64 // the most that passes have counted of each outcome while all was well
}

// The exit code of `duewheel verify` is 0 while a replica delivers, expires, cancels, replaces, retries, carries and trims, also when what lies below L is
// gone; it is 1 for each fault that is made on purpose, in a window that has that one alone, and says which; with --watch it finds one that comes later. Of
// what left a target with its older part it cannot tell, which is no fault; that a delay topic has lost what was pending is one.
func TestVerifyBinary(t *testing.T) {
	t.Parallel()
	set := untilLater(answersCancels(setting{targets: 2, seed: newSeed(t), delayConfig: map[string]string{"retention.ms": "200000"}}))
	s := newTenant(t, shared(t), set)
	w := &sweeper{forger: s.newForger(), second: s.name + ".retries", seen: map[string]int64{}, config: filepath.Join(t.TempDir(), "duewheel.yaml")}
	s.create(2, nil, w.second)
	s.create(1, nil, s.name+".parked")
	yaml := fmt.Sprintf(`
kafka: {brokers: "%s"}
trim_interval: 1s
routes:
  - {topic: %s, dead_letter: %s, targets: {allow: ["%s.target-*"]}, on_unknown_cancel: dead_letter}
  - {topic: %s, dead_letter: %s, trim: true, targets: {allow: ["%s.target-*"]}, retry: {target: from_headers, parking: %s.parked, max_attempts: 2, backoff: {initial: 300ms}}}
`, strings.Join(s.cluster.Addrs(), ","), s.name, s.route.DeadLetter, s.name, w.second, s.route.DeadLetter, s.name, s.name)
	if err := os.WriteFile(w.config, []byte(yaml+"group: {id: "+s.name+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := s.runBinary(command{yaml: yaml})
	w.far()
	a := s.newAsker()
	stop := a.keepAsking(200)
	w.retries()
	for i := 0; i < 4 || s.watch.Counts().Delivered < 200; i++ {
		w.wellWhile("a replica runs")
	}
	stop()
	s.arrive()
	w.wellWhile("all has come")
	w.awaitTrimmed()
	w.cutBelowLowWater()
	w.wellWhile("what lies below L is gone")
	for what, least := range map[string]int64{"left": 60, "taken": 20, "cancels": 20, "expired": 5, "attempts_exhausted": 5, "delivered": 100, "pending": 60} {
		if w.seen[what] < least {
			t.Errorf("too little has happened: %v", w.seen)
		}
	}
	s.terminate(p)
	w.wellWhile("none runs")
	w.faults()
	w.watches()
	for partition := range int32(targetPartitions) {
		w.cut(s.targets[0], partition)
	}
	if r, code, said := w.verify("--to", fmt.Sprint(time.Now().Add(-time.Hour).UnixMilli())); code != 1 || r.Counts.Untold < 3 {
		t.Errorf("a target was cut: exit code %d\n%s", code, said)
	}
	w.cut(s.route.Topic, 1)
	if r, code, said := w.verify("--from", "1m"); code != 1 || kindsOf(r)["cut"] != 1 {
		t.Errorf("what was pending is cut: exit code %d, %v\n%s", code, kindsOf(r), said)
	}
}

// far writes what is due in hours, and as old as if it had to be carried at once; and what expires before it is due.
func (w *sweeper) far() {
	w.t.Helper()
	o := &lookout{tenant: w.tenant}
	due := time.Now().Add(3 * time.Hour).UnixMilli()
	var all []*kgo.Record
	for i := range int64(60) {
		r := o.request(1+int32(i%2), due+i, topics.HeaderID, fmt.Sprintf("far-%d", i))
		r.Timestamp = time.Now().Add(-110 * time.Second)
		all = append(all, r)
	}
	now := time.Now().UnixMilli()
	for i := range int64(10) {
		all = append(all, o.request(3, now+500+i, topics.HeaderExpires, fmt.Sprint(now+400)))
	}
	o.produce(all...)
}

// retries writes what consumers have failed to process, of each number of attempts.
func (w *sweeper) retries() {
	w.t.Helper()
	for i := range 60 {
		r := &kgo.Record{Topic: w.second, Partition: int32(i % 2), Key: fmt.Append(nil, i), Value: []byte("v"), Headers: []kgo.RecordHeader{
			{Key: topics.HeaderTargetTopic, Value: []byte(w.targets[1])}, {Key: topics.HeaderAttempt, Value: fmt.Append(nil, i%3)},
		}}
		w.write(r)
	}
}

// verify returns the report, the exit code, and all that was printed.
func (w *sweeper) verify(args ...string) (r *verify.Report, code int, said string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), buildBinary(w.t), append([]string{"verify", "-c", w.config, "-o", "json", "--all-targets", "--late", "30m"}, args...)...)
	var notes bytes.Buffer
	cmd.Stderr = &notes
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	r = &verify.Report{}
	if err := json.Unmarshal(out, r); err != nil {
		w.t.Fatalf("%v: %v\n%s%s", args, err, out, notes.String())
	}
	return r, cmd.ProcessState.ExitCode(), string(out) + notes.String()
}

func (w *sweeper) wellWhile(when string) {
	w.t.Helper()
	r, code, said := w.verify()
	if code != 0 || !r.Well() {
		w.t.Errorf("while %s: exit code %d\n%s", when, code, said)
	}
	c := r.Counts
	for what, n := range map[string]int64{"left": c.Left, "taken": c.Taken, "cancels": c.Cancels, "delivered": c.Delivered, "pending": c.Pending,
		"expired": r.ByCode["expired"], "attempts_exhausted": r.ByCode["attempts_exhausted"]} {
		w.seen[what] = max(w.seen[what], n)
	}
}

// starts are the first offsets of a topic, by partition.
func (w *sweeper) starts(topic string) kadm.ListedOffsets {
	w.t.Helper()
	all, err := w.admin.ListStartOffsets(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// awaitTrimmed waits until a replica has trimmed what it is done with of the retry route.
func (w *sweeper) awaitTrimmed() {
	w.t.Helper()
	eventually(w.t, func() string {
		for p := range int32(2) {
			if at, _ := w.starts(w.second).Lookup(w.second, p); at.Offset < 20 {
				return fmt.Sprintf("partition %d of the retry route begins at %d", p, at.Offset)
			}
		}
		return ""
	})
}

// cutBelowLowWater does what retention does: it removes what lies below L, when what is far was carried.
func (w *sweeper) cutBelowLowWater() {
	w.t.Helper()
	type row struct {
		Topic     string
		Partition int32
		LowWater  int64 `json:"low_water"`
	}
	var rows []row
	eventually(w.t, func() string {
		out, err := exec.CommandContext(w.t.Context(), buildBinary(w.t), "checkpoints", "-c", w.config, "-o", "json").Output()
		if err == nil {
			err = json.Unmarshal(out, &rows)
		}
		for _, r := range rows {
			if r.Topic == w.route.Topic && (r.Partition == 1 || r.Partition == 2) && r.LowWater < 30 {
				return fmt.Sprintf("what is far was not carried: %+v", r)
			}
		}
		return map[bool]string{true: fmt.Sprintf("checkpoints are %+v, %v", rows, err)}[len(rows) == 0]
	})
	var offsets kadm.Offsets
	for _, r := range rows {
		if r.Topic == w.route.Topic {
			offsets.Add(kadm.Offset{Topic: r.Topic, Partition: r.Partition, At: r.LowWater, LeaderEpoch: -1})
		}
	}
	cut, err := w.admin.DeleteRecords(w.t.Context(), offsets)
	if err == nil {
		err = cut.Error()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// kindsOf are how many faults of each kind there are.
func kindsOf(r *verify.Report) map[string]int64 {
	kinds := map[string]int64{}
	for _, f := range r.Faults {
		kinds[f.Kind] = f.Count
	}
	return kinds
}

// faults makes each fault in a window of its own, of long ago.
func (w *sweeper) faults() {
	w.t.Helper()
	began := time.Now().Add(-20 * time.Hour)
	all := []struct {
		kind string // "": none
		make func(due time.Time)
	}{
		{"", func(due time.Time) { w.arrive(w.request(due), due, nil) }},
		{"missing", func(due time.Time) { w.request(due) }}, // it was taken out
		{"doubled", func(due time.Time) { w.write(w.arrive(w.request(due), due, nil)) }},
		{"altered", func(due time.Time) {
			w.arrive(w.request(due), due, func(r *kgo.Record) { r.Value = []byte("w") })
		}},
		{"early", func(due time.Time) {
			w.arrive(w.request(due), due, func(r *kgo.Record) { r.Timestamp = due.Add(-time.Minute) })
		}},
		{"late", func(due time.Time) {
			w.arrive(w.request(due), due, func(r *kgo.Record) { r.Timestamp = due.Add(time.Hour) })
		}},
		{"dead-lettered in vain", func(due time.Time) { w.expire(w.request(due, topics.HeaderExpires, "9999999999999"), due) }},
		{"delivered in vain", func(due time.Time) { w.arrive(w.request(due, "delay-untl", "1"), due, nil) }},
		{"", func(due time.Time) {
			w.expire(w.request(due, topics.HeaderExpires, fmt.Sprint(due.UnixMilli()-1)), due)
		}},
	}
	due := func(i int) time.Time { return began.Add(time.Duration(i) * time.Hour) }
	for i := range all {
		all[i].make(due(i))
	}
	w.resolve()
	for i, fault := range all {
		r, code, said := w.verify("--from", fmt.Sprint(due(i).Add(-2*time.Minute).UnixMilli()), "--to", fmt.Sprint(due(i).UnixMilli()))
		want, exit := map[string]int64{}, 0
		if fault.kind != "" {
			want[fault.kind], exit = 1, 1
		}
		if code != exit || !maps.Equal(kindsOf(r), want) || r.Counts.Requested != 1 {
			w.t.Errorf("%q: exit code %d, %v\n%s", fault.kind, code, kindsOf(r), said)
		}
	}
}

// watches has --watch find a fault that comes later, in a window without one.
func (w *sweeper) watches() {
	w.t.Helper()
	from := time.Now().Add(-10 * time.Minute)
	var out journal
	cmd := exec.Command(buildBinary(w.t), "verify", "-c", w.config, "--watch", "--every", "1s", "--listen", "off", "--from", fmt.Sprint(from.UnixMilli()))
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	defer cmd.Process.Kill() //nolint:errcheck // it has ended
	says := func(what string) {
		eventually(w.t, func() string {
			if said := out.text(); !strings.Contains(said, what) {
				return fmt.Sprintf("it does not say %q:\n%s", what, said)
			}
			return ""
		})
	}
	says(", faults 0\n")
	due := time.Now().Add(-time.Minute)
	w.write(w.arrive(w.request(due), due, nil))
	says(" DOUBLED: 1, and there were 0: " + w.route.Topic + "/0@")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.HasSuffix(out.text(), "faults: 1\n") {
		w.t.Errorf("stopped, with a fault: exit code %d\n%s", code, out.text())
	}
}
