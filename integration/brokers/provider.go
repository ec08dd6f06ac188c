package brokers

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Provider names where brokers come from.
type Provider string

// The providers, in the order in which they are tried.
const (
	External Provider = "external" // addresses in DUEWHEEL_TEST_BROKERS
	Docker   Provider = "docker"   // a container engine, through testcontainers-go
	JVM      Provider = "jvm"      // a JDK, with jars by Maven
)

// source makes the machines of the providers that start brokers themselves.
type source interface {
	// available says nil, or why not together with what to do about it.
	available(ctx context.Context, o Options) error
	// prepare does what is done once for a cluster and may take minutes the first time: fetch jars, build an image.
	prepare(ctx context.Context, o Options) (maker, error)
}

// maker makes the machine of one node, not yet started.
type maker func(ctx context.Context, c *Cluster, n *Node) (machine, error)

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

var sources = map[Provider]source{Docker: docker{}, JVM: jvm{}}

// choose returns the forced provider, or the first that is there.
func choose(ctx context.Context, o Options) (Provider, error) {
	candidates := []Provider{External, Docker, JVM}
	if o.Provider != "" {
		if !slices.Contains(candidates, o.Provider) {
			return "", fmt.Errorf("%w: DUEWHEEL_TEST_KAFKA=%s is none of %v", ErrNoProvider, o.Provider, candidates)
		}
		candidates = []Provider{o.Provider}
	}
	var missing []error
	for _, p := range candidates {
		err := available(ctx, p, o)
		if err == nil {
			return p, nil
		}
		missing = append(missing, fmt.Errorf("%s: %w", p, err))
	}
	return "", fmt.Errorf("%w:\n%w", ErrNoProvider, errors.Join(missing...))
}

// Have says nil when this provider is there, else why it is not and what to do about it.
func Have(ctx context.Context, p Provider) error {
	_, err := choose(ctx, Options{Provider: p})
	return err
}

func available(ctx context.Context, p Provider, o Options) error {
	if p != External {
		return sources[p].available(ctx, o)
	}
	if len(externalAddrs()) == 0 {
		return errors.New("set DUEWHEEL_TEST_BROKERS to addresses of a Kafka that tests may use: host:port,host:port")
	}
	return nil
}
