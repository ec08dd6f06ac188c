package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/admin"
	"github.com/duewheel/duewheel/bench/child"
	"github.com/duewheel/duewheel/processor"
)

// newDemoReplicaCommand is what the demo starts as a child: a replica that can be killed.
func newDemoReplicaCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "replica",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var listener net.Listener
			defer func() {
				if listener != nil {
					listener.Close()
				}
			}()
			return child.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), func(o *child.Order) (err error) {
				var broker string
				if err := json.Unmarshal(o.Reach, &broker); err != nil {
					return fmt.Errorf("read where the broker is: %w", err)
				}
				if listener, err = admin.Listen(""); err != nil {
					return err
				}
				registry := newRegistry()
				o.Client = []kgo.Opt{kgo.SeedBrokers(broker), kgo.ClientID("duewheel-demo-" + o.Instance), kgo.WithHooks(admin.NewClientMetrics(registry))}
				o.Admin = listener.Addr().String()
				o.Beside = func(ctx context.Context, p *processor.Processor) {
					registry.MustRegister(admin.NewCollector(p.Stats, time.Now))
					// A port that fails is missed by a person who looks at it, and by nothing else.
					_ = admin.Serve(ctx, listener, admin.NewHandler(admin.Options{Source: p, Gatherer: registry, Stopping: cmd.Context().Done()}))
				}
				return nil
			})
		},
	}
}

const (
	// demoSession is the session timeout of the demo: short, for a replica that is killed before the other one has heard it.
	demoSession = 2 * time.Second
	// demoHeartbeat is how soon a replica learns that the group changes.
	demoHeartbeat = 100 * time.Millisecond
	// demoCounts is how often a replica tells what it counts.
	demoCounts = 200 * time.Millisecond
)

// demoOrder is what a replica of the demo is to do.
func demoOrder(broker, name, dir string) child.Order {
	reach, err := json.Marshal(broker)
	if err != nil {
		panic("BUG: a string is JSON: " + err.Error())
	}
	return child.Order{Reach: reach, Level: demoLevel, CountEvery: demoCounts, Presence: "127.0.0.1:0", Config: processor.Config{
		Group: demoGroup, Instance: name, StateDir: dir, Routes: demoRoutes(), Standbys: 1, SessionTimeout: demoSession, HeartbeatInterval: demoHeartbeat,
	}}
}

// demoChild makes the command that is this program as a child of the demo.
func demoChild(what string) *exec.Cmd { return (&flags{}).itself("demo", what) }
