package admin

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/histogram"
)

var now = time.UnixMilli(1_800_000_000_000)

func collect(s processor.Stats) *Collector {
	return NewCollector(func() processor.Stats { return s }, func() time.Time { return now })
}

// expect compares the metrics that text names with what a collector gives.
func expect(t *testing.T, c prometheus.Collector, text string) {
	t.Helper()
	var names []string
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			names = append(names, strings.Fields(name)[0])
		}
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(text), names...); err != nil {
		t.Error(err)
	}
}

func TestPartitionMetrics(t *testing.T) {
	expect(t, collect(processor.Stats{Now: now, Partitions: []processor.PartitionStats{
		{
			Topic: "delays", Partition: 0, Phase: processor.PhaseLive, Known: true, Pending: 7, PendingBytes: 700, Near: 3, Overdue: 2,
			NextDue: now.UnixMilli() - 1500, CheckpointAt: now.Add(-2 * time.Second), CheckpointOverdue: 1500 * time.Millisecond, LowWater: 40, Offset: 90, Position: 110, LogEnd: 100,
			Agenda: []processor.AgendaEntry{{Within: time.Minute, Records: 5}, {Within: time.Hour, Records: 6}, {Within: 24 * time.Hour, Records: 7}},
		},
		{Topic: "delays", Partition: 1, Phase: processor.PhaseStopped},
	}}), `
# HELP duewheel_pending_records Records accepted and not delivered yet.
# TYPE duewheel_pending_records gauge
duewheel_pending_records{partition="0",topic="delays"} 7
# HELP duewheel_next_due_timestamp_seconds Due time of the next record; absent when nothing is pending.
# TYPE duewheel_next_due_timestamp_seconds gauge
duewheel_next_due_timestamp_seconds{partition="0",topic="delays"} 1.7999999985e+09
# HELP duewheel_oldest_overdue_seconds For how long the next record has been due; 0 when it is not.
# TYPE duewheel_oldest_overdue_seconds gauge
duewheel_oldest_overdue_seconds{partition="0",topic="delays"} 1.5
# HELP duewheel_due_within_records Pending records due within a time from now.
# TYPE duewheel_due_within_records gauge
duewheel_due_within_records{partition="0",topic="delays",window="1d"} 7
duewheel_due_within_records{partition="0",topic="delays",window="1h"} 6
duewheel_due_within_records{partition="0",topic="delays",window="1m"} 5
# HELP duewheel_partition_ready 1 when the partition is live.
# TYPE duewheel_partition_ready gauge
duewheel_partition_ready{partition="0",topic="delays"} 1
duewheel_partition_ready{partition="1",topic="delays"} 0
# HELP duewheel_partition_stopped 1 when the partition waits for a person to decide.
# TYPE duewheel_partition_stopped gauge
duewheel_partition_stopped{partition="0",topic="delays"} 0
duewheel_partition_stopped{partition="1",topic="delays"} 1
# HELP duewheel_checkpoint_age_seconds Time since the checkpoint was committed.
# TYPE duewheel_checkpoint_age_seconds gauge
duewheel_checkpoint_age_seconds{partition="0",topic="delays"} 2
# HELP duewheel_checkpoint_overdue_seconds For how long there has been a checkpoint to write; beyond a session something is wrong.
# TYPE duewheel_checkpoint_overdue_seconds gauge
duewheel_checkpoint_overdue_seconds{partition="0",topic="delays"} 1.5
# HELP duewheel_checkpoint_low_water Low water of the checkpoint: a replay begins there.
# TYPE duewheel_checkpoint_low_water gauge
duewheel_checkpoint_low_water{partition="0",topic="delays"} 40
# HELP duewheel_log_end_offset End of the delay topic's log.
# TYPE duewheel_log_end_offset gauge
duewheel_log_end_offset{partition="0",topic="delays"} 110
# HELP duewheel_assigned_partitions Partitions assigned to this process.
# TYPE duewheel_assigned_partitions gauge
duewheel_assigned_partitions 2
`)
}

// Of a partition that has not been opened only its phase is told: 0 pending, or a watermark of 1970, would say that all is well. One that
// has, and in which nothing is pending, tells that.
func TestUnknownFiguresAreLeftOut(t *testing.T) {
	of := func(p processor.PartitionStats) (names []string) {
		p.Topic = "delays"
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(collect(processor.Stats{Now: now, Partitions: []processor.PartitionStats{p}}))
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, l := range f.Metric[0].Label {
				if l.GetName() == "partition" {
					names = append(names, strings.TrimPrefix(f.GetName(), namespace))
				}
			}
		}
		return names
	}
	phase := []string{"partition_catch_up_left_seconds", "partition_caught_up_ratio", "partition_ready", "partition_stopped"}
	for _, p := range []processor.Phase{processor.PhaseRestoring, processor.PhaseStopped} {
		if got := of(processor.PartitionStats{Phase: p, LogStart: 3, LogEnd: 7}); !slices.Equal(got, phase) {
			t.Errorf("%s: %q", p, got)
		}
	}
	if got := of(processor.PartitionStats{Phase: processor.PhaseRestoring, CarryBehind: "why"}); !slices.Contains(got, "carry_behind") || len(got) != len(phase)+1 {
		t.Errorf("of one whose log may lose what is pending: %q", got)
	}
	got := of(processor.PartitionStats{Phase: processor.PhaseCatchUp, Known: true})
	for _, name := range []string{"pending_records", "overdue_records", "oldest_overdue_seconds", "checkpoint_offset", "watermark_timestamp_seconds", "log_end_offset"} {
		if !slices.Contains(got, name) {
			t.Errorf("no %s of a partition that is known", name)
		}
	}
	if slices.Contains(got, "partition_restore_seconds") {
		t.Error("a restore that goes on has taken a time")
	}
}

// Stats count each bucket by itself; Prometheus reads them summed up, the last one in the total only.
func TestLatenessIsCumulative(t *testing.T) {
	counts := make([]int64, len(histogram.Bounds)+1)
	counts[0], counts[1], counts[len(counts)-2], counts[len(counts)-1] = 5, 3, 2, 1
	var want strings.Builder
	want.WriteString("# HELP duewheel_lateness_seconds The delivering commit's answer minus the later of due and the record's timestamp, by target topic.\n# TYPE duewheel_lateness_seconds histogram\n")
	for i, bound := range histogram.Bounds {
		n := "8"
		switch i {
		case 0:
			n = "5"
		case len(histogram.Bounds) - 1:
			n = "10"
		}
		want.WriteString(`duewheel_lateness_seconds_bucket{target="orders",le="` + strconv.FormatFloat(bound, 'g', -1, 64) + `"} ` + n + "\n")
	}
	want.WriteString(`duewheel_lateness_seconds_bucket{target="orders",le="+Inf"} 11
duewheel_lateness_seconds_sum{target="orders"} 9000.5
duewheel_lateness_seconds_count{target="orders"} 11
`)
	expect(t, collect(processor.Stats{Targets: []processor.TargetStats{
		{Target: "orders", Delivered: 11, Lateness: histogram.Snapshot{Bounds: histogram.Bounds, Counts: counts, Sum: 9000.5}},
	}}), want.String())
}

func TestCounters(t *testing.T) {
	expect(t, collect(processor.Stats{
		Topics:       []processor.TopicStats{{Topic: "delays", Accepted: 12, Delivered: 9, Late: 1, LateOnArrival: 2, Trouble: "compacted"}},
		Targets:      []processor.TargetStats{{Target: "a", Delivered: 4}, {Target: "b", Delivered: 5, Trouble: "no leader"}, {Target: "c"}},
		DeadLetters:  []processor.DeadLetterStats{{Topic: "delays", Code: "no_due", Records: 2}, {Topic: "others", Code: "no_due", Records: 1}},
		Refused:      map[string]int64{"no_due": 2},
		Transactions: map[string]int64{"committed": 30, "aborted": 1}, Checkpoints: map[string]int64{"written": 21, "refused": 8},
		Retried: 3, Rebalances: 2, ClockSkew: -1500 * time.Millisecond, ClockTrouble: "ahead",
		ClockUnknown: "not allowed", BrokerClocks: []processor.BrokerClock{{Broker: 1}, {Broker: 2, Skew: 3 * time.Second}}, StoreTrouble: "the disk is full", ReadAgain: 4,
	}), `
# HELP duewheel_records_accepted_total Records read from a delay topic and taken over.
# TYPE duewheel_records_accepted_total counter
duewheel_records_accepted_total{topic="delays"} 12
# HELP duewheel_records_delivered_total Records of a delay topic delivered to their targets.
# TYPE duewheel_records_delivered_total counter
duewheel_records_delivered_total{topic="delays"} 9
# HELP duewheel_records_late_on_arrival_total Records accepted that were due before they were written; their lateness counts from then.
# TYPE duewheel_records_late_on_arrival_total counter
duewheel_records_late_on_arrival_total{topic="delays"} 2
# HELP duewheel_topic_loses_records 1 while a delay topic is compacted, or its retention is shorter than what is pending in it needs.
# TYPE duewheel_topic_loses_records gauge
duewheel_topic_loses_records{topic="delays"} 1
# HELP duewheel_target_records_delivered_total Records delivered to a target topic.
# TYPE duewheel_target_records_delivered_total counter
duewheel_target_records_delivered_total{target="a"} 4
duewheel_target_records_delivered_total{target="b"} 5
# HELP duewheel_target_in_trouble 1 while a target does not take its records, which are retried.
# TYPE duewheel_target_in_trouble gauge
duewheel_target_in_trouble{target="a"} 0
duewheel_target_in_trouble{target="b"} 1
# HELP duewheel_records_dead_lettered_total Records of a delay topic written to its dead letter topic.
# TYPE duewheel_records_dead_lettered_total counter
duewheel_records_dead_lettered_total{code="no_due",topic="delays"} 2
duewheel_records_dead_lettered_total{code="no_due",topic="others"} 1
# HELP duewheel_transactions_total Transactions by outcome.
# TYPE duewheel_transactions_total counter
duewheel_transactions_total{outcome="aborted"} 1
duewheel_transactions_total{outcome="committed"} 30
# HELP duewheel_checkpoints_total Checkpoints committed outside of transactions, by what came of it: written, refused or unknown.
# TYPE duewheel_checkpoints_total counter
duewheel_checkpoints_total{outcome="refused"} 8
duewheel_checkpoints_total{outcome="written"} 21
# HELP duewheel_clock_skew_seconds The brokers' clock minus ours.
# TYPE duewheel_clock_skew_seconds gauge
duewheel_clock_skew_seconds -1.5
# HELP duewheel_clock_wrong 1 while our clock is further off the brokers' than max_clock_skew, and theirs counts.
# TYPE duewheel_clock_wrong gauge
duewheel_clock_wrong 1
# HELP duewheel_clock_unchecked 1 while brokers do not say what time it is.
# TYPE duewheel_clock_unchecked gauge
duewheel_clock_unchecked 1
# HELP duewheel_broker_clock_skew_seconds A broker's clock minus the broker's that counts.
# TYPE duewheel_broker_clock_skew_seconds gauge
duewheel_broker_clock_skew_seconds{broker="1"} 0
duewheel_broker_clock_skew_seconds{broker="2"} 3
# HELP duewheel_store_failed 1 while the local store cannot be used, and records are delivered from memory and the log alone.
# TYPE duewheel_store_failed gauge
duewheel_store_failed 1
# HELP duewheel_partitions_read_again_total Times that a partition was read again because there is no local store.
# TYPE duewheel_partitions_read_again_total counter
duewheel_partitions_read_again_total 4
`)
}

// Describe and Collect must name the same metrics, and the names must follow Prometheus' rules.
func TestMetricsAreConsistent(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(collect(processor.Stats{
		Now:          now,
		Partitions:   []processor.PartitionStats{{Topic: "delays", Known: true, NextDue: 1, CheckpointAt: now, Agenda: []processor.AgendaEntry{{Within: 90 * time.Second}}}},
		Standbys:     []processor.StandbyStats{{Topic: "delays", Partition: 1, Offset: 5, Position: 3, Pending: 2}},
		Topics:       []processor.TopicStats{{Topic: "delays"}},
		Targets:      []processor.TargetStats{{Target: "orders", Delivered: 1}},
		BrokerClocks: []processor.BrokerClock{{Broker: 1}},
		DeadLetters:  []processor.DeadLetterStats{{Topic: "delays", Code: "no_due", Records: 1}}, Refused: map[string]int64{"no_due": 1}, Transactions: map[string]int64{"committed": 1},
	}))
	NewClientMetrics(r)
	if _, err := r.Gather(); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Several clients share one hook, and a client may come and go.
func TestClientMetricsAreShared(t *testing.T) {
	r := prometheus.NewRegistry()
	m := NewClientMetrics(r)
	for range 3 {
		cl, err := kgo.NewClient(kgo.WithHooks(m), kgo.SeedBrokers("127.0.0.1:1"))
		if err != nil {
			t.Fatal(err)
		}
		cl.Close()
	}
	meta := kgo.BrokerMetadata{NodeID: 2}
	refused := errors.New("refused")
	m.OnBrokerConnect(meta, 0, nil, nil)
	for range 2 {
		m.OnBrokerConnect(meta, 0, nil, refused)
	}
	for range 3 {
		m.OnBrokerDisconnect(meta, nil)
	}
	m.OnBrokerE2E(meta, 0, kgo.BrokerE2E{BytesWritten: 10, BytesRead: 20})
	for range 4 {
		m.OnBrokerE2E(meta, 0, kgo.BrokerE2E{BytesWritten: 1, WriteErr: refused})
	}
	for range 5 {
		m.OnBrokerE2E(meta, 0, kgo.BrokerE2E{BytesWritten: 100, BytesRead: 1, ReadErr: refused})
	}
	m.OnBrokerThrottle(meta, 7*time.Second, true)
	m.OnProduceBatchWritten(meta, "orders", 0, kgo.ProduceBatchMetrics{NumRecords: 6, UncompressedBytes: 600, CompressedBytes: 60})
	m.OnFetchBatchRead(meta, "delays", 0, kgo.FetchBatchMetrics{NumRecords: 8, UncompressedBytes: 800, CompressedBytes: 80})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"connects_total": 1, "connect_errors_total": 2, "disconnects_total": 3, "write_bytes_total": 514, "write_errors_total": 4,
		"read_bytes_total": 25, "read_errors_total": 5, "request_duration_e2e_seconds": 1, "request_throttled_seconds": 1,
		"produce_records_total": 6, "produce_bytes_total": 600, "fetch_records_total": 8, "fetch_bytes_total": 800,
	}
	for _, family := range families {
		name := strings.TrimPrefix(family.GetName(), "duewheel_kafka_")
		got := family.Metric[0].GetCounter().GetValue() + float64(family.Metric[0].GetHistogram().GetSampleCount())
		if got != want[name] {
			t.Errorf("%s is %v, want %v", name, got, want[name])
		}
		if sum := family.Metric[0].GetHistogram().GetSampleSum(); name == "request_throttled_seconds" && sum != 7 {
			t.Errorf("throttled for %v s", sum)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("no %s", name)
	}
}
