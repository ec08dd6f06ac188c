// Package integration has the tests of the whole: duewheel on a real Kafka, from the delay topic to the target topics, while
// processes and brokers are killed. It proves what a fake cannot: real transactions and their timeouts, real rebalances, real
// coordinators that move, other people's clients.
//
// The tests take their brokers from package brokers, their requests from package load and their verdict from package check,
// which knows topics alone. `go test -short` leaves them out; without a Kafka to run they fail and say what to install.
//
// The test binary is also the process that is killed: told so in its environment, it is a replica of a group (package child).
//
// TestChaos lets everything go wrong at random, three minutes of it by default and `make chaos` for half an hour. Package proxy stands
// between its replicas and the brokers; the events of the replicas tell which partitions they have live, so that each recovery can be timed.
//
// Tests that wait for most of the time go side by side, each with topics and a group of its own: those among them do not that set what the
// brokers have for all, or measure a process, or would take for a fault what a broker costs that stalls for seconds.
//
// Each test prints what it has seen (go test -v). What is chosen at random follows from a seed that is printed too;
// DUEWHEEL_TEST_SEED sets it.
package integration
