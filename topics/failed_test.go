package topics

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// inHex is a header whose value is no text.
func inHex(name, hexadecimal string) kgo.RecordHeader {
	value, err := hex.DecodeString(strings.ReplaceAll(hexadecimal, " ", ""))
	if err != nil {
		panic(err)
	}
	return kgo.RecordHeader{Key: name, Value: value}
}

// What other systems write on a record that failed, in their bytes: where it goes back to, which attempt that is, and what is left of it when
// it is delivered again, on the first trip and on the next.
func TestHeadersOfFailedRecords(t *testing.T) {
	user := func() []kgo.RecordHeader {
		return append(headers("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "__TypeId__", "com.example.Order"),
			inHex("x-binary", "00 00 00 01"), kgo.RecordHeader{Key: "x-null"})
	}
	stack := "java.lang.IllegalStateException: café\n\tat com.example.Listener.on(Listener.java:17)\n"
	// A serialised java.lang.String "Order", as ObjectOutputStream writes it: what Spring's deserializers leave of an exception begins so.
	const serialised = "ac ed 00 05 74 00 05 4f 72 64 65 72"
	for _, tt := range []struct {
		name string
		adds []kgo.RecordHeader // to those of the record, which has failed in the topic orders
	}{
		{name: "Connect", adds: append(headers("__connect.errors.topic", "orders", "__connect.errors.partition", "3", "__connect.errors.offset", "8812",
			"__connect.errors.connector.name", "jdbc-sink", "__connect.errors.task.id", "0", "__connect.errors.stage", "VALUE_CONVERTER",
			"__connect.errors.class.name", "org.apache.kafka.connect.json.JsonConverter", "__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException",
			"__connect.errors.exception.stacktrace", stack), kgo.RecordHeader{Key: "__connect.errors.exception.message"})}, // an exception without a message
		{name: "Spring, DeadLetterPublishingRecoverer", adds: append(headers("kafka_dlt-exception-fqcn", "org.springframework.kafka.listener.ListenerExecutionFailedException",
			"kafka_dlt-exception-cause-fqcn", "java.lang.IllegalStateException", "kafka_dlt-exception-message", "café", "kafka_dlt-exception-stacktrace", stack,
			"kafka_dlt-original-topic", "orders", "kafka_dlt-original-timestamp-type", "CreateTime", "kafka_dlt-original-consumer-group", "billing"),
			inHex("kafka_dlt-original-partition", "00 00 00 03"), inHex("kafka_dlt-original-offset", "00 00 00 00 00 00 22 6c"),
			inHex("kafka_dlt-original-timestamp", "00 00 01 9b 76 da bc 03"))},
		{name: "Spring, a key that cannot be read", adds: append(headers("kafka_dlt-key-exception-fqcn", "org.springframework.kafka.support.serializer.DeserializationException",
			"kafka_dlt-key-exception-message", "failed to deserialize", "kafka_dlt-key-exception-stacktrace", stack, "kafka_dlt-original-topic", "orders"),
			inHex("springDeserializerExceptionKey", serialised), inHex("springDeserializerExceptionValue", serialised),
			inHex("kafka_dlt-original-partition", "ff ff ff ff"), inHex("kafka_dlt-original-offset", "7f ff ff ff ff ff ff ff"))},
		{name: "Spring, @RetryableTopic", adds: append(headers("kafka_exception-fqcn", "org.springframework.kafka.listener.ListenerExecutionFailedException",
			"kafka_exception-cause-fqcn", "java.lang.IllegalStateException", "kafka_exception-message", "no", "kafka_exception-stacktrace", stack,
			"kafka_key-exception-fqcn", "x", "kafka_key-exception-message", "x", "kafka_key-exception-stacktrace", "x",
			"kafka_original-topic", "orders", "kafka_original-timestamp-type", "CreateTime", "kafka_dlt-original-consumer-group", "billing"),
			inHex("kafka_original-partition", "00 00 00 03"), inHex("kafka_original-offset", "00 00 00 00 00 00 22 6c"),
			inHex("kafka_original-timestamp", "00 00 01 9b 76 da bc 03"),
			inHex("retry_topic-original-timestamp", "01 9b 76 da bc 03"), // BigInteger.toByteArray
			inHex("retry_topic-backoff-timestamp", "01 9b 76 da e3 13"), inHex("retry_topic-attempts", "00 00 00 04"))},
		{name: "Spring, @RetryableTopic, as long as its count was a byte", adds: append(headers("kafka_original-topic", "orders"), inHex("retry_topic-attempts", "04"))},
		{name: "Kafka Streams", adds: headers("__streams.errors.exception", "org.apache.kafka.streams.errors.StreamsException", "__streams.errors.message", "café",
			"__streams.errors.stacktrace", stack, "__streams.errors.topic", "orders", "__streams.errors.partition", "3", "__streams.errors.offset", "8812")},
		{name: "a share group", adds: headers("__dlq.errors.topic", "orders", "__dlq.errors.partition", "3", "__dlq.errors.offset", "8812",
			"__dlq.errors.group", "billing", "__dlq.errors.delivery.count", "5", "__dlq.errors.message", "REJECTED")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := route(t, Route{Allow: []string{"orders"}, Retry: &Retrying{Backoff: Backoff{Initial: time.Second, Factor: 2, Max: time.Hour}, MaxAttempts: 8, FromHeaders: true, Strip: ErrorHeaders}})
			record := user()
			for trip := range 3 {
				// Those who append to what is there, and those who replace it, come to the same: the last one counts.
				failed := append(record, tt.adds...)
				q, err := r.Parser().Parse(failed, Stamp{Millis: T, ByBroker: true}, 42, ours)
				if err != nil {
					t.Fatal(err)
				}
				equal(t, q, Request{Due: T + 1000<<trip, Target: []byte("orders"), TargetBy: q.TargetBy, Partition: -1, Round: trip})
				if !slices.Contains(SourceHeaders, q.TargetBy) || string(Last(tt.adds, q.TargetBy)) != "orders" {
					t.Errorf("the target is said to be in %q", q.TargetBy)
				}
				if refusal := r.Refuse(&q, T); refusal != nil {
					t.Error(refusal)
				}
				record, _ = AppendDelivered(nil, failed, &Delivered{Topic: "t", Round: q.Round + 1, Emit: EmitNone, Strip: r.Retry.Strip}, nil)
				want := append(user(), headers("delay-attempt", string(rune('1'+trip)))...)
				equal(t, show(record), show(want))
			}
		})
	}
}

// Where several have written on a record, the first in this order counts; of one that has written twice, the last.
func TestWhichSourceCounts(t *testing.T) {
	r := route(t, Route{Allow: []string{"*"}, Retry: &Retrying{Backoff: Backoff{Initial: time.Second, Factor: 2, Max: time.Hour}, MaxAttempts: 8, FromHeaders: true}})
	var all []kgo.RecordHeader
	for i := len(SourceHeaders) - 1; i >= 0; i-- {
		all = append(all, headers(SourceHeaders[i], "before", SourceHeaders[i], strings.Trim(SourceHeaders[i], "_"))...)
		q, err := r.Parser().Parse(all, Stamp{Millis: T, ByBroker: true}, 42, ours)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, string(q.Target), strings.Trim(SourceHeaders[i], "_"))
	}
}
