package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/duewheel/duewheel/state"
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
		switch {
		case err == nil:
			return path, lock, nil
		case !isInUse(err):
			return unlocked(dir, err)
		}
	}
	return "", nil, fmt.Errorf("state.dir: all of %s/0 to %d are in use", dir, maxProcesses-1)
}

// isInUse tells that another process has a lock, or this one, from a file that cannot be made or locked.
func isInUse(err error) bool {
	var file *fs.PathError
	var number syscall.Errno
	return !errors.As(err, &file) && (!errors.As(err, &number) || number == syscall.EAGAIN || number == syscall.EACCES)
}

const (
	// unusedAfter is for how long no process has used a store that is removed: a replica that is down for longer reads the log again.
	unusedAfter = 30 * 24 * time.Hour
	// lookEvery is how often it is looked for such stores, and how often those that are used are marked as that.
	lookEvery = time.Hour
	// unusedAgain is for how long a process has to have seen that before it removes one: those that were stopped for long, with their machine
	// or with a clock that was wrong, have time to take theirs.
	unusedAgain = 24 * time.Hour
)

// tidyStateDir removes stores beside a process's own that no process has used for long, until ctx ends: without it those of processes that
// there are no more would lie there for ever.
func tidyStateDir(ctx context.Context, dir, own string, log *slog.Logger) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	since := map[string]time.Time{}
	for ctx.Err() == nil {
		now := time.Now()
		_ = os.Chtimes(own+".lock", now, now) // there may be no lock, nor a disk that works
		removeUnused(ctx, dir, own, now, since, log)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// removeUnused is one look. Since is when each store was first seen to be unused, by this process; what is not there, or used, begins anew.
func removeUnused(ctx context.Context, dir, own string, now time.Time, since map[string]time.Time, log *slog.Logger) {
	entries, _ := os.ReadDir(dir)
	there := map[string]bool{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if n, err := strconv.Atoi(e.Name()); err != nil || strconv.Itoa(n) != e.Name() || n < 0 || n >= maxProcesses || !e.IsDir() || path == own || ctx.Err() != nil {
			continue
		}
		there[path] = true
		unused := now.Sub(lastUsed(path))
		if lock, err := os.Stat(path + ".lock"); err == nil {
			unused = min(unused, now.Sub(lock.ModTime()))
		} else if !errors.Is(err, fs.ErrNotExist) {
			unused = 0 // it cannot be told
		}
		if unused < unusedAfter {
			delete(since, path)
			continue
		}
		if _, seen := since[path]; !seen {
			since[path] = now
		}
		if now.Sub(since[path]) < unusedAgain {
			continue
		}
		bytes, err := removeStore(path, now)
		if err == nil {
			delete(since, path)
		}
		switch {
		case err == nil && bytes > 0:
			log.Info("a store was removed that no process has used for long; one that needs what it held reads the log", "dir", path, "days", int(unused.Hours()/24), "bytes", bytes)
		case err != nil && !errors.Is(err, errInUse) && !errors.Is(err, state.ErrLocked):
			log.Warn("a store that no process has used for long cannot be removed", "dir", path, "error", err)
		}
	}
	maps.DeleteFunc(since, func(path string, _ time.Time) bool { return !there[path] })
}

var errInUse = errors.New("in use")

// removeStore removes a store under the lock of its number, by which no other process can come to have it meanwhile.
func removeStore(path string, now time.Time) (bytes int64, err error) {
	lock, err := vfs.Default.Lock(path + ".lock")
	if err != nil {
		return 0, errInUse
	}
	defer lock.Close()
	if now.Sub(lastUsed(path)) < unusedAfter {
		return 0, errInUse // it was, since it was looked at
	}
	return state.RemoveDir(path)
}

// lastUsed is when a store was written to or opened; now, if there is none, or that cannot be told.
func lastUsed(path string) time.Time { return newest(os.ReadDir(path)) }

// newest is when the last of a store's files was written.
func newest(files []os.DirEntry, err error) (at time.Time) {
	if err != nil || !slices.ContainsFunc(files, isMarker) {
		return time.Now()
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return time.Now()
		}
		if info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}

// isMarker tells the file by which a store is known.
func isMarker(f os.DirEntry) bool { return strings.HasPrefix(f.Name(), "marker.manifest.") }

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
		if slices.ContainsFunc(files, isMarker) {
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
	if slices.ContainsFunc([]error{syscall.ENOLCK, syscall.ENOSYS, syscall.EOPNOTSUPP}, func(e error) bool { return errors.Is(err, e) }) {
		return "", nil, fmt.Errorf("state.dir %s: its file system gives no locks (%w), by which processes keep off each other's stores. It is a network's, mostly, whose lock service does not answer: "+
			"name a directory on a local disk, since it holds nothing but a cache; or have rpc.statd and lockd run, or mount NFS with local_lock=all where this host alone uses it", dir, err)
	}
	if errors.Is(err, fs.ErrExist) { // what is there is no directory, and no file: that would be ENOTDIR
		return "", nil, fmt.Errorf("state.dir %s is, or lies behind, a link that leads nowhere: make the directory that it names (%w)", dir, err)
	}
	return "", nil, fmt.Errorf("state.dir %s cannot be used: %w", dir, err)
}
