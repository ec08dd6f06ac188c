package brokers_test

import (
	"testing"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestOneNode(t *testing.T) {
	c := brokers.Start(t, brokers.Options{})
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := c.Node(1)
	ctx := t.Context()
	for _, f := range []func() error{
		func() error { return n.Restart(ctx) }, func() error { return n.Kill(ctx) }, func() error { return n.Start(ctx) },
	} {
		t.Log("step")
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
}
