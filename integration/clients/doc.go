// Package clients holds the tests with producers in other languages, as people install them: kcat, confluent-kafka and kafka-python, kafkajs and
// the Java client, with Connect's converters and Spring's header mapper.
//
// In one they ask for delays in the words of their own standard libraries. Each program in testdata that it runs is given brokers and a topic, and
// writes one record for each way to say a time. The key of a record is what must be made of it, a slash, and how it was said:
//
//	T/…       due at 2026-01-01T00:00:05.123Z
//	S/…       due at 2026-01-01T00:00:05Z
//	M/…       due at 2026-01-01T00:00:00Z
//	5m/…      due 300,000 ms after the record's timestamp
//	absent/…  nothing says when
//	refused/… it cannot be read, and may not be guessed at
//
// In the other, on a real Kafka, each cancels and replaces what another one has asked for, with the partitioner that it has by default. The programs
// called ask are given brokers, and read from their standard input a line of JSON for each record: topic, key, value, headers, and the partition, if
// it is not the client's choice. They answer with a line that says where it lies. The line null has them connect anew.
//
// In the others, what docs/requests.md and docs/retries.md have to be run, and the README for kcat, is run as it stands there: their lines in a shell, and their code in the
// programs of testdata/docs, in the place of BLOCK and the number that it has among those of its language.
package clients
