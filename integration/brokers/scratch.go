package brokers

import (
	"os"
	"path/filepath"
	"strings"
)

// scratch is where everything lies that dies with a cluster: its data, its logs and the locks of its ports.
func scratch() string { return filepath.Join(os.TempDir(), "duewheel-brokers") }

// newDir makes the folder of one cluster, and removes those whose process died before it could. Each folder is accompanied by
// a lock file that its process holds; the lock is released by the kernel.
func newDir() (dir string, lock *os.File, err error) {
	root := scratch()
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", nil, err
	}
	// The sweep and the making exclude each other: between MkdirTemp and the lock a folder looks abandoned.
	guard, err := lockFile(filepath.Join(root, "guard"), true)
	if err != nil {
		return "", nil, err
	}
	defer guard.Close()
	sweep(root)
	dir, err = os.MkdirTemp(root, "cluster-")
	if err != nil {
		return "", nil, err
	}
	lock, err = lockFile(dir+".lock", false)
	return dir, lock, err
}

func sweep(root string) {
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".lock")
		if !ok {
			continue
		}
		lock, err := lockFile(filepath.Join(root, e.Name()), false)
		if err != nil {
			continue
		}
		removeDir(filepath.Join(root, name), lock)
	}
}

// removeDir removes the folder before its lock file, so that a folder never lies there without one.
func removeDir(dir string, lock *os.File) error {
	err := os.RemoveAll(dir)
	os.Remove(dir + ".lock")
	lock.Close()
	return err
}
