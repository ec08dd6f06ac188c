package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// replicaConfig is what a replica is told: one line of JSON on its standard input. How to reach the cluster it knows.
type replicaConfig struct {
	Group, Instance, StateDir  string
	Topics                     []string
	Target, DeadLetter         string
	Lanes, Standbys            int
	SessionTimeout, NearWindow time.Duration
}

// memoryBudget is what a replica may use, which is the default.
const memoryBudget = 256 << 20

func (c *replicaConfig) processor(client []kgo.Opt, log *slog.Logger) (*processor.Processor, error) {
	cfg := processor.Config{
		Client: client, Group: c.Group, Instance: c.Instance, StateDir: c.StateDir, Lanes: c.Lanes, Standbys: c.Standbys,
		SessionTimeout: c.SessionTimeout, NearWindow: c.NearWindow, MemoryBudget: memoryBudget, Logger: log,
	}
	for _, topic := range c.Topics {
		cfg.Routes = append(cfg.Routes, route(topic, c.Target, c.DeadLetter, topics.EmitSource))
	}
	return processor.New(cfg)
}

func route(topic, target, dead string, emit topics.Emit) topics.Route {
	return topics.Route{Topic: topic, Target: target, DeadLetter: dead, Emit: emit, MaxDelay: 366 * 24 * time.Hour}
}

// ServeReplica is the whole of a child process of Failover: a processor, as `duewheel run` would run it. What it is told comes
// from in, and its log goes to out, which the parent reads. It ends in order with ctx, and at once with an error when in
// ends, since then the parent has.
func ServeReplica(ctx context.Context, client []kgo.Opt, in io.Reader, out io.Writer) error {
	reader := bufio.NewReader(in)
	line, err := reader.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what the replica is to do: %w", err)
	}
	var c replicaConfig
	if err := json.Unmarshal(line, &c); err != nil {
		return fmt.Errorf("read what the replica is to do: %w", err)
	}
	log := slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{ReplaceAttr: plainErrors}))
	p, err := c.processor(client, log)
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(memoryBudget + memoryBudget/2 + 64<<20) // as duewheel run does
	orphaned := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, reader)
		close(orphaned)
	}()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	for tick := time.NewTicker(countEvery); ; {
		select {
		case err := <-ended:
			return err
		case <-orphaned:
			return errors.New("the process that started this replica has ended")
		case <-tick.C:
			log.Info(msgCounts, "counts", countsOf(p))
		}
	}
}

// plainErrors keeps stack traces out of the log.
func plainErrors(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}

const countEvery = 100 * time.Millisecond

// Lines of a replica's log that say when something has happened. All but the last are the processor's own.
const (
	msgAssigned = "partitions assigned"
	msgRevoked  = "partitions revoked"
	msgFencing  = "fencing the writer of an open transaction"
	msgRestored = "partition restored; catching up"
	msgLive     = "partition is live"
	msgCounts   = "bench: counts"
)

// counts are a replica's own, told now and then.
type counts struct {
	Live     int64 // partitions
	Pending  int64 // records in partitions of its own
	Standbys int64 // partitions of others that it follows
	Warm     int64 // pending records that it holds of those
}

func countsOf(p *processor.Processor) counts {
	var c counts
	s := p.Stats()
	for _, ps := range s.Partitions {
		if ps.Phase == processor.PhaseLive {
			c.Live++
		}
		c.Pending += ps.Pending
	}
	for _, b := range s.Standbys {
		c.Standbys++
		c.Warm += b.Pending
	}
	return c
}
