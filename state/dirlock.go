package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// dirLock keeps a directory for one process. It is a lock on a file in it, so it goes with the file: when the directory is removed under
// a running process, the next process can have a directory of that name, too. From then on the first process must neither make nor
// remove anything there, which held tells, and take locks anew.
type dirLock struct {
	files vfs.FS
	dir   string
	lock  *pebble.Lock // nil: another process has the directory, or it cannot be had
	file  os.FileInfo  // the lock's file; nil: it is not on a disk
}

// take makes the directory when it is not there, for this user alone since payloads lie in it, and locks it. A lock from before is kept while the directory
// is the one that was locked: who gets it meanwhile would take this process for ended. Else it is given back.
func (l *dirLock) take() error {
	if l.lock != nil && l.file != nil {
		if err := l.held(); !errors.Is(err, ErrTakenAway) {
			return err
		}
	}
	if err := l.release(); err != nil {
		return err
	}
	if err := l.files.MkdirAll(l.dir, 0o700); err != nil {
		return fmt.Errorf("open store %s: %w", l.dir, err)
	}
	lock, err := pebble.LockDirectory(l.dir, l.files)
	if err != nil {
		if pe, number := (*fs.PathError)(nil), syscall.Errno(0); !errors.As(err, &pe) && (!errors.As(err, &number) || number == syscall.EAGAIN || number == syscall.EACCES) {
			err = fmt.Errorf("%w: %w", ErrLocked, err)
		}
		return fmt.Errorf("open store %s: %w", l.dir, err)
	}
	l.lock, l.file = lock, nil
	if vfs.Root(l.files) == vfs.Default {
		if l.file, err = os.Stat(l.path()); err != nil {
			return errors.Join(fmt.Errorf("open store %s: %w", l.dir, err), l.release())
		}
	}
	return nil
}

func (l *dirLock) path() string { return l.files.PathJoin(l.dir, "LOCK") }

// held returns an error when the directory is not the one that was locked.
func (l *dirLock) held() error {
	if l.file == nil {
		return nil
	}
	switch file, err := os.Stat(l.path()); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrTakenAway, err)
	case err != nil:
		return err
	case !os.SameFile(file, l.file):
		return ErrTakenAway
	}
	return nil
}

// tenure names the lock: the file that is locked, and the kernel that keeps locks on it. Empty: that cannot be told.
func (l *dirLock) tenure() string {
	if l.lock == nil {
		return ""
	}
	if l.file == nil {
		return "memory"
	}
	if l.held() != nil {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id") // proc_sys_kernel(5)
	file, is := l.file.Sys().(*syscall.Stat_t)
	if err != nil || !is {
		return ""
	}
	return fmt.Sprintf("%s/%d/%d", bytes.TrimSpace(boot), file.Dev, file.Ino)
}

func (l *dirLock) release() error {
	if l.lock == nil {
		return nil
	}
	lock := l.lock
	l.lock = nil
	return lock.Close()
}
