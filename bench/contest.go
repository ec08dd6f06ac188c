package bench

import "fmt"

// contest holds the rates of a case that is measured against the copy loop.
type contest struct {
	records  int // of each run
	ours     []float64
	passages []passage       // the same runs
	copies   map[int][]speed // by batch
	checked  string          // of the last run
}

func rateOf(p speed) float64 { return p.rate }
func cpuOf(p speed) float64  { return p.cpu }

// best is the copy loop's best median, and the batch with which it was reached.
func (c *contest) best() (batch int, rate float64) {
	for _, b := range copyBatches {
		if m := medianOf(c.copies[b], rateOf); m > rate {
			batch, rate = b, m
		}
	}
	return batch, rate
}

// figures are what every such case has.
func (c *contest) figures() Figures {
	f := Figures{
		"records_per_s":  median(c.ours),
		"accepted_per_s": medianOf(c.passages, func(p passage) float64 { return float64(c.records) / p.accepting.Seconds() }),
	}
	for b, speeds := range c.copies {
		f[fmt.Sprintf("copy_%d_per_s", b)] = medianOf(speeds, rateOf)
	}
	_, best := c.best()
	f["copy_best_per_s"], f["ratio"] = best, median(c.ours)/best
	return f
}

func (c *contest) String() string {
	batch, best := c.best()
	return fmt.Sprintf("%s/s, %.2f of the copy loop's %s/s (at %s a transaction)",
		thousands(int64(median(c.ours))), median(c.ours)/best, thousands(int64(best)), thousands(int64(batch)))
}
