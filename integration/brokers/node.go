package brokers

import (
	"context"
	"errors"
	"fmt"
)

// ID is the node id, as metadata names it.
func (n *Node) ID() int32 { return int32(n.id) }

// Addr is the node's address for one listener.
func (n *Node) Addr(l Listener) string { return n.addrs[l] }

// Start starts a node that was stopped or killed, over the same data and ports, and returns when it answers for itself.
// In a cluster of three that means that a majority runs.
func (n *Node) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running {
		return n.wrap("start", errors.New("it is running"))
	}
	if err := n.machine.start(ctx); err != nil {
		return n.wrap("start", err)
	}
	n.running = true
	if err := n.ready(ctx); err != nil {
		return n.wrap("start", err)
	}
	return nil
}

// Stop ends the node in order, as an operator would: leaders move to other nodes and logs are closed.
func (n *Node) Stop(ctx context.Context) error {
	return n.end("stop", func() error { return n.machine.stop(ctx) })
}

// Kill ends the node as kill -9 does.
func (n *Node) Kill(ctx context.Context) error {
	return n.end("kill", func() error { return n.machine.kill(ctx) })
}

func (n *Node) end(what string, how func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.running {
		return n.wrap(what, errors.New("it is not running"))
	}
	if err := how(); err != nil {
		return n.wrap(what, err)
	}
	n.running, n.paused = false, false
	return nil
}

// Restart stops the node in order and starts it again.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Stop(ctx); err != nil {
		return err
	}
	return n.Start(ctx)
}

// Pause freezes the node: connections stay open and nothing answers, as with a machine that swaps or a long collection.
func (n *Node) Pause(ctx context.Context) error {
	return n.freeze("pause", true, func() error { return n.machine.pause(ctx) })
}

// Resume ends a pause.
func (n *Node) Resume(ctx context.Context) error {
	return n.freeze("resume", false, func() error { return n.machine.resume(ctx) })
}

func (n *Node) freeze(what string, to bool, how func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.running || n.paused == to {
		return n.wrap(what, fmt.Errorf("running=%t paused=%t", n.running, n.paused))
	}
	if err := how(); err != nil {
		return n.wrap(what, err)
	}
	n.paused = to
	return nil
}

func (n *Node) wrap(what string, err error) error {
	return fmt.Errorf("brokers: %s node %d: %w", what, n.id, err)
}
