package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/duewheel/duewheel/bench/check"
)

// table is what a chaos run has shown.
type table struct {
	mu         sync.Mutex
	recoveries []*recovery
	acts       []string

	kills, open, frozen, openFrozen int
}

func (t *table) add(c *chaos, r *check.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recoveries = append(t.recoveries, c.view.over...)
	if !c.act.atLeastOnce { // else there are no transactions
		t.kills, t.open = t.kills+c.kills, t.open+c.open
		t.frozen, t.openFrozen = t.frozen+c.frozen, t.openFrozen+c.openFrozen
	}
	l := r.Lateness
	steps := 0
	for _, n := range c.played {
		steps += n
	}
	t.acts = append(t.acts, fmt.Sprintf("%s, Kafka %s: %d faults of %d kinds, %d kills; %d requests, %d cancels, %d copies, %d doubled, faults in the report: %d; lateness p50 %v, p99 %v, max %v",
		c.act.name, c.act.version, steps, len(c.played), c.kills, r.Requested, r.Cancels, r.Carried, r.Doubled, r.Faults, l.Quantile(.5), l.Quantile(.99), l.Quantile(1)))
}

// String tells how long it took from each fault until every partition was live again. Faults that came while another one was not
// over are a line of their own.
func (t *table) String() string {
	took := make(map[fault][]time.Duration)
	var order []fault
	for _, r := range t.recoveries {
		name := r.fault
		if r.shared {
			name = "several at a time"
		}
		if took[name] == nil {
			order = append(order, name)
		}
		took[name] = append(took[name], r.took)
	}
	slices.Sort(order)
	var b strings.Builder
	fmt.Fprintf(&b, "| fault | times | all live again: p50 | max |\n|---|---|---|---|\n")
	for _, name := range order {
		all := took[name]
		slices.Sort(all)
		fmt.Fprintf(&b, "| %s | %d | %.2f s | %.2f s |\n", name, len(all), all[(len(all)-1)/2].Seconds(), all[len(all)-1].Seconds())
	}
	fmt.Fprintf(&b, "kill -9 of replicas that have transactions: %d, of these inside an open transaction: %d; frozen: %d, of these inside an open transaction: %d\n",
		t.kills, t.open, t.frozen, t.openFrozen)
	return b.String() + strings.Join(t.acts, "\n")
}
