package brokers

import (
	"context"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// containerMachine is one node in a container. Its data lies in the container, which is started again after a stop or a kill
// and removed at the end.
type containerMachine struct {
	engine    *testcontainers.DockerProvider
	container testcontainers.Container
	id        string

	ended   chan struct{} // of the running start
	waiters sync.WaitGroup
	stopAll context.CancelFunc
}

// stopGrace is how long a broker may take to end in order; 3 s were measured.
const stopGrace = 30 * time.Second

func (m *containerMachine) start(ctx context.Context) error {
	if err := m.container.Start(ctx); err != nil {
		return err
	}
	m.watch()
	return nil
}

// watch closes a new ended channel when the container no longer runs.
func (m *containerMachine) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	m.ended, m.stopAll = ended, cancel
	m.waiters.Go(func() {
		defer close(ended)
		m.wait(ctx)
	})
}

func (m *containerMachine) wait(ctx context.Context) {
	w := m.engine.Client().ContainerWait(ctx, m.id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-w.Result:
	case <-w.Error:
	}
}

func (m *containerMachine) stop(ctx context.Context) error {
	m.thaw(ctx)
	grace := stopGrace
	return m.container.Stop(ctx, &grace)
}

// kill returns when the container is gone: it could not be started again before.
func (m *containerMachine) kill(ctx context.Context) error {
	m.thaw(ctx)
	if _, err := m.engine.Client().ContainerKill(ctx, m.id, client.ContainerKillOptions{Signal: "SIGKILL"}); err != nil {
		return err
	}
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *containerMachine) pause(ctx context.Context) error {
	_, err := m.engine.Client().ContainerPause(ctx, m.id, client.ContainerPauseOptions{})
	return err
}

func (m *containerMachine) resume(ctx context.Context) error {
	_, err := m.engine.Client().ContainerUnpause(ctx, m.id, client.ContainerUnpauseOptions{})
	return err
}

// thaw resumes the container if it is paused, since an engine does not end a paused one. That it is not paused is no error.
func (m *containerMachine) thaw(ctx context.Context) { _ = m.resume(ctx) }

func (m *containerMachine) remove(ctx context.Context) error {
	m.thaw(ctx)
	_, err := m.engine.Client().ContainerRemove(ctx, m.id, client.ContainerRemoveOptions{RemoveVolumes: true, Force: true})
	if m.stopAll != nil {
		m.stopAll()
	}
	m.waiters.Wait()
	return err
}

func (m *containerMachine) died() <-chan struct{} { return m.ended }

func (m *containerMachine) log(ctx context.Context) ([]byte, error) { return readLog(ctx, m.container) }
