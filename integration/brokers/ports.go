package brokers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Ports are taken from below the range that Linux hands to outgoing connections (32768 and up). A broker that is down while
// a test kills it would otherwise lose its port to any client of the machine.
const (
	firstPort = 20000
	lastPort  = 32000
)

// ports are reserved by a lock file each, so that two test processes never choose the same one, and free themselves when the
// process dies.
type ports struct{ locks []*os.File }

// take reserves one free port of 127.0.0.1.
func (p *ports) take() (int, error) {
	dir := filepath.Join(scratch(), "ports")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		f, err := lockFile(filepath.Join(dir, strconv.Itoa(port)), false)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			f.Close()
			continue
		}
		l.Close()
		p.locks = append(p.locks, f)
		return port, nil
	}
	return 0, errors.New("brokers: no free port")
}

func (p *ports) release() {
	for _, f := range p.locks {
		f.Close()
	}
	p.locks = nil
}

// lockFile opens the file and locks it for this process, waiting when wait is set. Closing the file, or dying, unlocks it.
// The file stays: to remove a locked file would let a third process lock another one of the same name.
func lockFile(name string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return f, nil
}
