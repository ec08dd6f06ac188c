package brokers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/duewheel/duewheel/integration/brokers/properties"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// docker runs each node in a container, in the network of the host: an engine without a bridge will do, and addresses are the
// same inside and outside. That needs an engine on this Linux machine; with Docker Desktop use another provider.
type docker struct{}

const dockerAdvice = "install and start a Docker engine (Debian: apt-get install --no-install-recommends docker.io, then " +
	"integration/brokers/engine start DIR as root) and set DOCKER_HOST if its socket is not the default one"

// dataDir is writable in both images.
const dataDir = "/var/lib/kafka/data"

// clusterLabel names the folder of the cluster to which a container belongs.
const clusterLabel = "duewheel.cluster"

var engineSettings = sync.OnceFunc(func() {
	// The library reads these once. Its reaper is an image that would have to be pulled; sweepContainers does its work.
	for name, value := range map[string]string{
		"TESTCONTAINERS_RYUK_DISABLED": "true",
		"TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1", // inside a container it would dial the gateway
	} {
		if os.Getenv(name) == "" {
			os.Setenv(name, value)
		}
	}
	log.SetDefault(log.NewNoopLogger())
})

// engine connects to the engine. The bridge is called host, since the library makes a bridge of its own where it finds none.
func engine() (*testcontainers.DockerProvider, error) {
	engineSettings()
	return testcontainers.NewDockerProvider(testcontainers.WithDefaultBridgeNetwork("host"))
}

func (docker) available(ctx context.Context, _ Options) error {
	if runtime.GOOS != "linux" {
		return errors.New("containers in the host's network need Linux; use DUEWHEEL_TEST_KAFKA=jvm")
	}
	p, err := engine()
	if err != nil {
		return fmt.Errorf("%w: %s", err, dockerAdvice)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, err := p.Client().Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return fmt.Errorf("%w: %s", err, dockerAdvice)
	}
	return nil
}

func (docker) prepare(ctx context.Context, o Options) (maker, error) {
	p, err := engine()
	if err != nil {
		return nil, err
	}
	if err := sweepContainers(ctx, p); err != nil {
		return nil, err
	}
	name, err := image(ctx, p, o)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *Cluster, n *Node) (machine, error) {
		return newContainer(ctx, p, name, c, n)
	}, nil
}

func newContainer(ctx context.Context, p *testcontainers.DockerProvider, image string, c *Cluster, n *Node) (machine, error) {
	env := properties.Env(c.properties(n, dataDir))
	env["CLUSTER_ID"] = c.id
	env["KAFKA_HEAP_OPTS"], env["KAFKA_JVM_PERFORMANCE_OPTS"] = splitHeap(javaFlags(c.options.Measure))
	created, err := p.CreateContainer(ctx, testcontainers.ContainerRequest{
		Image:              image,
		Env:                env,
		Labels:             map[string]string{clusterLabel: c.dir},
		HostConfigModifier: func(h *container.HostConfig) { h.NetworkMode = "host" },
	})
	if err != nil {
		return nil, err
	}
	return &containerMachine{engine: p, container: created, id: created.GetContainerID()}, nil
}

// splitHeap separates the flags as the image wants them.
func splitHeap(flags []string) (heap, rest string) {
	var h, r []string
	for _, f := range flags {
		if strings.HasPrefix(f, "-Xm") {
			h = append(h, f)
		} else {
			r = append(r, f)
		}
	}
	return strings.Join(h, " "), strings.Join(r, " ")
}

// sweepContainers removes the containers of clusters whose process has died: no process holds the lock of their folder.
func sweepContainers(ctx context.Context, p *testcontainers.DockerProvider) error {
	ours := client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", clusterLabel)}
	list, err := p.Client().ContainerList(ctx, ours)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	for _, found := range list.Items {
		lockName := filepath.Clean(found.Labels[clusterLabel]) + ".lock"
		if exists(lockName) {
			lock, err := lockFile(lockName, false)
			if err != nil {
				continue
			}
			lock.Close()
		}
		m := &containerMachine{engine: p, id: found.ID}
		if err := m.remove(ctx); err != nil {
			return fmt.Errorf("remove the abandoned container %s: %w", found.ID, err)
		}
	}
	return nil
}

func readLog(ctx context.Context, c testcontainers.Container) ([]byte, error) {
	r, err := c.Logs(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
