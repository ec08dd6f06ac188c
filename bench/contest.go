package bench

import "fmt"

// contest holds the rates of a case that is measured against the copy loop.
type contest struct {
	ours   []float64
	copies map[int][]float64 // by batch
}

// copyAll runs the copy loop once with every batch.
func (c *contest) copyAll(run func(batch int) (float64, error)) error {
	for _, batch := range copyBatches {
		rate, err := run(batch)
		if err != nil {
			return err
		}
		if c.copies == nil {
			c.copies = map[int][]float64{}
		}
		c.copies[batch] = append(c.copies[batch], rate)
	}
	return nil
}

// best is the copy loop's best median, and the batch with which it was reached.
func (c *contest) best() (batch int, rate float64) {
	for _, b := range copyBatches {
		if m := median(c.copies[b]); m > rate {
			batch, rate = b, m
		}
	}
	return batch, rate
}

// figures are what every such case has.
func (c *contest) figures() Figures {
	f := Figures{"records_per_s": median(c.ours)}
	for b, rates := range c.copies {
		f[fmt.Sprintf("copy_%d_per_s", b)] = median(rates)
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
