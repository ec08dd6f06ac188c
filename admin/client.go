package admin

import (
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ClientMetrics counts what the Kafka clients of a process do, all of them together. A processor
// has several clients and replaces its producers while it runs, so a set of metrics for each
// client, as kprom makes them, would collide with the one before. The names are kprom's.
//
// It is a hook: kgo.WithHooks(m).
type ClientMetrics struct {
	connects, connectErrors, disconnects *prometheus.CounterVec
	writeBytes, writeErrors              *prometheus.CounterVec
	readBytes, readErrors                *prometheus.CounterVec
	e2e, throttled                       *prometheus.HistogramVec
	producedRecords, producedBytes       *prometheus.CounterVec
	fetchedRecords, fetchedBytes         *prometheus.CounterVec
}

var _ interface {
	kgo.HookBrokerConnect
	kgo.HookBrokerDisconnect
	kgo.HookBrokerE2E
	kgo.HookBrokerThrottle
	kgo.HookProduceBatchWritten
	kgo.HookFetchBatchRead
} = (*ClientMetrics)(nil)

// NewClientMetrics registers the metrics with r and returns the hook that counts.
func NewClientMetrics(r prometheus.Registerer) *ClientMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: namespace + "kafka_" + name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: namespace + "kafka_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"node_id"})
		r.MustRegister(h)
		return h
	}
	return &ClientMetrics{
		connects:        counter("connects_total", "Connections opened.", "node_id"),
		connectErrors:   counter("connect_errors_total", "Connections that could not be opened.", "node_id"),
		disconnects:     counter("disconnects_total", "Connections closed.", "node_id"),
		writeBytes:      counter("write_bytes_total", "Bytes written.", "node_id"),
		writeErrors:     counter("write_errors_total", "Requests that could not be written.", "node_id"),
		readBytes:       counter("read_bytes_total", "Bytes read.", "node_id"),
		readErrors:      counter("read_errors_total", "Responses that could not be read.", "node_id"),
		e2e:             histogram("request_duration_e2e_seconds", "From the start of writing a request until its response was read."),
		throttled:       histogram("request_throttled_seconds", "Time that a request was throttled."),
		producedRecords: counter("produce_records_total", "Records produced.", "node_id", "topic"),
		producedBytes:   counter("produce_bytes_total", "Bytes of records produced, before compression.", "node_id", "topic"),
		fetchedRecords:  counter("fetch_records_total", "Records fetched.", "node_id", "topic"),
		fetchedBytes:    counter("fetch_bytes_total", "Bytes of records fetched, after decompression.", "node_id", "topic"),
	}
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (m *ClientMetrics) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		m.connectErrors.WithLabelValues(node(meta)).Inc()
		return
	}
	m.connects.WithLabelValues(node(meta)).Inc()
}

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect.
func (m *ClientMetrics) OnBrokerDisconnect(meta kgo.BrokerMetadata, _ net.Conn) {
	m.disconnects.WithLabelValues(node(meta)).Inc()
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (m *ClientMetrics) OnBrokerE2E(meta kgo.BrokerMetadata, _ int16, e2e kgo.BrokerE2E) {
	n := node(meta)
	m.writeBytes.WithLabelValues(n).Add(float64(e2e.BytesWritten))
	m.readBytes.WithLabelValues(n).Add(float64(e2e.BytesRead))
	switch {
	case e2e.WriteErr != nil:
		m.writeErrors.WithLabelValues(n).Inc()
	case e2e.ReadErr != nil:
		m.readErrors.WithLabelValues(n).Inc()
	default:
		m.e2e.WithLabelValues(n).Observe(e2e.DurationE2E().Seconds())
	}
}

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (m *ClientMetrics) OnBrokerThrottle(meta kgo.BrokerMetadata, interval time.Duration, _ bool) {
	m.throttled.WithLabelValues(node(meta)).Observe(interval.Seconds())
}

// OnProduceBatchWritten implements kgo.HookProduceBatchWritten.
func (m *ClientMetrics) OnProduceBatchWritten(meta kgo.BrokerMetadata, topic string, _ int32, b kgo.ProduceBatchMetrics) {
	m.producedRecords.WithLabelValues(node(meta), topic).Add(float64(b.NumRecords))
	m.producedBytes.WithLabelValues(node(meta), topic).Add(float64(b.UncompressedBytes))
}

// OnFetchBatchRead implements kgo.HookFetchBatchRead.
func (m *ClientMetrics) OnFetchBatchRead(meta kgo.BrokerMetadata, topic string, _ int32, b kgo.FetchBatchMetrics) {
	m.fetchedRecords.WithLabelValues(node(meta), topic).Add(float64(b.NumRecords))
	m.fetchedBytes.WithLabelValues(node(meta), topic).Add(float64(b.UncompressedBytes))
}

// node is a broker's label. Seed brokers have made-up numbers until the cluster has told theirs.
func node(meta kgo.BrokerMetadata) string { return kgo.NodeName(meta.NodeID) }
