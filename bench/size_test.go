package bench

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// What many pending records cost is measured on both sides, every record is checked, and nothing is left.
func TestSize(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells what memory a process takes")
	}
	t.Parallel()
	o := smallFailover(t)
	o.Records, o.MemoryBudget = 1000, 100<<20
	results, err := Size(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	// Of the far side's records those of both rounds of intake are pending, too.
	judgeResults(t, results, SizeCases(), nil, "records: each delivered once", "; 5,000 more still pending")
	for i, figures := range [][]string{
		{"p50_ms", "p99_ms", "max_ms", "records", "filled_per_s"},
		{"p50_ms", "p99_ms", "without_p50_ms", "without_p99_ms", "p99_ratio"},
		{"first_delivery_s", "without_first_delivery_s", "first_delivery_worst_s", "joining_s", "all_s"},
		{"first_delivery_s", "without_first_delivery_s", "first_delivery_worst_s", "joining_s", "all_s"},
		{"per_s", "without_per_s", "ratio"},
		{"per_s", "without_per_s", "ratio"},
		{"peak_mib", "filling_mib", "without_peak_mib"},
	} {
		for _, f := range figures {
			if !(results[i].Figures[f] > 0) {
				t.Errorf("%s: figure %s is %v", results[i].Case, f, results[i].Figures[f])
			}
		}
	}
	memory := results[6].Figures
	if memory["budget_mib"] != 100 || memory["beyond_mib"] != memory["peak_mib"]-100 {
		t.Errorf("memory: %v", memory)
	}
	if names := left(t, o); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

// What the system says of this process as of any other is what it says of it itself, and it is no more than its peak in memory.
func TestProcessFigures(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	for began := cpuTime(); cpuTime()-began < 50*time.Millisecond; {
	}
	before, of, after := cpuTime(), cpuOfProcess(os.Getpid()), cpuTime()
	if of < before-20*time.Millisecond || of > after+20*time.Millisecond {
		t.Errorf("%v on the CPU, and it is between %v and %v", of, before, after)
	}
	if resident, peak := residentOf(os.Getpid()), peakOf(os.Getpid()); resident < mib || resident > peak+mib {
		t.Errorf("%d bytes resident, at most %d", resident, peak)
	}
	if cpuOfProcess(-1) != 0 || residentOf(-1) != 0 {
		t.Error("there is a process -1")
	}
}

func TestSizeRefuses(t *testing.T) {
	t.Parallel()
	o := smallFailover(t)
	o.Replica = nil
	if _, err := Size(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no way to start a replica") {
		t.Errorf("without a way to start replicas: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o = smallFailover(t)
	o.Progress = cancelOn{"size: none", cancel}
	if results, err := Size(ctx, o); err == nil || len(results) > 0 {
		t.Errorf("interrupted: %v, %v", results, err)
	}
	if names := left(t, o); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}
