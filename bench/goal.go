package bench

import "math"

// goal is what a case should reach, and what others were measured to reach on two cores with the broker on
// the same machine.
type goal struct {
	text    string
	limits  []limit // all must hold
	compare string
}

// limit bounds one figure.
type limit struct {
	figure  string
	atLeast bool // else at most
	value   float64
}

func atLeast(figure string, v float64) limit { return limit{figure, true, v} }
func atMost(figure string, v float64) limit  { return limit{figure, false, v} }

// holds is false for a figure that is not there or not a number.
func (l limit) holds(f Figures) bool {
	v, ok := f[l.figure]
	switch {
	case !ok || math.IsNaN(v):
		return false
	case l.atLeast:
		return v >= l.value
	default:
		return v <= l.value
	}
}

func (g goal) met(f Figures) bool {
	for _, l := range g.limits {
		if !l.holds(f) {
			return false
		}
	}
	return true
}

var (
	goalExactlyOnce = goal{
		text: "p50 ≤ 8 ms, p99 ≤ 30 ms", limits: []limit{atMost("p50_ms", 8), atMost("p99_ms", 30)},
		compare: "Kafka Streams: p50 111, p99 283 ms; NATS: 170, 310; RocketMQ: 79, 159",
	}
	goalAtLeastOnce = goal{text: "p50 ≤ 4 ms, p99 ≤ 15 ms", limits: []limit{atMost("p50_ms", 4), atMost("p99_ms", 15)}}
)

var goalFloor = goal{
	text:   "of a bare pair: p50 ≤ 1.5, p99 ≤ 1.6, transactions ≤ 1.1, CPU ≤ 1.2",
	limits: []limit{atMost("p50_ms_ratio", 1.5), atMost("p99_ms_ratio", 1.6), atMost("transactions_per_s_ratio", 1.1), atMost("cpu_ratio", 1.2)},
}

var goalTakeover = goal{
	text: "live, and readers past it, within 1 s", limits: []limit{atMost("live_s", 1), atMost("readers_past_s", 1)},
	compare: "Kafka Streams with standby: all live after 15.7 s (the dead one's transaction)",
}

var goalAhead = goal{text: "≥ 500,000 records of log/s; ≤ 256 MiB", limits: []limit{atLeast("log_per_s", 500_000), atMost("peak_mib", 256)}}

// goals are by Result.Case.
var goals = map[string]goal{
	"throughput": {
		text: "≥ 0.75 of the copy loop", limits: []limit{atLeast("ratio", 0.75)},
		compare: "Kafka Streams: 36,000/s",
	},
	"cpu": {text: "≤ 1.5 of the copy loop's", limits: []limit{atMost("ratio", 1.5)}},
	"store": {
		text:   "≥ 0.5 of the copy loop; intake alone ≥ 0.6, delivery alone ≥ 0.85",
		limits: []limit{atLeast("ratio", 0.5), atLeast("accepted_ratio", 0.6), atLeast("delivered_ratio", 0.85)},
	},
	"writes": {
		// As exact as it is shown: a batch that a broker took twice in an aborted transaction is no other design.
		text: "2", limits: []limit{atMost("records_per_record", 2.0005)},
		compare: "Kafka Streams: 4",
	},
	"lateness":           goalExactlyOnce,
	"lateness, live":     goalExactlyOnce,
	"lateness-alo":       goalAtLeastOnce,
	"lateness-alo, live": goalAtLeastOnce,
	"instant": {
		text: "≤ 1 s; pause ≤ 100 ms", limits: []limit{atMost("last_seen_s", 1), atMost("pause_ms", 100)},
		compare: "Kafka Streams: 0.8 s, pause 0.7 s; NATS: 1.15 s, 1.1 s; RocketMQ: 2.3 s",
	},
	"hot":          {text: "≥ 0.6 of the copy loop; pause ≤ 100 ms", limits: []limit{atLeast("ratio", 0.6), atMost("pause_ms", 100)}},
	"window":       {text: "p99 ≤ +10 ms", limits: []limit{atMost("loads_extra_p99_ms", 10), atMost("spills_extra_p99_ms", 10)}},
	"hot, lane":    {text: "≤ 50 ms", limits: []limit{atMost("longest_ms", 50)}},
	"hot, others":  {text: "p99 ≤ 50 ms", limits: []limit{atMost("route_p99_ms", 50), atMost("target_p99_ms", 50)}},
	"hot, memory":  {text: "≤ budget + 256 MiB", limits: []limit{atMost("over_budget_mib", 256)}},
	"floor, 1 × 4": goalFloor,
	"floor, 3 × 8": goalFloor,
	"carry":        {text: "p99 ≤ +10 ms", limits: []limit{atMost("extra_p99_ms", 10)}},
	"idle":         {text: "CPU ≤ 1 %; ≤ 12 requests a record", limits: []limit{atMost("cpu_percent", 1), atMost("requests_per_record", 12)}},
	"cancels":      {text: "≥ 100,000/s", limits: []limit{atLeast("cancels_per_s", 100_000)}},
	"retry":        {text: "≥ 0.98 of the failures meant", limits: []limit{atLeast("kept_up", 0.98)}},
	"retry-dlq":    {text: "≥ 0.98 of the failures meant", limits: []limit{atLeast("kept_up", 0.98)}},
	"ids":          {text: "≤ 1.3 times as long", limits: []limit{atMost("ratio", 1.3)}},
	"ids-pending":  {text: "≤ twice the budget", limits: []limit{atMost("of_budget", 2)}},
	"audit":        {text: "≤ 1.67 times as long", limits: []limit{atMost("ratio", 1.67)}},
	"ls":           goalAhead,
	"agenda":       goalAhead,
	"get":          {text: "≤ 1 s", limits: []limit{atMost("took_s", 1)}},
	"get-behind":   {text: "≤ 1 s", limits: []limit{atMost("took_s", 1)}},
	"forms":        {text: "≤ 100 ns, no allocation; other forms ≤ 1 µs", limits: []limit{atMost("millis_ns", 100), atMost("millis_allocations", 0), atMost("other_ns", 1000)}},
	"standby":      goalTakeover,
	"standby-many": goalTakeover,
	"cold":         {text: "≥ 500,000 records of log/s", limits: []limit{atLeast("log_per_s", 500_000)}, compare: "Kafka Streams: 600,000/s from its changelog"},
	"rebuild":      {text: "≥ 500,000 records of log/s", limits: []limit{atLeast("log_per_s", 500_000)}, compare: "Kafka Streams: 600,000/s from its changelog"},
	"restart": {
		text: "≤ 1 s", limits: []limit{atMost("first_delivery_s", 1)},
		compare: "Kafka Streams: 2.9 s; RocketMQ: 5.6 s; NATS: 3.4 to 6.1 s",
	},
	"restart, killed": {text: "≤ 1 s", limits: []limit{atMost("first_delivery_s", 1)}},
	"rebalance": {
		text: "stay: ≤ +50 ms; move: ≤ +1 s", limits: []limit{atMost("stay_extra_p99_ms", 50), atMost("move_extra_p99_ms", 1000)},
	},
	"rolling":               {text: "≤ +1 s", limits: []limit{atMost("extra_max_s", 1)}},
	"intake":                {text: "≥ 500,000/s", limits: []limit{atLeast("records_per_s", 500_000)}},
	"amplification":         {text: "≤ 3.5", limits: []limit{atMost("ratio", 3.5)}},
	"ram":                   {text: "≤ 1 B", limits: []limit{atMost("bytes_per_record", 1)}},
	"reopen":                {text: "≤ 0.5 s", limits: []limit{atMost("took_s", 0.5)}},
	"beside":                {text: "≥ 0.8", limits: []limit{atLeast("ratio", 0.8)}},
	"replay":                {text: "≥ 500,000 records of log/s", limits: []limit{atLeast("log_per_s", 500_000)}},
	"many, filling":         {text: "p99 ≤ 100 ms", limits: []limit{atMost("p99_ms", 100)}},
	"many, lateness":        {text: "p99 ≤ 1.5 times", limits: []limit{atMost("p99_ratio", 1.5)}},
	"many, restart":         {text: "≤ 0.5 s", limits: []limit{atMost("first_delivery_s", 0.5)}},
	"many, restart, killed": {text: "≤ 0.5 s", limits: []limit{atMost("first_delivery_s", 0.5)}},
	"many, throughput":      {text: "≥ 0.8", limits: []limit{atLeast("ratio", 0.8)}},
	"many, intake":          {text: "≥ 0.8", limits: []limit{atLeast("ratio", 0.8)}},
	"many, memory":          {text: "≤ memory.budget + 256 MiB", limits: []limit{atMost("beyond_mib", 256)}},
	"rolling, standby":      {text: "≤ +1 s", limits: []limit{atMost("extra_max_s", 1)}},
}
