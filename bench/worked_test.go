package bench

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// worked is one of the examples of docs/sizing.md.
type worked struct {
	rate, delay           float64 // records a second, seconds
	partitions, processes float64
	bursts                bool // all of it is due at one instant
}

// What the page reckons with; its first table says where each number comes from.
const (
	workedStored, workedLogged, workedCopied = 180, 175, 275 // bytes
	workedSlack                              = 10_000        // offsets of log for each partition
	workedKept                               = 7 * 24 * 3600 // seconds
	workedTurns                              = 332           // a second, at most
	workedTurnCPU                            = 2.8e-3        // seconds
	workedRead                               = 430_000       // offsets a second
)

func (w worked) pending() float64 { return w.rate * w.delay }

// trimmed is how many offsets the log has at most.
func (w worked) trimmed() float64 { return 1.25 * (2*w.pending() + workedSlack*w.partitions) }

// copies is how many are made a second.
func (w worked) copies() float64 {
	if w.delay <= workedKept/2 {
		return 0
	}
	return w.pending() / (workedKept / 2)
}

func (w worked) kept() float64 {
	return w.rate*workedKept*workedLogged + w.copies()*workedKept*workedCopied
}

func (w worked) turns() float64 { return min(w.rate, workedTurns*w.processes) }

// unlessBursts is a figure, or that the page says more.
func (w worked) unlessBursts(figure string) string {
	if w.bursts {
		return "see below"
	}
	return figure
}

// The worked examples of docs/sizing.md are what its formulas lead to.
func TestWorkedExamples(t *testing.T) {
	document, err := os.ReadFile("../docs/sizing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(document), "<!-- worked:begin -->\n")
	table, _, _ = strings.Cut(table, "<!-- worked:end -->")
	cells := map[string][]string{}
	for line := range strings.Lines(table) {
		row := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		cells[row[0]] = row[1:]
	}
	gigabytes := func(b float64) string { return fmt.Sprintf("%.1f GB", b/1e9) }
	whole := func(n float64) string { return thousands(int64(math.Round(n))) }
	day := 24 * 3600.0
	for i, w := range []worked{
		{100, 30 * day, 24, 3, false}, {1000, day, 12, 2, false}, {10_000, 900, 8, 2, false}, {1_000_000 / day, day, 8, 2, true},
	} {
		for row, want := range map[string]string{
			"partitions": whole(w.partitions), "processes": whole(w.processes), "pending": whole(w.pending()),
			"state directory of each, without what compactions take": gigabytes(workedStored * w.pending() / w.processes),
			"log, trimmed, at most: offsets":                         whole(w.trimmed()),
			"in bytes":                                               gigabytes(workedLogged * w.trimmed()),
			"log, kept for 7 days":                                   gigabytes(w.kept()),
			"Kafka writes for each record then":                      fmt.Sprintf("%.1f", 2+w.copies()/w.rate),
			"of these, copies a second":                              whole(w.copies()),
			"transactions a second":                                  w.unlessBursts(whole(w.turns())),
			"CPU of processes and brokers, cores":                    w.unlessBursts(fmt.Sprintf("%.1f", w.turns()*workedTurnCPU)),
			"a start of all without state directories":               whole(w.trimmed()/w.processes/workedRead) + " s",
		} {
			if i >= len(cells[row]) {
				t.Fatalf("no row %q with %d examples: %q", row, i+1, cells[row])
			}
			if got := cells[row][i]; got != want {
				t.Errorf("example %d: %s: %q, and computed %q", i+1, row, got, want)
			}
		}
	}
}
