package integration

import (
	"bufio"
	"context"
	"errors"
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

// A replica takes no more memory than its budget says, whatever is due at once and whatever has come while it was away, and all of it is
// delivered once. What the resident memory is bounded by holds the budget, the program, what is being read and sent, and
// what the collector has not given back.
func TestMemory(t *testing.T) {
	full := os.Getenv("DUEWHEEL_TEST_MEMORY") == "full"
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) { f.play(t, full) })
	}
}

type flood struct {
	name    string
	budget  int64
	records int
	crowds  func(n int, at time.Time) []load.Config
	set     setting
}

func within(at time.Time) (due []load.Due) {
	for i := range 20 {
		due = append(due, load.Due{Weight: 1, At: at.Add(time.Duration(i) * 50 * time.Millisecond)})
	}
	return due
}

var floods = []flood{
	{"due", 32 * mib, 200_000, func(n int, at time.Time) []load.Config {
		return []load.Config{{Records: n, ValueBytes: 1000, Due: within(at), Bare: true}}
	}, setting{}},
	{"late", 32 * mib, 200_000, func(n int, at time.Time) []load.Config {
		return []load.Config{{Records: n, ValueBytes: 1000, Due: []load.Due{{Weight: 1, From: -2 * time.Hour, To: -time.Hour}}, Bare: true}}
	}, setting{}},
	{"large", 32 * mib, 300, func(n int, at time.Time) []load.Config {
		return []load.Config{{Records: n, ValueBytes: 1<<20 - 1000, Due: within(at), Bare: true}}
	}, setting{}},
	{"large-late", 32 * mib, 300, func(n int, at time.Time) []load.Config {
		return []load.Config{{Records: n, ValueBytes: 1<<20 - 1000, Due: []load.Due{{Weight: 1, From: -2 * time.Hour, To: -time.Hour}}, Bare: true}}
	}, setting{}},
	{"medium", 32 * mib, 20_000, func(n int, at time.Time) []load.Config {
		return []load.Config{{Records: n, ValueBytes: 20_000, Due: within(at), Bare: true}}
	}, setting{}},
	{"medium-late", 32 * mib, 20_000, func(n int, at time.Time) []load.Config {
		return []load.Config{{Records: n, ValueBytes: 20_000, Due: []load.Due{{Weight: 1, From: -2 * time.Hour, To: -time.Hour}}, Bare: true}}
	}, setting{}},
	{"dead", 32 * mib, 200_000, func(n int, at time.Time) []load.Config {
		return []load.Config{{Records: n, ValueBytes: 1000, Bad: 1, Due: []load.Due{{Weight: 1, From: -2 * time.Hour, To: -time.Hour}}}}
	}, setting{}},
	{"ids", 32 * mib, 200_000, func(n int, at time.Time) []load.Config {
		return []load.Config{{Records: n / 2, ValueBytes: 1000, IDs: true, Due: within(at)}, {Records: n / 2, ValueBytes: 1000, IDs: true, Due: []load.Due{{Weight: 1, From: -2 * time.Hour, To: -time.Hour}}}}
	}, setting{}},
}

func (f *flood) play(t *testing.T, full bool) {
	f.set.seed = newSeed(t)
	f.set.delayConfig = map[string]string{"max.message.bytes": "2000000"}
	f.set.targetConfig = f.set.delayConfig
	f.set.deadConfig = f.set.delayConfig
	s := newStage(t, shared(t), f.set)
	config := s.replica(func(c *replicaConfig) { c.Lanes, c.MemoryBudget = 1, f.budget })
	before := s.spawn(config)
	s.load(load.Config{Records: 100, Due: []load.Due{{Weight: 1, To: time.Millisecond}}})
	s.arrive()
	idle := peak(t, before)
	s.terminate(before)
	began := time.Now()
	at := time.Now().Add(8 * time.Second)
	total := s.load(f.crowds(f.records, at)...)
	t.Logf("written after %v: %v", time.Since(began), total)
	began = time.Now()
	p := s.spawn(config)
	s.arrive()
	t.Logf("delivered after %v; %d MiB at most, %d MiB idle", time.Since(began), peak(t, p)/mib, idle/mib)
	s.terminate(p)
	s.judge()
}

// peak is what a process has had in memory at most.
func peak(t *testing.T, p *child.Process) int64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		t.Fatal(err)
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
	t.Fatal(errors.Join(context.Canceled))
	return 0
}
