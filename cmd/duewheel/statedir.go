package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// maxProcesses is how many processes of one host may share a state directory.
const maxProcesses = 1000

// claimStateDir returns the first of <dir>/0, <dir>/1 ... that no other process uses, and what to
// close when this process uses it no more. A lock file beside each says whether it is in use; the
// operating system frees it when the process ends, however it ends. A process that starts again
// finds the same directory in this way, and with it the records that it had stored. A disk that is
// full or fails keeps no process from running: the processor goes on without a store until it can be used.
func claimStateDir(dir string) (string, io.Closer, error) {
	if err := outsideStores(dir); err != nil {
		return "", nil, err
	}
	if err := makePrivate(dir); err != nil {
		return unlocked(dir, err)
	}
	for n := range maxProcesses {
		path := filepath.Join(dir, strconv.Itoa(n))
		lock, err := vfs.Default.Lock(path + ".lock")
		var pathError *fs.PathError
		switch {
		case err == nil:
			return path, lock, nil
		case errors.As(err, &pathError):
			return unlocked(dir, err)
		}
	}
	return "", nil, fmt.Errorf("state.dir: all of %s/0 to %d are in use", dir, maxProcesses-1)
}

// makePrivate makes a directory when it is not there: for this user alone, since payloads lie in it. Those above it are as usual.
func makePrivate(dir string) error {
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o755); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o700)
}

// outsideStores refuses a directory that is a store, or lies in one: to delete the store of one process would delete that of another one, too.
func outsideStores(dir string) error {
	at, err := filepath.Abs(dir)
	for parent := ""; err == nil && at != parent; at, parent = filepath.Dir(at), at {
		files, _ := os.ReadDir(at) // one that is not there yet, or may not be read, is no store of ours
		if slices.ContainsFunc(files, func(f os.DirEntry) bool { return strings.HasPrefix(f.Name(), "marker.manifest.") }) {
			return fmt.Errorf("state.dir %s is, or lies in, the store %s of one process: name a directory of its own, or the one above that", dir, at)
		}
	}
	return nil
}

// diskErrors are those of a disk that is full, read-only or fails.
var diskErrors = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.ENXIO, syscall.ENODEV, syscall.ESTALE, syscall.ETIMEDOUT, syscall.EFBIG}

// unlocked is the first directory, without a lock, where the disk is to blame. Every other error is a
// mistake in the configuration: a directory above it that cannot be made, a link that leads nowhere,
// a file in its place. The store has a lock of its own.
func unlocked(dir string, err error) (string, io.Closer, error) {
	if slices.ContainsFunc(diskErrors, func(e error) bool { return errors.Is(err, e) }) {
		return filepath.Join(dir, "0"), io.NopCloser(nil), nil
	}
	return "", nil, fmt.Errorf("state.dir %s cannot be used: %w", dir, err)
}
