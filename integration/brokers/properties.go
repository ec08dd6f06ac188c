package brokers

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// properties are the server properties of one node: settings for quick faults, then what o.Config overrides.
func (c *Cluster) properties(n *Node, dataDir string) map[string]string {
	replicas := strconv.Itoa(len(c.nodes))
	quorum := strconv.Itoa(len(c.nodes)/2 + 1)
	p := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        strconv.Itoa(n.id),
		"controller.quorum.voters":       c.voters(),
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     string(Plain),
		"log.dirs":                       dataDir,
		"num.partitions":                 "4",
		"default.replication.factor":     replicas,
		"auto.create.topics.enable":      "false",
		"log.cleaner.dedupe.buffer.size": "8388608", // the default of 128 MiB does not fit the heap of a test broker

		// Internal topics: 4 partitions instead of 50 make them quick to create and to load after a restart.
		"offsets.topic.num.partitions":             "4",
		"offsets.topic.replication.factor":         replicas,
		"transaction.state.log.num.partitions":     "4",
		"transaction.state.log.replication.factor": replicas,
		"transaction.state.log.min.isr":            quorum,

		"broker.session.timeout.ms":    "9000", // the default
		"broker.heartbeat.interval.ms": "400",

		// Group members may have sessions of 1 s, and a rebalance starts at once.
		"group.min.session.timeout.ms":             "1000",
		"group.initial.rebalance.delay.ms":         "0",
		"group.consumer.min.session.timeout.ms":    "1000",
		"group.consumer.session.timeout.ms":        "2000",
		"group.consumer.min.heartbeat.interval.ms": "100",
		"group.consumer.heartbeat.interval.ms":     "500",

		// A transaction past its timeout is aborted within half a second of it; the default looks every 10 s.
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
	}
	if c.options.Faults {
		// A killed broker is declared dead after 2 s and, restarted, is back after 4 to 8 s instead of 14 s. Any other broker has
		// longer: where other processes take all cores it may be silent for 2 s, and its partitions would have no leader.
		p["broker.session.timeout.ms"] = "2000"
	}
	if c.options.since(4, 0) {
		p["share.coordinator.state.topic.replication.factor"] = replicas
		p["share.coordinator.state.topic.min.isr"] = quorum
	}
	c.listenerProperties(n, p)
	maps.Copy(p, c.options.Config)
	return p
}

func (c *Cluster) voters() string {
	var v []string
	for _, n := range c.nodes {
		v = append(v, fmt.Sprintf("%d@127.0.0.1:%d", n.id, n.controllerPort))
	}
	return strings.Join(v, ",")
}
