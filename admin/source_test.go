package admin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/histogram"
)

// distinct are Stats in which no two numbers are the same.
func distinct() processor.Stats {
	counts := func(n int64, sum float64) histogram.Snapshot {
		all := make([]int64, len(histogram.Bounds)+1)
		all[3] = n
		return histogram.Snapshot{Bounds: histogram.Bounds, Counts: all, Sum: sum}
	}
	return processor.Stats{
		Now:   now.Add(time.Hour), // not the time of the machine that asks
		Lanes: 101, Outside: make([]string, 3),
		Partitions: []processor.PartitionStats{{
			Topic: "t", Partition: 1, Phase: processor.PhaseLive, Known: true,
			Offset: 201, LowWater: 202, WatermarkDue: 203_000, Position: 204, LogStart: 205, LogEnd: 206,
			CheckpointAt: now.Add(-207 * time.Second), CheckpointOverdue: 208 * time.Second, CarryBehind: "why", RestoreTime: 209 * time.Second, CaughtUp: 218, CatchUpLeft: 219 * time.Second,
			Unstable: 220, OpenFor: 221 * time.Second, HeldBack: "why",
			Pending: 210, PendingBytes: 211, Near: 212, Remembered: 217, Overdue: 213, NextDue: now.Add(time.Hour).UnixMilli() - 214_000,
			Agenda: []processor.AgendaEntry{{Within: time.Minute, Records: 215, Bytes: 216}},
		}},
		Standbys:    []processor.StandbyStats{{Topic: "s", Partition: 2, Offset: 390, Position: 89, Pending: 302}, {Topic: "s", Partition: 3}},
		Topics:      []processor.TopicStats{{Topic: "t", Accepted: 401, Delivered: 402, Late: 403, LateOnArrival: 404, Requested: counts(406, 407), Trouble: "compacted", Trimmed: 405, Untrimmed: "why", Carried: 408}},
		Targets:     []processor.TargetStats{{Target: "o", Delivered: 501, Trouble: "why", Lateness: counts(502, 503)}},
		DeadLetters: []processor.DeadLetterStats{{Topic: "t", Code: "no_due", Records: 601}},
		Refused:     map[string]int64{"no_target": 602}, Cancels: map[string]int64{"too_late": 603}, Audited: map[string]int64{"expired": 604},
		Transactions: map[string]int64{"committed": 701}, Checkpoints: map[string]int64{"written": 702},
		EndsWritten: 707, EndsOwed: 708, TransactionTime: counts(703, 704), Work: map[string]histogram.Snapshot{"spill": counts(705, 706)},
		Rebalances: 801, Takeovers: 802, Retried: 803, ReadAgain: 804, ClockSteps: 805,
		ClockSkew: 806 * time.Second, BrokerClocks: []processor.BrokerClock{{Broker: 7, Skew: 807 * time.Second}},
		NearBytes: 808, StoreBytes: 809, PeersHeard: 810, PeersTakenOut: 811, StoreTrouble: "why", ClockTrouble: "why", ClockUnknown: "why",
	}
}

// sources are the samples that distinct must give: of each descriptor, so that one that has no line here is missed.
const sources = `
assigned_partitions 1
audit_records_total{event="expired"} 604
broker_clock_skew_seconds{broker="7"} 807
cancels_total{outcome="too_late"} 603
carry_behind{partition="1",topic="t"} 1
checkpoint_age_seconds{partition="1",topic="t"} 207
checkpoint_low_water{partition="1",topic="t"} 202
checkpoint_offset{partition="1",topic="t"} 201
checkpoint_overdue_seconds{partition="1",topic="t"} 208
checkpoints_total{outcome="written"} 702
clock_skew_seconds 806
clock_steps_total 805
clock_unchecked 1
clock_wrong 1
delay_requested_seconds{topic="t"} count 406 sum 407
due_within_records{partition="1",topic="t",window="1m"} 215
header_parse_total{outcome="no_target"} 602
lane_work_seconds{work="spill"} count 705 sum 706
lanes 101
lanes_outside_group 3
lateness_seconds{target="o"} count 502 sum 503
log_end_offset{partition="1",topic="t"} 206
log_start_offset{partition="1",topic="t"} 205
near_bytes 808
near_records{partition="1",topic="t"} 212
next_due_timestamp_seconds{partition="1",topic="t"} 1.800003386e+09
oldest_overdue_seconds{partition="1",topic="t"} 214
open_transaction_seconds{partition="1",topic="t"} 221
overdue_records{partition="1",topic="t"} 213
partition_catch_up_left_seconds{partition="1",topic="t"} 219
partition_caught_up_ratio{partition="1",topic="t"} 218
partition_ready{partition="1",topic="t"} 1
partition_restore_seconds{partition="1",topic="t"} 209
partition_stopped{partition="1",topic="t"} 0
partitions_read_again_total 804
pending_bytes{partition="1",topic="t"} 211
pending_records{partition="1",topic="t"} 210
peers_heard 810
peers_taken_out_total 811
position{partition="1",topic="t"} 204
rebalances_total 801
records_accepted_total{topic="t"} 401
records_carried_total{topic="t"} 408
records_dead_lettered_total{code="no_due",topic="t"} 601
records_delivered_total{topic="t"} 402
records_late_on_arrival_total{topic="t"} 404
records_late_total{topic="t"} 403
records_retried_total 803
remembered_records{partition="1",topic="t"} 217
standby_lag_records{partition="2",topic="s"} 301
standby_lag_records{partition="3",topic="s"} 0
standby_partitions 2
standby_pending_records{partition="2",topic="s"} 302
standby_pending_records{partition="3",topic="s"} 0
standby_takeovers_total 802
store_bytes 809
store_failed 1
topic_loses_records{topic="t"} 1
topic_trimmed_offsets_total{topic="t"} 405
topic_untrimmed{topic="t"} 1
target_in_trouble{target="o"} 1
target_records_delivered_total{target="o"} 501
transaction_duration_seconds count 703 sum 704
transaction_ends_owed 708
transaction_ends_written_total 707
transactions_total{outcome="committed"} 701
unstable_offsets{partition="1",topic="t"} 220
watermark_timestamp_seconds{partition="1",topic="t"} 203
`

// Each metric comes from its own place in the Stats, and each descriptor has a sample.
func TestSources(t *testing.T) {
	c := collect(distinct())
	registry := prometheus.NewPedanticRegistry() // which refuses samples that Describe does not name
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := strings.TrimPrefix(f.GetName(), namespace)
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case m.Histogram != nil:
				got = append(got, fmt.Sprintf("%s count %d sum %v", name, m.Histogram.GetSampleCount(), m.Histogram.GetSampleSum()))
			case m.Counter != nil:
				got = append(got, fmt.Sprintf("%s %v", name, m.Counter.GetValue()))
			default:
				got = append(got, fmt.Sprintf("%s %v", name, m.Gauge.GetValue()))
			}
		}
	}
	want := strings.Split(strings.TrimSpace(sources), "\n")
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("got %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("want %s", line)
		}
	}
	descs := make(chan *prometheus.Desc, 1000)
	c.Describe(descs)
	if n := len(descs); n != len(families) {
		t.Errorf("%d descriptors, and samples of %d", n, len(families))
	}
	if n := testutil.CollectAndCount(c); n != len(want) {
		t.Errorf("%d samples, want %d", n, len(want))
	}
}
