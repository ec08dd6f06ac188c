package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/duewheel/duewheel/admin"
	"github.com/duewheel/duewheel/topics"
)

const (
	demoGroup    = "demo"
	demoRequests = "delay-requests"
	demoRetry    = "orders.retry"
	// demoKeep is how long the embedded broker keeps what was delivered: it keeps it in memory.
	demoKeep = 5 * time.Minute
	// demoPartitions is how many the delay topic has: more than one for each of two replicas.
	demoPartitions       = 4
	demoRetryPartitions  = 2
	demoTargetPartitions = 2
)

var demoTargets = []string{"orders", "billing.invoices", "billing.reminders"}

// demoRoutes are the routes of the demo's replicas.
func demoRoutes() []topics.Route {
	return []topics.Route{
		routeSettings{Route: topics.Route{Topic: demoRequests, Allow: []string{"orders", "billing.*"}}}.route(),
		routeSettings{Route: topics.Route{Topic: demoRetry, Allow: []string{"orders"}}, Retry: retrySettings{Backoff: backoffSettings{Backoff: topics.Backoff{Initial: time.Second}}}}.route(),
	}
}

// demoTopics are the topics in which something arrives.
func demoTopics() []string {
	return append([]string{demoRequests + ".dead", demoRetry + ".dead"}, demoTargets...)
}

// startDemoBroker starts a broker with the topics of the demo.
func startDemoBroker() (*kfake.Cluster, error) {
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.GroupMinSessionTimeout(demoSession),
		kfake.ListenFn(func(_, _ string) (net.Listener, error) { return admin.ListenNear("127.0.0.1", 9092) }),
	)
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	create := func(topic string, partitions int32, configs ...string) {
		of := map[string]string{"cleanup.policy": "delete"}
		for i := 0; i < len(configs); i += 2 {
			of[configs[i]] = configs[i+1]
		}
		err = errors.Join(err, cluster.CreateTopic(topic, partitions, of))
	}
	larger := fmt.Sprint(1048588 + 64<<10) // than a record of a delay topic: headers are added
	create(demoRequests, demoPartitions, "retention.ms", "-1")
	create(demoRetry, demoRetryPartitions, "retention.ms", "-1")
	create(demoRequests+".dead", 1, "max.message.bytes", larger)
	create(demoRetry+".dead", 1, "max.message.bytes", larger)
	for _, t := range demoTargets {
		create(t, demoTargetPartitions, "retention.ms", fmt.Sprint(demoKeep.Milliseconds()))
	}
	if err != nil {
		cluster.Close()
		return nil, fmt.Errorf("create topics: %w", err)
	}
	return cluster, nil
}

// keepSmall lets the embedded broker forget what was delivered a while ago.
func keepSmall(ctx context.Context, cluster *kfake.Cluster) {
	tick := time.NewTicker(demoKeep / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			cluster.ApplyRetention()
		}
	}
}
