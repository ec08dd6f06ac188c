package integration

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/bench/child"
	"github.com/duewheel/duewheel/integration/load"
)

const mib = 1 << 20

// scale is how much there is in tests of memory, and with how much memory.
type scale struct {
	full     bool
	budget   int64
	heap     string        // GOMEMLIMIT; empty: what the replica sets itself
	beside   int64         // bytes that a process may take besides its budget
	records  int           // small ones that are due at once, or have come while no replica ran
	bytes    int           // of each
	large    int           // records of a MiB
	patience time.Duration // with one test
	lead     time.Duration // from when records are written until they are due
}

// few is little enough for every run of the tests, and several times what may be in memory. A heap of 80 MiB is what a budget of 32 MiB
// takes; with the 136 MiB that a replica would set itself, less would be seen.
var few = scale{budget: 32 * mib, heap: "80MiB", beside: 192 * mib, records: 100_000, bytes: 1000, large: 100, patience: patience, lead: 6 * time.Second}

// many is what make memory tries, with the default budget and what follows from it.
func many(records int) scale {
	return scale{
		full: true, budget: 256 * mib, beside: 256 * mib, records: records, bytes: 200, large: 500,
		patience: 30 * time.Minute, lead: 30*time.Second + time.Duration(records)*50*time.Microsecond,
	}
}

// scaleOf is how much a test plays.
func scaleOf(records int) scale {
	of := few
	if os.Getenv("DUEWHEEL_TEST_MEMORY") == "full" {
		of = many(records)
	}
	return of
}

// flood is a tenant with one replica, whose memory is judged.
type flood struct {
	*tenant
	scale
	config replicaConfig
}

func newFlood(t *testing.T, of scale, change func(*replicaConfig)) *flood {
	t.Helper()
	room := map[string]string{"max.message.bytes": "2000000"}
	s := newTenant(t, shared(t), setting{seed: newSeed(t), delayConfig: room, targetConfig: room, deadConfig: room})
	s.patience = of.patience
	return &flood{s, of, s.replica(func(c *replicaConfig) {
		c.Lanes, c.MemoryBudget = 1, of.budget
		if of.heap != "" {
			c.Env = []string{"GOMEMLIMIT=" + of.heap}
		}
		if of.full {
			c.NearWindow = 0 // the default
		}
		change(c)
	})}
}

// mixed are requests of all kinds for some due times: small ones, some with ids, and large ones.
func (f *flood) mixed(due ...load.Due) []load.Config {
	return []load.Config{
		{Records: f.records * 4 / 5, ValueBytes: f.bytes, Due: due, Bare: true, Keys: 10_000},
		{Records: f.records / 5, ValueBytes: f.bytes, Due: due, Bare: true, IDs: true},
		{Records: f.large, ValueBytes: mib - 10_000, Due: due, Bare: true, Producers: 1},
	}
}

// soon are due times within a second.
func (f *flood) soon() (due []load.Due) {
	at := time.Now().Add(f.lead)
	for i := range 20 {
		due = append(due, load.Due{Weight: 1, At: at.Add(time.Duration(i) * 50 * time.Millisecond)})
	}
	return due
}

// end waits until all has arrived, and judges that and the memory of the replica.
func (f *flood) end(p *child.Process, began time.Time) {
	f.t.Helper()
	f.arrive()
	took, most := time.Since(began), peak(f.t, p)
	f.terminate(p)
	report := f.judge()
	f.t.Logf("%d MiB of memory at most, with a budget of %d MiB; %d delivered and %d dead-lettered, the last %v after they were due or the replica began",
		most/mib, f.budget/mib, report.Delivered, report.DeadLettered, took.Round(100*time.Millisecond))
	if bound := f.budget + f.beside; most > bound {
		f.t.Errorf("the replica has taken %d MiB of memory, and may take %d", most/mib, bound/mib)
	}
}

// Very many records are due within one second: they are streamed from the store, however large they are.
func TestMemoryOfDue(t *testing.T) {
	f := newFlood(t, scaleOf(5_000_000), func(*replicaConfig) {})
	p := f.spawn(f.config)
	due := f.soon()
	f.load(f.mixed(due...)...)
	f.end(p, due[0].At)
}

// Very many records have come while no replica ran: half of them for times that W has passed, which are late, half for times that are over, and
// many that are dead-lettered.
func TestMemoryOfLate(t *testing.T) {
	f := newFlood(t, scaleOf(2_000_000), func(*replicaConfig) {})
	before := f.spawn(f.config)
	f.load(load.Config{Records: 1000, Due: []load.Due{{Weight: 1, To: time.Millisecond}}})
	f.arrive()
	f.terminate(before)
	late := []load.Due{{Weight: 1, From: -2 * time.Hour, To: -time.Hour}, {Weight: 1, To: time.Second}}
	bad := load.Config{Records: f.records / 5, ValueBytes: f.bytes, Due: late, Bad: 1, BadKinds: []load.Bad{load.Unparsable, load.NoTarget, load.NotAllowed}}
	f.load(append(f.mixed(late...), bad)...)
	began := time.Now()
	f.end(f.spawn(f.config), began)
}

// The same as TestMemoryOfDue without a store: memory holds what is due first, and the log is read again for the rest.
func TestMemoryWithoutStore(t *testing.T) {
	t.Parallel()
	f := newFlood(t, scaleOf(1_000_000), func(c *replicaConfig) { c.Full = true })
	p := f.spawn(f.config)
	due := f.soon()
	f.load(f.mixed(due...)...)
	f.end(p, due[0].At)
	if f.log.count("the local store cannot be used") == 0 {
		t.Error("it has a store")
	}
}

// peak is the most resident memory that a process has had.
func peak(t *testing.T, p *child.Process) int64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		t.Skipf("this system does not tell what memory a process takes: %v", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, is := strings.CutPrefix(lines.Text(), "VmHWM:"); is {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
