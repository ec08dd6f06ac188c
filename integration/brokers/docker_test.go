package brokers_test

import (
	"os"
	"testing"

	"github.com/duewheel/duewheel/integration/brokers"
)

// The same life as on a JVM, in a container: start, deliver, pause, resume, restart, kill, start. It runs where Docker is
// forced; there a missing engine is a failure.
func TestDockerSmoke(t *testing.T) {
	if os.Getenv("DUEWHEEL_TEST_KAFKA") != string(brokers.Docker) {
		t.Skip("set DUEWHEEL_TEST_KAFKA=docker to test containers")
	}
	c := brokers.Start(t, brokers.Options{Listeners: []brokers.Listener{brokers.SASL}, Faults: true})
	n := c.Node(1)
	client := connect(t, c.Opts(brokers.Plain)...)
	createTopic(t, client, "t", 1)
	produce(t, client, "t", "first")
	must(t, n.Pause, n.Resume)
	produce(t, client, "t", "resumed")
	must(t, n.Restart)
	produce(t, client, "t", "restarted")
	must(t, n.Kill, n.Start)
	produce(t, client, "t", "killed")
	must(t, n.Pause, n.Kill, n.Start) // also a frozen container is killed
	expect(t, "t", []string{"first", "resumed", "restarted", "killed"}, c.Opts(brokers.SASL)...)
}
