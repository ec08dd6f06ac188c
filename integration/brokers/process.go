package brokers

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child that never outlives this process, not even when that is killed.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it ended; err is set before
	err  error
}

// spawn starts cmd. One thread stays with the child until it ends: the kernel sends the parent death signal when the thread
// that forked is gone, and Go ends threads as it likes.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.SysProcAttr = childAttr()
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) signal(s syscall.Signal) error {
	select {
	case <-p.done:
		return errors.New("the process has ended")
	default:
		return p.cmd.Process.Signal(s)
	}
}

// stop asks the process to end and waits until it has; when ctx ends first it is killed.
func (p *process) stop(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	p.cmd.Process.Signal(syscall.SIGCONT) // a stopped process would not see the next one
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.kill()
		return ctx.Err()
	}
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}
