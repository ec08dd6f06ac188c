// Package brokers gives tests and benchmarks a running Kafka that can be frozen, killed and restarted.
//
// A test asks for a cluster and gets one that ends with the test:
//
//	c := brokers.Start(t, brokers.Options{Faults: true})
//	client, err := kgo.NewClient(c.Opts(brokers.Plain)...)
//	...
//	err = c.Node(1).Kill(ctx)  // kill -9
//	err = c.Node(1).Start(ctx) // the same ports, the same data
//
// Programs use New and Close. `go run ./integration/brokers/run` starts one for a person.
//
// # Where brokers come from
//
// From the first provider that is there; DUEWHEEL_TEST_KAFKA forces one, and a forced one that is not there is a failure that
// says what to do.
//
//	external  whatever answers at DUEWHEEL_TEST_BROKERS; used as it is, tests that kill or configure brokers are skipped
//	docker    a container for each node, through testcontainers-go, from apache/kafka or an image that is built here
//	jvm       a child process for each node, with jars that Maven fetches once
//
// Nodes listen on 127.0.0.1 only. Less formally: all three are a list of addresses; the last two can also be hurt.
//
// # Who owns what
//
// A Cluster belongs to the test that has started it. Its nodes may be used from several goroutines; each change of a node waits for the one
// before. The broker processes are children of this process and die with it, whatever kills it; containers that it leaves
// behind are removed by the next process that uses Docker.
//
// # On disk
//
//	<user cache>/duewheel/brokers   jars, a formatted data folder and a class archive; each is named after what it was made
//	                                from, so the folder may be removed at any time and never needs to be
//	<temp>/duewheel-brokers         a folder for each running cluster with a lock file beside it, locks of the ports in
//	                                use, and logs of clusters whose test failed
//
// A folder whose lock is free is removed by the next cluster that starts.
//
// # When something fails
//
// A node that does not start is an error with the end of its log. When a test fails, Start shows the end of each log and names
// a file with the whole of it. The package runs on Unix; only Linux kills brokers whose test process was killed.
package brokers
