package brokers

import (
	"context"
	"errors"
	"fmt"
)

// Provider names where brokers come from.
type Provider string

// The providers, in the order in which they are tried.
const (
	External Provider = "external" // addresses in DUEWHEEL_TEST_BROKERS
	Docker   Provider = "docker"   // a container engine, through testcontainers-go
	JVM      Provider = "jvm"      // a JDK, with jars by Maven
)

// source is one provider: whether it is there, and a machine for each node.
type source interface {
	// available says nil, or why not together with what to do about it.
	available(ctx context.Context, o Options) error
	// prepare does what is done once for a cluster: fetch jars, build an image.
	prepare(ctx context.Context, c *Cluster) error
	// machine makes the machine of one node, not yet started.
	machine(ctx context.Context, c *Cluster, n *Node) (machine, error)
}

// machine runs one node. Its methods are called one at a time.
type machine interface {
	start(ctx context.Context) error // also again, over the same data and ports
	stop(ctx context.Context) error  // in order: leaders move away, logs are closed
	kill(ctx context.Context) error  // SIGKILL
	pause(ctx context.Context) error
	resume(ctx context.Context) error
	remove(ctx context.Context) error // ends it whatever its state, and frees what it holds
	died() <-chan struct{}            // closed when a started machine ended; nil when that cannot be known
	log(ctx context.Context) ([]byte, error)
}

func sources() []struct {
	name Provider
	source
} {
	return []struct {
		name Provider
		source
	}{{JVM, jvm{}}}
}

// choose returns the forced provider, or the first that is there.
func choose(ctx context.Context, o Options) (source, error) {
	var missing []error
	for _, s := range sources() {
		if o.Provider != "" && o.Provider != s.name {
			continue
		}
		err := s.available(ctx, o)
		if err == nil {
			return s.source, nil
		}
		missing = append(missing, fmt.Errorf("%s: %w", s.name, err))
	}
	if len(missing) == 0 {
		return nil, fmt.Errorf("%w: DUEWHEEL_TEST_KAFKA=%s is not external, docker or jvm", ErrNoProvider, o.Provider)
	}
	return nil, fmt.Errorf("%w:\n%w", ErrNoProvider, errors.Join(missing...))
}
