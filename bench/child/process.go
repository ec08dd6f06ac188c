package child

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/duewheel/duewheel/processor"
)

// Process is a replica in a process of its own.
type Process struct {
	Order   Order
	Started time.Time

	cmd        *exec.Cmd
	stdin      io.WriteCloser
	heeds      mark
	delivering mark
	exited     chan struct{} // closed when it has ended; err is set before
	err        error
}

// mark is closed once.
type mark struct {
	once sync.Once
	c    chan struct{}
}

func (m *mark) set() { m.once.Do(func() { close(m.c) }) }

// Start starts a command whose main calls Serve. What the child tells is given to hear, in order; nil hears nothing. The command's
// standard error is the caller's to set: the log goes there.
func Start(cmd *exec.Cmd, o Order, hear func(*Process, Message)) (*Process, error) {
	p, stdout, err := start(cmd)
	if err != nil {
		return nil, err
	}
	p.Order = o
	go p.listen(stdout, hear)
	if err := json.NewEncoder(p.stdin).Encode(o); err != nil {
		p.Kill()
		return nil, errors.Join(fmt.Errorf("tell replica %s what to do: %w", o.Instance, err), p.err)
	}
	return p, nil
}

// Run starts a command that takes no order, such as another release, under a name.
func Run(cmd *exec.Cmd, name string) (*Process, error) {
	p, stdout, err := start(cmd)
	if err != nil {
		return nil, err
	}
	p.Order.Instance = name
	p.heeds.set()
	go p.listen(stdout, nil)
	return p, nil
}

func start(cmd *exec.Cmd) (*Process, io.Reader, error) {
	detach(cmd)
	p := &Process{cmd: cmd, Started: time.Now(), exited: make(chan struct{})}
	p.heeds.c, p.delivering.c = make(chan struct{}), make(chan struct{})
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	p.stdin = stdin
	return p, stdout, cmd.Start()
}

// listen hears a child until it ends.
func (p *Process) listen(out io.Reader, hear func(*Process, Message)) {
	defer close(p.exited)
	var unread error
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20) // an event of a turn names each of its partitions
	for lines.Scan() {
		var m Message
		if !bytes.HasPrefix(lines.Bytes(), []byte("{")) {
			continue // what a runtime or a library prints
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			unread = fmt.Errorf("it has told what cannot be read: %w: %s", err, lines.Bytes())
			break
		}
		if m.Heeds {
			p.heeds.set()
		}
		if m.Event != nil && m.Event.Kind == processor.EventCommitted && m.Event.Records > 0 {
			p.delivering.set()
		}
		if hear != nil {
			hear(p, m)
		}
	}
	if unread != nil {
		_ = p.cmd.Process.Kill() // an error says that it has ended already
	}
	_, _ = io.Copy(io.Discard, out)
	p.err = errors.Join(p.cmd.Wait(), unread)
}

// Name is the replica's.
func (p *Process) Name() string { return p.Order.Instance }

// Pid is the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Delivering is closed when the replica has delivered something.
func (p *Process) Delivering() <-chan struct{} { return p.delivering.c }

// Exited is closed when the process has ended. Err says how, from then on.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err is what the process has ended with. It is valid once Exited is closed.
func (p *Process) Err() error { return p.err }

// HasExited tells whether the process has ended.
func (p *Process) HasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Kill ends the process with SIGKILL and returns when it has ended. One that is frozen ends, too.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error says that it has ended already
	<-p.exited
}

// Terminate ends the process in order, within a time; past it, it is killed.
func (p *Process) Terminate(within time.Duration) error {
	late := time.After(within)
	select { // a process that has only just begun is ended by the signal itself
	case <-p.heeds.c:
	case <-p.exited:
	case <-late:
		p.Kill()
		return fmt.Errorf("replica %s did not begin within %v", p.Name(), within)
	}
	if err := terminate(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end replica %s: %w", p.Name(), err)
	}
	select {
	case <-p.exited:
	case <-late:
		p.Kill()
		return fmt.Errorf("replica %s did not end within %v", p.Name(), within)
	}
	if p.err != nil {
		return fmt.Errorf("replica %s: %w", p.Name(), p.err)
	}
	return nil
}

// Freeze stops the process in its tracks, until Thaw.
func (p *Process) Freeze() error {
	if err := freeze(p.cmd.Process); err != nil {
		return fmt.Errorf("freeze replica %s: %w", p.Name(), err)
	}
	return nil
}

// Thaw lets a frozen process go on.
func (p *Process) Thaw() error {
	if err := thaw(p.cmd.Process); err != nil {
		return fmt.Errorf("thaw replica %s: %w", p.Name(), err)
	}
	return nil
}

// Orphan does to the child what the end of its parent does.
func (p *Process) Orphan() error { return p.stdin.Close() }
