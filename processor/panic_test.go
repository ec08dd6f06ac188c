package processor

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// panics tells a child process of the test to be a processor in whose lane something is wrong, and where its state directory is.
const panics = "DUEWHEEL_TEST_PANICS"

// A panic of a lane ends the process, so that others take over its partitions: it would keep them for ever while it waits for what goes on.
func TestPanicEndsTheProcess(t *testing.T) {
	if os.Getenv(panics) != "" {
		panicInLane(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), panics+"="+t.TempDir()) // a process that panics removes nothing
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil || err == nil || !strings.Contains(string(out), "panic: wrong") {
		t.Errorf("%v, %v:\n%s", ctx.Err(), err, out)
	}
}

func panicInLane(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "delay-requests", "delay-requests.dead", "orders"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{
		Client: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, Group: "g", Lanes: 1, StateDir: os.Getenv(panics),
		Routes: []topics.Route{{Topic: "delay-requests", Allow: []string{"orders"}, DeadLetter: "delay-requests.dead"}},
		Logger: slog.New(slog.DiscardHandler),
		Events: func(e Event) {
			if e.Kind == EventRestored {
				panic("wrong")
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Fatal(p.Run(t.Context()))
}
