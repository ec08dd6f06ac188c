// Package clients holds the test that has producers in other languages, as people install them, ask for delays in the words of their own
// standard libraries: kcat, confluent-kafka and kafka-python, kafkajs, the Java client, Connect's converters and Spring's header mapper.
//
// Each program in testdata is given brokers and a topic, and writes one record for each way to say a time. The key of a record is what must be
// made of it, a slash, and how it was said:
//
//	T/…       due at 2026-01-01T00:00:05.123Z
//	S/…       due at 2026-01-01T00:00:05Z
//	M/…       due at 2026-01-01T00:00:00Z
//	5m/…      due 300,000 ms after the record's timestamp
//	absent/…  nothing says when
//	refused/… it cannot be read, and may not be guessed at
package clients
