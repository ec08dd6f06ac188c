package admin

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/histogram"
)

// Collector turns a processor's Stats into metrics, one picture a scrape.
type Collector struct {
	stats func() processor.Stats
	now   func() time.Time
}

// NewCollector returns a collector of stats. now is the time of this machine.
func NewCollector(stats func() processor.Stats, now func() time.Time) *Collector {
	return &Collector{stats: stats, now: now}
}

const namespace = "duewheel_"

// NewBuildInfo returns a gauge that is always 1, and says what the program was built from, and by which Go.
func NewBuildInfo(version, revision, goversion string) prometheus.Collector {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: namespace + "build_info", Help: "1, with what this program was built from."},
		[]string{"version", "revision", "goversion"})
	info.WithLabelValues(version, revision, goversion).Set(1)
	return info
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+name, help, labels, nil)
}

// Counters and histograms of the whole process.
var (
	descAccepted     = desc("records_accepted_total", "Records read from a delay topic and taken over.", "topic")
	descDelivered    = desc("records_delivered_total", "Records of a delay topic delivered to their targets.", "topic")
	descLate         = desc("records_late_total", "Records accepted when a later due time of their partition had been resolved.", "topic")
	descOnArrival    = desc("records_late_on_arrival_total", "Records accepted that were due before they were written; their lateness counts from then.", "topic")
	descRequested    = desc("delay_requested_seconds", "The delays that records ask for: from when a record was written until it is due, or 0.", "topic")
	descLosing       = desc("topic_loses_records", "1 while a delay topic is compacted, or its retention is shorter than what is pending in it needs.", "topic")
	descTrimmed      = desc("topic_trimmed_offsets_total", "Offsets of a delay topic that were deleted because nothing needed them any more.", "topic")
	descUntrimmed    = desc("topic_untrimmed", "1 while a delay topic should be trimmed and is not; /readyz says why.", "topic")
	descCarried      = desc("records_carried_total", "Copies of pending records written to the end of a delay topic, so that its log can be cut.", "topic")
	descToTarget     = desc("target_records_delivered_total", "Records delivered to a target topic.", "target")
	descTrouble      = desc("target_in_trouble", "1 while a target does not take its records, which are retried.", "target")
	descLateness     = desc("lateness_seconds", "The delivering commit's answer minus the later of due and the record's timestamp, by target topic.", "target")
	descDeadLettered = desc("records_dead_lettered_total", "Records of a delay topic written to its dead letter topic.", "topic", "code")
	descParsed       = desc("header_parse_total", "Requests whose headers could not be taken.", "outcome")
	descCancels      = desc("cancels_total", "Records that name another one or have an id, by what they have done: cancelled, replaced, too_late, unknown, forwarded, not_here or ignored.", "outcome")
	descAudited      = desc("audit_records_total", "Records written to the audit topic, by what they tell.", "event")
	descRetried      = desc("records_retried_total", "Records that were appended to their delay topic again, to be retried, because their target was in trouble.")
	descTurns        = desc("transactions_total", "Transactions by outcome.", "outcome")
	descEndsWritten  = desc("transaction_ends_written_total", "Partitions that the end of a transaction was written to again, since they may have had no leader when it ended.")
	descEndsOwed     = desc("transaction_ends_owed", "Partitions that it is still to be written to, as soon as they have a leader: read_committed readers of them may wait.")
	descCheckpoints  = desc("checkpoints_total", "Checkpoints committed outside of transactions, by what came of it: written, refused or unknown.", "outcome")
	descTurnTime     = desc("transaction_duration_seconds", "Transactions from begin to decision.")
	descWork         = desc("lane_work_seconds", "For how long a lane was kept by one piece of work, in which it does nothing else, by kind: accept, spill, load, live, turn, tidy or move.", "work")
	descRebalances   = desc("rebalances_total", "Rebalances that this process took part in.")
	descClockSteps   = desc("clock_steps_total", "Steps of the wall clock that were noticed.")
	descClockSkew    = desc("clock_skew_seconds", "The brokers' clock minus ours.")
	descClockWrong   = desc("clock_wrong", "1 while our clock is further off the brokers' than max_clock_skew, and theirs counts.")
	descClockAlone   = desc("clock_unchecked", "1 while brokers do not say what time it is.")
	descBrokerClock  = desc("broker_clock_skew_seconds", "A broker's clock minus the broker's that counts.", "broker")
	descPeersHeard   = desc("peers_heard", "Other replicas that tell this one that they are there, a few at most; one that ends is then taken out of the group at once.")
	descPeersOut     = desc("peers_taken_out_total", "Replicas that were taken out of the group because they had ended without leaving it.")
	descLanes        = desc("lanes", "Group members in this process.")
	descOutside      = desc("lanes_outside_group", "Lanes that do not get into the group, or are not taken as members; /readyz says why.")
	descAssigned     = desc("assigned_partitions", "Partitions assigned to this process.")
	descNearBytes    = desc("near_bytes", "Memory held for records inside the near window.")
	descStoreBytes   = desc("store_bytes", "Size of the local store on disk.")
	descStoreFailed  = desc("store_failed", "1 while the local store cannot be used, and records are delivered from memory and the log alone.")
	descReadAgain    = desc("partitions_read_again_total", "Times that a partition was read again because there is no local store.")
)

// What this process keeps warm of other replicas' partitions.
var (
	descStandbys       = desc("standby_partitions", "Partitions of other replicas of which this process keeps a standby.")
	descStandbyLag     = partitionDesc("standby_lag_records", "Offsets between the owner's checkpoint and what the standby has taken in.")
	descStandbyPending = partitionDesc("standby_pending_records", "Records pending in the partition, by the standby.")
	descWarm           = desc("standby_takeovers_total", "Partitions taken over from a standby of this process.")
)

// Gauges of one partition.
var (
	descPending      = partitionDesc("pending_records", "Records accepted and not delivered yet.")
	descPendingBytes = partitionDesc("pending_bytes", "Bytes of the records that are pending.")
	descNear         = partitionDesc("near_records", "Of the pending records, those held in memory.")
	descRemembered   = partitionDesc("remembered_records", "Delivered records whose ids are remembered.")
	descOverdue      = partitionDesc("overdue_records", "Of the pending records, those due before now.")
	descNextDue      = partitionDesc("next_due_timestamp_seconds", "Due time of the next record; absent when nothing is pending.")
	descOldest       = partitionDesc("oldest_overdue_seconds", "For how long the next record has been due; 0 when it is not.")
	descWithin       = desc("due_within_records", "Pending records due within a time from now.", "topic", "partition", "window")
	descReady        = partitionDesc("partition_ready", "1 when the partition is live.")
	descStopped      = partitionDesc("partition_stopped", "1 when the partition waits for a person to decide.")
	descRestore      = partitionDesc("partition_restore_seconds", "From assignment to live, the last time; absent until then.")
	descCaughtUp     = partitionDesc("partition_caught_up_ratio", "Which share of the log has been read that a restore has to read; 1 when the partition is live.")
	descCatchUpLeft  = partitionDesc("partition_catch_up_left_seconds", "How long a restore still takes to read the log, about; 0 when it cannot be told.")
	descOffset       = partitionDesc("checkpoint_offset", "Offset of the checkpoint: all below it is accepted.")
	descLowWater     = partitionDesc("checkpoint_low_water", "Low water of the checkpoint: a replay begins there.")
	descWatermark    = partitionDesc("watermark_timestamp_seconds", "Due time up to which everything is resolved.")
	descAge          = partitionDesc("checkpoint_age_seconds", "Time since the checkpoint was committed.")
	descBehind       = partitionDesc("checkpoint_overdue_seconds", "For how long there has been a checkpoint to write; beyond a session something is wrong.")
	descCarryBehind  = partitionDesc("carry_behind", "1 while the log may lose what is pending before it is carried; /readyz says why.")
	descPosition     = partitionDesc("position", "Offset of the next record to be read.")
	descLogStart     = partitionDesc("log_start_offset", "First offset of the delay topic's log.")
	descLogEnd       = partitionDesc("log_end_offset", "End of the delay topic's log.")
	descUnstable     = partitionDesc("unstable_offsets", "Offsets from the last stable offset to the high watermark: what cannot be read while transactions are open.")
	descOpen         = partitionDesc("open_transaction_seconds", "For how long the last stable offset has stood still below the high watermark, at least, because a transaction is open; 0 when it has not.")
)

func partitionDesc(name, help string) *prometheus.Desc { return desc(name, help, "topic", "partition") }

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descAccepted, descDelivered, descLate, descOnArrival, descRequested, descLosing, descTrimmed, descUntrimmed, descCarried, descToTarget, descTrouble, descLateness, descDeadLettered, descParsed, descCancels, descAudited, descRetried,
		descTurns, descEndsWritten, descEndsOwed, descCheckpoints, descTurnTime, descWork, descRebalances, descClockSteps, descClockSkew, descClockWrong, descClockAlone, descBrokerClock, descPeersHeard, descPeersOut, descLanes, descOutside, descAssigned, descNearBytes, descStoreBytes, descStoreFailed, descReadAgain,
		descStandbys, descStandbyLag, descStandbyPending, descWarm,
		descPending, descPendingBytes, descNear, descRemembered, descOverdue, descNextDue, descOldest, descWithin, descReady, descStopped, descRestore, descCaughtUp, descCatchUpLeft,
		descOffset, descLowWater, descWatermark, descAge, descBehind, descCarryBehind, descPosition, descLogStart, descLogEnd, descUnstable, descOpen,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s, now := c.stats(), c.now()
	m := metrics(ch)
	for _, t := range s.Topics {
		m.counter(descAccepted, float64(t.Accepted), t.Topic)
		m.counter(descDelivered, float64(t.Delivered), t.Topic)
		m.counter(descLate, float64(t.Late), t.Topic)
		m.counter(descOnArrival, float64(t.LateOnArrival), t.Topic)
		m.histogram(descRequested, t.Requested, t.Topic)
		m.gauge(descLosing, bit(t.Trouble != ""), t.Topic)
		m.counter(descTrimmed, float64(t.Trimmed), t.Topic)
		m.gauge(descUntrimmed, bit(t.Untrimmed != ""), t.Topic)
		m.counter(descCarried, float64(t.Carried), t.Topic)
	}
	for _, t := range s.Targets {
		if t.Delivered == 0 && t.Trouble == "" {
			continue // known, and nothing to say of it: a dead letter topic, say
		}
		m.counter(descToTarget, float64(t.Delivered), t.Target)
		m.gauge(descTrouble, bit(t.Trouble != ""), t.Target)
		m.histogram(descLateness, t.Lateness, t.Target)
	}
	for _, d := range s.DeadLetters {
		m.counter(descDeadLettered, float64(d.Records), d.Topic, d.Code)
	}
	m.counters(descParsed, s.Refused)
	m.counters(descCancels, s.Cancels)
	m.counters(descAudited, s.Audited)
	m.counters(descTurns, s.Transactions)
	m.counter(descEndsWritten, float64(s.EndsWritten))
	m.gauge(descEndsOwed, float64(s.EndsOwed))
	m.counters(descCheckpoints, s.Checkpoints)
	m.counter(descRetried, float64(s.Retried))
	m.histogram(descTurnTime, s.TransactionTime)
	for kind, took := range s.Work {
		m.histogram(descWork, took, kind)
	}
	m.counter(descRebalances, float64(s.Rebalances))
	m.counter(descClockSteps, float64(s.ClockSteps))
	m.gauge(descClockSkew, s.ClockSkew.Seconds())
	m.gauge(descClockWrong, bit(s.ClockTrouble != ""))
	m.gauge(descClockAlone, bit(s.ClockUnknown != ""))
	for _, b := range s.BrokerClocks {
		m.gauge(descBrokerClock, b.Skew.Seconds(), strconv.Itoa(int(b.Broker)))
	}
	m.gauge(descPeersHeard, float64(s.PeersHeard))
	m.counter(descPeersOut, float64(s.PeersTakenOut))
	m.gauge(descLanes, float64(s.Lanes))
	m.gauge(descOutside, float64(len(s.Outside)))
	m.gauge(descAssigned, float64(len(s.Partitions)))
	m.gauge(descNearBytes, float64(s.NearBytes))
	m.gauge(descStoreBytes, float64(s.StoreBytes))
	m.gauge(descStoreFailed, bit(s.StoreTrouble != ""))
	m.counter(descReadAgain, float64(s.ReadAgain))
	m.gauge(descStandbys, float64(len(s.Standbys)))
	m.counter(descWarm, float64(s.Takeovers))
	for _, b := range s.Standbys {
		labels := []string{b.Topic, strconv.Itoa(int(b.Partition))}
		m.gauge(descStandbyLag, float64(max(b.Offset-b.Position, 0)), labels...)
		m.gauge(descStandbyPending, float64(b.Pending), labels...)
	}
	for i := range s.Partitions {
		m.partition(&s.Partitions[i], now, s.Now)
	}
}

// metrics is where the samples of one scrape go.
type metrics chan<- prometheus.Metric

// partition is told the time of this machine, and the one that records are delivered by.
func (m metrics) partition(p *processor.PartitionStats, now, counts time.Time) {
	labels := []string{p.Topic, strconv.Itoa(int(p.Partition))}
	m.gauge(descReady, bit(p.Phase == processor.PhaseLive), labels...)
	m.gauge(descStopped, bit(p.Phase == processor.PhaseStopped), labels...)
	m.gauge(descCaughtUp, p.CaughtUp, labels...)
	m.gauge(descCatchUpLeft, p.CatchUpLeft.Seconds(), labels...)
	if p.RestoreTime > 0 {
		m.gauge(descRestore, p.RestoreTime.Seconds(), labels...)
	}
	if p.Known || p.CarryBehind != "" {
		m.gauge(descCarryBehind, bit(p.CarryBehind != ""), labels...)
	}
	if p.Known { // else 0 pending, or a watermark of 1970, would say that all is well
		m.figures(p, now, counts, labels)
	}
}

// figures are of a partition that has been opened.
func (m metrics) figures(p *processor.PartitionStats, now, counts time.Time, labels []string) {
	m.gauge(descPending, float64(p.Pending), labels...)
	m.gauge(descPendingBytes, float64(p.PendingBytes), labels...)
	m.gauge(descNear, float64(p.Near), labels...)
	m.gauge(descRemembered, float64(p.Remembered), labels...)
	m.gauge(descOverdue, float64(p.Overdue), labels...)
	if p.NextDue > 0 {
		m.gauge(descNextDue, float64(p.NextDue)/1000, labels...)
		m.gauge(descOldest, max(0, counts.Sub(time.UnixMilli(p.NextDue)).Seconds()), labels...)
	} else {
		m.gauge(descOldest, 0, labels...)
	}
	for _, a := range p.Agenda {
		m.gauge(descWithin, float64(a.Records), labels[0], labels[1], window(a.Within))
	}
	m.gauge(descOffset, float64(p.Offset), labels...)
	m.gauge(descLowWater, float64(p.LowWater), labels...)
	m.gauge(descWatermark, float64(p.WatermarkDue)/1000, labels...)
	if !p.CheckpointAt.IsZero() {
		m.gauge(descAge, max(0, now.Sub(p.CheckpointAt).Seconds()), labels...)
	}
	m.gauge(descBehind, p.CheckpointOverdue.Seconds(), labels...)
	m.gauge(descPosition, float64(p.Position), labels...)
	m.gauge(descLogStart, float64(p.LogStart), labels...)
	m.gauge(descLogEnd, float64(logEnd(p)), labels...)
	m.gauge(descUnstable, float64(p.Unstable), labels...)
	m.gauge(descOpen, p.OpenFor.Seconds(), labels...)
}

// logEnd is where a log ends at least: it was asked for a while ago, and may have been read further.
func logEnd(p *processor.PartitionStats) int64 { return max(p.LogEnd, p.Position) }

func (m metrics) counter(d *prometheus.Desc, v float64, labels ...string) {
	m <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func (m metrics) counters(d *prometheus.Desc, byLabel map[string]int64) {
	for label, v := range byLabel {
		m.counter(d, float64(v), label)
	}
}

func (m metrics) gauge(d *prometheus.Desc, v float64, labels ...string) {
	m <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// histogram turns counts by bucket into the cumulative ones that Prometheus reads. The last count,
// of what is above every bound, is only in the total.
func (m metrics) histogram(d *prometheus.Desc, h histogram.Snapshot, labels ...string) {
	buckets := make(map[float64]uint64, len(h.Bounds))
	var sum uint64
	for i, n := range h.Counts {
		sum += uint64(n)
		if i < len(h.Bounds) {
			buckets[h.Bounds[i]] = sum
		}
	}
	m <- prometheus.MustNewConstHistogram(d, sum, h.Sum, buckets, labels...)
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// window names a time ahead as people do: 1m, 1h, 1d.
func window(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= u.size && d%u.size == 0 {
			return strconv.FormatInt(int64(d/u.size), 10) + u.name
		}
	}
	return d.String()
}
