package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// demoDirs begins the name of the directory of each demo.
	demoDirs = "duewheel-demo-"
	// demoLock is the file in it that says whether its demo still runs: the operating system frees the lock when the process ends, however it
	// ends.
	demoLock = "demo.lock"
	// demoEmpty is how old a directory is at least that a demo has made and not locked.
	demoEmpty = time.Hour
)

// demoDir is where the replicas of one demo keep what they store.
type demoDir struct {
	path string
	lock io.Closer
}

// newDemoDir makes one, and removes those of demos that have ended without doing so.
func newDemoDir() (*demoDir, error) {
	sweepDemoDirs(os.TempDir(), time.Now())
	path, err := os.MkdirTemp("", demoDirs)
	if err != nil {
		return nil, err
	}
	lock, err := vfs.Default.Lock(filepath.Join(path, demoLock))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &demoDir{path, lock}, nil
}

func (d *demoDir) remove() { _ = errors.Join(os.RemoveAll(d.path), d.lock.Close()) } // what is left the next demo removes

// sweepDemoDirs removes the directories of demos that do not run any more. One that cannot be removed, because it is another user's, stays.
func sweepDemoDirs(temp string, now time.Time) {
	found, _ := filepath.Glob(filepath.Join(temp, demoDirs+"*")) // the pattern is sound
	for _, dir := range found {
		lockFile := filepath.Join(dir, demoLock)
		if _, err := os.Lstat(lockFile); err != nil {
			if info, err := os.Lstat(dir); err == nil && info.IsDir() && now.Sub(info.ModTime()) > demoEmpty {
				_ = os.Remove(dir) // which fails unless it is empty
			}
			continue
		}
		lock, err := vfs.Default.Lock(lockFile)
		if err != nil {
			continue // its demo runs
		}
		_ = errors.Join(os.RemoveAll(dir), lock.Close())
	}
}
