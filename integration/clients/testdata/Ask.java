import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.*;
import java.util.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.StringSerializer;

/** Writes what it is told to, a line of JSON for each record, and says where that lies. See doc.go. */
public class Ask {
    public static void main(String[] args) throws Exception {
        var json = new ObjectMapper();
        var lines = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        KafkaProducer<String, String> producer = null;
        for (String line; (line = lines.readLine()) != null; ) {
            JsonNode r = json.readTree(line);
            if (r.isNull()) {
                producer.close();
                producer = null;
                System.out.println("null");
                continue;
            }
            if (producer == null) {
                producer = new KafkaProducer<>(Map.of("bootstrap.servers", args[0], "acks", "all"), new StringSerializer(), new StringSerializer());
            }
            var partition = r.get("partition").isNull() ? null : r.get("partition").asInt();
            var record = new ProducerRecord<>(r.get("topic").asText(), partition, text(r, "key"), text(r, "value"));
            for (var h : r.get("headers").properties()) {
                record.headers().add(h.getKey(), h.getValue().asText().getBytes(UTF_8));
            }
            var at = producer.send(record).get();
            System.out.println("{\"partition\": " + at.partition() + ", \"offset\": " + at.offset() + "}");
        }
        if (producer != null) {
            producer.close();
        }
    }

    static String text(JsonNode r, String name) {
        return r.get(name).isNull() ? null : r.get(name).asText();
    }
}
