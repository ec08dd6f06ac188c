package verify

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics shows the last report to Prometheus. Its zero value has nothing to show yet. It may be used by several goroutines.
type Metrics struct {
	mu     sync.Mutex // guards what follows
	last   *Report
	held   int64
	passes map[string]int64 // by outcome: well, faults or failed
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("duewheel_verify_"+name, help, labels, nil)
}

var (
	descRequests = desc("requests", "Requests of the window, by what became of them.", "outcome")
	descFaults   = desc("faults", "Broken promises that were found, by kind. Those that are overdue are counted as of now, all others since the start.", "kind")
	descUntold   = desc("untold_requests", "Requests of which it cannot be told what became of them, by why.", "why")
	descBelieved = desc("believed_requests", "What is taken for true although nothing else says so, by what: dead letters that could be delivered as things are now by their code, ahead, otherwise.", "what")
	descLateness = desc("lateness_seconds", "How much later than due records were delivered, since the start, by target.", "target")
	descPasses   = desc("passes_total", "Times that all topics were read to their ends, by what was found: well, faults, or failed.", "outcome")
	descLastPass = desc("last_pass_timestamp_seconds", "When the last pass began that did not fail.")
	descHeld     = desc("held_bytes", "What is held of requests that are not settled, roughly.")
)

// Took notes what came of a pass: a report, or nil where it failed.
func (m *Metrics) Took(r *Report, held int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.passes == nil {
		m.passes = map[string]int64{"well": 0, "faults": 0, "failed": 0}
	}
	m.held = held
	switch {
	case r == nil:
		m.passes["failed"]++
		return
	case !r.Well():
		m.passes["faults"]++
	case len(r.Denied)+len(r.Blind) > 0:
		m.passes["failed"]++
	default:
		m.passes["well"]++
	}
	m.last = r
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRequests, descFaults, descUntold, descBelieved, descLateness, descPasses, descLastPass, descHeld} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for outcome, n := range m.passes {
		ch <- prometheus.MustNewConstMetric(descPasses, prometheus.CounterValue, float64(n), outcome)
	}
	if m.last == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	c := m.last.Counts
	for outcome, n := range map[string]int64{
		"requested": c.Requested, "delivered": c.Delivered, "dead_lettered": c.DeadLettered, "taken": c.Taken, "pending": c.Pending, "overdue": c.Overdue,
		"missing": c.Missing, "untold": c.Untold, "doubled": c.Doubled, "untimed": c.Untimed,
	} {
		gauge(descRequests, float64(n), outcome)
	}
	counts := make(map[string]int64)
	for _, f := range m.last.Faults {
		counts[f.Kind] = f.Count
	}
	for _, kind := range Kinds() {
		gauge(descFaults, float64(counts[kind]), kind) // those too that were not found, so that an alert has something to begin with
	}
	for _, f := range m.last.Untold {
		gauge(descUntold, float64(f.Count), f.Kind)
	}
	gauge(descBelieved, float64(c.Ahead), "ahead")
	gauge(descBelieved, float64(c.Otherwise), "otherwise")
	for code, n := range m.last.Believed {
		gauge(descBelieved, float64(n), code)
	}
	for _, l := range m.last.ByTarget {
		ch <- prometheus.MustNewConstSummary(descLateness, uint64(l.Records), l.Mean/1000*float64(l.Records), map[float64]float64{.5: l.P50 / 1000, .99: l.P99 / 1000, 1: l.Max / 1000}, l.Target)
	}
	gauge(descLastPass, float64(m.last.At)/1000)
	gauge(descHeld, float64(m.held))
}
