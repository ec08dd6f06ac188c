package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/duewheel/duewheel/bench/child"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/wait"
)

// takeover is what came of the death of one of several replicas. Times count from the last sign of its life.
type takeover struct {
	partitions int           // that it had
	assigned   time.Duration // until another replica was assigned something
	restored   time.Duration // until the first of its partitions was claimed: reading its log begins
	live       time.Duration // until all its partitions were live elsewhere
	first      time.Duration // until a record of each of them was seen that was handed over afterwards
	passed     time.Duration // until a read_committed reader of the targets was past what it had left open
	open       int           // partitions of the target that its open transaction held up
	log        int64         // records in the logs of its partitions
	bare       float64       // how many records of these logs a second are got by bare readers, one for each of the others; 0: not measured
	brokers    float64       // CPUs that the brokers took until all its partitions were live; 0: not known
	stayed     time.Duration // the largest lateness, meanwhile, of records of partitions that it did not have
}

// standby measures a take-over by replicas that follow the dead one's partitions. More that is pending should make no difference.
func standby(name string, times int) func(context.Context, *runner) ([]Result, error) {
	return func(ctx context.Context, r *runner) ([]Result, error) {
		pending := times * r.o.Pending
		t, checked, err := takeOver(ctx, r, name, 1, pending)
		if err != nil {
			return nil, err
		}
		return []Result{{
			Case: name,
			What: fmt.Sprintf("%s with standbys: 1. %s", takeoverWhat(r, &t, pending), alike), Measured: t.String(), Figures: t.figures(), Checked: checked,
		}}, nil
	}
}

// cold measures a take-over by replicas that know nothing of the dead one's partitions, and then how one process rebuilds everything.
func cold(ctx context.Context, r *runner) ([]Result, error) {
	t, checked, err := takeOver(ctx, r, "cold", 0, r.o.Pending)
	if err != nil {
		return nil, err
	}
	f := t.figures()
	f["log_per_s"], f["bare_per_s"] = float64(t.log)/(t.live-t.restored).Seconds(), t.bare
	f["bare_ratio"] = f["log_per_s"] / f["bare_per_s"]
	brokers := "that is not known"
	if t.brokers > 0 {
		f["broker_cpus"], brokers = t.brokers, fmt.Sprintf("%.1f", t.brokers)
	}
	return []Result{{
		Case: "cold",
		What: fmt.Sprintf("%s without standbys; the others hold nothing of the %d partitions, so their pending records are read from the log: %s records, in the time from when the first of the partitions is claimed until the last is live. "+
			"Bare readers, as many as there are others, read the same logs afterwards and do nothing with them. The brokers' CPU is that from the kill on, which the transactions of what falls due take as well. %s",
			takeoverWhat(r, &t, r.o.Pending), t.partitions, thousands(t.log), alike),
		Measured: fmt.Sprintf("%s; %s records of log/s, %.2f of the bare readers' %s; CPUs of the brokers meanwhile: %s", t.String(), thousands(int64(f["log_per_s"])), f["bare_ratio"], thousands(int64(t.bare)), brokers), Figures: f, Checked: checked,
	}}, nil
}

func takeoverWhat(r *runner, t *takeover, pending int) string {
	return fmt.Sprintf("Of %d replicas with %d partitions, a lane each and a session timeout of %v, which hear each other, one is killed with kill -9 while a transaction of its is open in %d partitions of the target; %s records are pending, due in hours, "+
		"and %s a second fall due;", trio, r.o.Partitions, r.o.session, t.open, thousands(int64(pending)), thousands(slowRate))
}

// alike is what is said of every take-over.
const alike = "From its last sign of life until all its partitions are live elsewhere; until a read_committed consumer has seen a newly delivered record of each of them; until that consumer is past the dead one's transaction. " +
	"exactly_once, defaults otherwise."

func (t *takeover) String() string {
	return fmt.Sprintf("live after %.2f s (assigned after %.2f s, claimed after %.2f s), delivering after %.2f s, readers past the open transaction after %.2f s",
		t.live.Seconds(), t.assigned.Seconds(), t.restored.Seconds(), t.first.Seconds(), t.passed.Seconds())
}

func (t *takeover) figures() Figures {
	return Figures{
		"assigned_s": t.assigned.Seconds(), "restored_s": t.restored.Seconds(), "live_s": t.live.Seconds(), "first_delivery_s": t.first.Seconds(), "readers_past_s": t.passed.Seconds(),
		"partitions": float64(t.partitions), "open_partitions": float64(t.open), "log_records": float64(t.log), "stayed_max_late_s": t.stayed.Seconds(),
	}
}

func takeOver(ctx context.Context, r *runner, name string, standbys, pending int) (t takeover, checked string, err error) {
	_, checked, err = r.perform(ctx, name, cast{trio, 1, standbys, pending, slowRate}, func(sc *scene) (err error) {
		if err := sc.warm(ctx); err != nil {
			return err
		}
		var partitions []int32
		if t, partitions, err = sc.killOne(ctx); err != nil {
			return err
		}
		r.progress("%s: %s", name, &t)
		if standbys == 0 {
			t.bare, err = sc.readBare(ctx, partitions, trio-1)
		}
		return err
	})
	return t, checked, err
}

// warm waits until standbys follow every partition and hold all pending records.
func (sc *scene) warm(ctx context.Context) error {
	if sc.f.standbys == 0 {
		return nil
	}
	copies := int64(sc.f.standbys)
	if err := sc.f.until(ctx, "partitions followed", copies*int64(sc.partitions), func() int64 {
		n, _ := sc.f.sum(time.Time{}, func(c child.Counts) int64 { return c.Standbys })
		return n
	}); err != nil {
		return err
	}
	return sc.f.until(ctx, "pending at standbys", copies*int64(sc.far), func() int64 {
		n, _ := sc.f.sum(time.Time{}, func(c child.Counts) int64 { return c.Warm })
		return n
	})
}

// killOne kills a replica in the middle of a transaction, and waits until everything goes on without it. It says which partitions it had.
func (sc *scene) killOne(ctx context.Context) (t takeover, partitions []int32, err error) {
	victim := sc.f.running()[0]
	partitions = sc.owned(victim)
	slices.Sort(partitions)
	sc.r.progress("%s: killing a replica with %d partitions", sc.name, len(partitions))
	at, open, err := sc.killInTransaction(ctx, victim)
	if err != nil {
		return t, partitions, err
	}
	brokers := sc.r.brokerCPU()
	delivered := sc.o.firstFrom(partitions, at)
	past := sc.o.first(open.partitions(), func(s *sighting) (int32, bool) { return s.to, s.offset > open[s.to] })
	t.partitions, t.open = len(partitions), len(open)
	if err := sc.f.until(ctx, "partitions live elsewhere", int64(len(partitions)), func() int64 {
		n, last := sc.f.liveElsewhere(partitions, victim, at)
		t.live = last.Sub(at)
		return n
	}); err != nil {
		return t, partitions, err
	}
	t.brokers = (sc.r.brokerCPU() - brokers).Seconds() / time.Since(at).Seconds()
	for _, wait := range []struct {
		what  string
		of    *firsts
		n     int
		taken *time.Duration
	}{
		{"of its partitions delivering", delivered, len(partitions), &t.first},
		{"partitions of the target that readers are past its transaction in", past, len(open), &t.passed},
	} {
		if err := sc.f.until(ctx, wait.what, int64(wait.n), func() int64 {
			n, _, last := sc.o.found(wait.of)
			*wait.taken = max(last.Sub(at), 0)
			return n
		}); err != nil {
			return t, partitions, err
		}
	}
	t.assigned, t.restored = sc.f.first(at, nil, processor.EventAssigned).Sub(at), sc.f.first(at, partitions, processor.EventRestored).Sub(at)
	for _, late := range sc.o.lateIn(at, time.Now(), func(p int32) bool { return !slices.Contains(partitions, p) }) {
		t.stayed = max(t.stayed, late)
	}
	t.log, err = sc.logOf(ctx, partitions)
	return t, partitions, err
}

// logOf counts the offsets in the logs of partitions.
func (sc *scene) logOf(ctx context.Context, partitions []int32) (n int64, err error) {
	ends, err := sc.r.adm.ListEndOffsets(ctx, sc.delays...)
	if err = errors.Join(err, ends.Error()); err != nil {
		return 0, err
	}
	for _, p := range partitions {
		end, _ := ends.Lookup(sc.delays[0], p)
		n += end.Offset
	}
	return n, nil
}

// held is where an open transaction begins, by partition of the target. A reader that has seen a record behind it is past it.
type held map[int32]int64

func (h held) partitions() (partitions []int32) {
	for p := range h {
		partitions = append(partitions, p)
	}
	return partitions
}

const (
	// settleDown is how long what a frozen process has sent may take to be answered.
	settleDown = 20 * time.Millisecond
	freezes    = 200 // tries to find a transaction open
)

// killInTransaction freezes a replica until a transaction of its is found open that has records in the target, and then kills
// it. It returns when the replica gave its last sign of life, and what the transaction holds up.
func (sc *scene) killInTransaction(ctx context.Context, victim *replica) (at time.Time, open held, err error) {
	for range freezes {
		at = time.Now()
		if err := victim.Freeze(); err != nil {
			return at, nil, err
		}
		if !wait.For(ctx, settleDown) {
			return at, nil, ctx.Err()
		}
		if open, err = sc.openOf(ctx, victim); err != nil {
			return at, nil, err
		}
		if len(open) > 0 {
			sc.f.kill(victim)
			return at, open, nil
		}
		if err := victim.Thaw(); err != nil {
			return at, nil, err
		}
		wait.For(ctx, time.Duration(noise(uint64(at.UnixNano()))%uint64(50*time.Millisecond)))
	}
	return at, nil, fmt.Errorf("no transaction of a replica was found open in %d tries", freezes)
}

// openOf asks what the open transactions of a replica hold up in the target.
func (sc *scene) openOf(ctx context.Context, of *replica) (held, error) {
	listed, err := sc.r.adm.ListTransactions(ctx, nil, []string{"Ongoing"})
	if err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	producers := map[int64]bool{}
	for _, t := range listed {
		if strings.HasPrefix(t.TxnID, sc.group+"-") && strings.Contains(t.TxnID, "@"+of.Name()+"-") { // as producer.Writer makes them
			producers[t.ProducerID] = true
		}
	}
	open := held{}
	if len(producers) == 0 {
		return open, nil
	}
	var in kadm.TopicsSet
	for p := range sc.r.o.targets {
		in.Add(sc.targets[0], int32(p))
	}
	active, err := sc.r.adm.DescribeProducers(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("describe producers: %w", err)
	}
	active.EachProducer(func(p kadm.DescribedProducer) {
		if producers[p.ProducerID] && p.CurrentTxnStartOffset >= 0 {
			open[p.Partition] = p.CurrentTxnStartOffset
		}
	})
	return open, nil
}
