// Package brokers gives tests and benchmarks a running Kafka that can be frozen, killed and restarted.
//
// A test asks for a cluster and gets one that ends with the test:
//
//	c := brokers.Start(t, brokers.Options{})
//	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...))
//	...
//	err = c.Node(1).Kill(ctx)  // kill -9
//	err = c.Node(1).Start(ctx) // the same ports, the same data
//
// Programs use New and Close. `go run ./integration/brokers/run` starts one for a person.
package brokers
