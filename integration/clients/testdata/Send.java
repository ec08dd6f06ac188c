import static java.nio.charset.StandardCharsets.UTF_8;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.*;
import java.util.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.json.JsonConverterConfig;
import org.apache.kafka.connect.storage.*;

/** Asks for delays as the Java client, Connect's converters and Spring's header mapper do. */
public class Send {
    static final long MILLIS = 1767225605123L;
    static final Instant T = Instant.ofEpochMilli(MILLIS);
    static final Instant M = Instant.parse("2026-01-01T00:00:00Z");
    static KafkaProducer<String, String> producer;
    static String topic;
    static final List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();

    static void send(String key, String name, byte[] value) {
        var r = new ProducerRecord<>(topic, key, "x");
        r.headers().add(name, value);
        sent.add(producer.send(r));
    }

    static void send(String key, String name, Object value) {
        send(key, name, value.toString().getBytes(UTF_8));
    }

    public static void main(String[] args) throws Exception {
        topic = args[1];
        producer = new KafkaProducer<>(Map.of("bootstrap.servers", args[0], "acks", "all"), new StringSerializer(), new StringSerializer());
        plain();
        connect();
        spring();
        jackson();
        for (var f : sent) {
            f.get();
        }
        producer.close();
    }

    static void plain() {
        send("T/Instant", "delay-until", T);
        send("T/OffsetDateTime", "delay-until", T.atOffset(ZoneOffset.ofHours(1)));
        send("T/ZonedDateTime", "delay-until", T.atZone(ZoneId.of("Europe/Paris")));
        send("T/LongSerializer", "delay-until", new LongSerializer().serialize("", MILLIS));
        send("T/putLong", "delay-until", ByteBuffer.allocate(8).putLong(MILLIS).array());
        send("T/BigInteger", "delay-until", BigInteger.valueOf(MILLIS).toByteArray());
        send("T/double", "delay-until", MILLIS / 1000.0);
        send("M/OffsetDateTime without seconds", "delay-until", M.atOffset(ZoneOffset.UTC));
        send("M/ZonedDateTime without seconds", "delay-until", M.atZone(ZoneId.of("Europe/Paris")));
        send("M/LocalDate", "delay-until", LocalDate.of(2026, 1, 1));
        send("refused/LocalDateTime", "delay-until", LocalDateTime.of(2026, 1, 1, 0, 0));
        send("refused/Date", "delay-until", new Date(MILLIS));
        send("refused/ByteBuffer", "delay-until", ByteBuffer.allocate(8));
        send("5m/Duration", "delay-for", Duration.ofMinutes(5));
        send("5m/IntegerSerializer", "delay-for", new IntegerSerializer().serialize("", 300_000));
        send("5m/double", "delay-for", 300_000.0);
        send("absent/null", "delay-for", (byte[]) null);
    }

    static void connect() {
        var simple = new SimpleHeaderConverter();
        simple.configure(Map.of());
        for (boolean schemas : new boolean[] {false, true}) {
            var json = new JsonConverter();
            json.configure(Map.of(JsonConverterConfig.SCHEMAS_ENABLE_CONFIG, schemas, ConverterConfig.TYPE_CONFIG, "header"));
            convert(schemas ? "JsonConverter with schemas" : "JsonConverter", json, schemas);
        }
        convert("SimpleHeaderConverter", simple, false);
    }

    /** Of a Timestamp the SimpleHeaderConverter writes text in the zone of its worker, which is UTC here. */
    static void convert(String name, HeaderConverter c, boolean schemas) {
        var optional = SchemaBuilder.int64().optional().build();
        send("T/INT64 by " + name, "delay-until", c.fromConnectHeader("", "delay-until", Schema.INT64_SCHEMA, MILLIS));
        send("T/FLOAT64 by " + name, "delay-until", c.fromConnectHeader("", "delay-until", Schema.FLOAT64_SCHEMA, MILLIS / 1000.0));
        send("T/Timestamp by " + name, "delay-until", c.fromConnectHeader("", "delay-until", Timestamp.SCHEMA, Date.from(T)));
        send("M/Timestamp at midnight by " + name, "delay-until", c.fromConnectHeader("", "delay-until", Timestamp.SCHEMA, Date.from(M)));
        send("T/string by " + name, "delay-until", c.fromConnectHeader("", "delay-until", Schema.STRING_SCHEMA, T.toString()));
        send("5m/string by " + name, "delay-for", c.fromConnectHeader("", "delay-for", Schema.STRING_SCHEMA, "00:05:00"));
        send("5m/ISO by " + name, "delay-for", c.fromConnectHeader("", "delay-for", Schema.STRING_SCHEMA, "PT5M"));
        send("refused/BYTES by " + name, "delay-until", c.fromConnectHeader("", "delay-until", Schema.BYTES_SCHEMA, ByteBuffer.allocate(8).putLong(MILLIS).array()));
        send("absent/null by " + name, "delay-for", c.fromConnectHeader("", "delay-for", optional, null));
        if (schemas) {
            send("T/Decimal by " + name, "delay-until", c.fromConnectHeader("", "delay-until", Decimal.schema(3), new java.math.BigDecimal("1767225605.123")));
            send("M/Date by " + name, "delay-until", c.fromConnectHeader("", "delay-until", org.apache.kafka.connect.data.Date.SCHEMA, Date.from(M)));
            send("5m/Time by " + name, "delay-for", c.fromConnectHeader("", "delay-for", Time.SCHEMA, new Date(300_000)));
        }
    }

    /** What Spring for Apache Kafka makes of message headers. */
    static void spring() {
        var mapper = new org.springframework.kafka.support.DefaultKafkaHeaderMapper();
        var encoding = new org.springframework.kafka.support.DefaultKafkaHeaderMapper();
        encoding.setEncodeStrings(true);
        for (var m : List.of(mapper, encoding)) {
            String how = m == mapper ? " by Spring" : " by Spring, encoded";
            map(m, "T/String" + how, "delay-until", T.toString());
            map(m, "T/Long" + how, "delay-until", MILLIS);
            map(m, "T/Instant" + how, "delay-until", T);
            map(m, "T/Date" + how, "delay-until", new Date(MILLIS));
            map(m, "T/bytes" + how, "delay-until", BigInteger.valueOf(MILLIS).toByteArray());
            map(m, "5m/String" + how, "delay-for", "PT5M");
            map(m, "5m/Integer" + how, "x-delay", 300_000);
        }
    }

    /** What Jackson makes of times, by which of its features are on. That of Jackson 3 is what this one writes with none of them. */
    static void jackson() throws Exception {
        for (int on = 0; on < 8; on++) {
            boolean dates = (on & 1) > 0, durations = (on & 2) > 0, nanos = (on & 4) > 0;
            var json = com.fasterxml.jackson.databind.json.JsonMapper.builder().addModule(new com.fasterxml.jackson.datatype.jsr310.JavaTimeModule())
                .configure(com.fasterxml.jackson.databind.SerializationFeature.WRITE_DATES_AS_TIMESTAMPS, dates)
                .configure(com.fasterxml.jackson.databind.SerializationFeature.WRITE_DURATIONS_AS_TIMESTAMPS, durations)
                .configure(com.fasterxml.jackson.databind.SerializationFeature.WRITE_DATE_TIMESTAMPS_AS_NANOSECONDS, nanos)
                .build();
            String how = " by Jackson, dates " + dates + ", durations " + durations + ", nanoseconds " + nanos;
            send("T/Instant" + how, "delay-until", json.writeValueAsBytes(T));
            send("M/Instant" + how, "delay-until", json.writeValueAsBytes(M));
            send((durations && nanos ? "refused" : "5m") + "/Duration" + how, "delay-for", json.writeValueAsBytes(Duration.ofMinutes(5)));
            if (nanos || !durations) { // else milliseconds, rounded down
                send((durations ? "refused" : "5m") + "/Duration with nanoseconds" + how, "delay-for", json.writeValueAsBytes(Duration.ofMinutes(5).minusNanos(1)));
            }
        }
    }

    static void map(org.springframework.kafka.support.KafkaHeaderMapper m, String key, String name, Object value) {
        var headers = new org.apache.kafka.common.header.internals.RecordHeaders();
        m.fromHeaders(new org.springframework.messaging.MessageHeaders(Map.of(name, value)), headers);
        sent.add(producer.send(new ProducerRecord<>(topic, null, key, "x", headers)));
    }
}
