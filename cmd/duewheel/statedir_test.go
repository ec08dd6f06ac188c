package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duewheel/duewheel/state"
)

// makeStore makes the store of a number, which was last used so long ago.
func makeStore(t *testing.T, dir, number string, ago time.Duration) string {
	t.Helper()
	path := filepath.Join(dir, number)
	s, err := state.Open(state.Options{Dir: path, MemoryBudget: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), os.WriteFile(path+".lock", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	age(t, path, ago)
	return path
}

// age makes the files of a store, and its lock, so old.
func age(t *testing.T, path string, ago time.Duration) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(path, "*"))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-ago)
	for _, f := range append(files, path+".lock") {
		if err := os.Chtimes(f, at, at); err != nil && !errors.Is(err, fs.ErrNotExist) { // a store that is open removes files beside all else
			t.Fatal(err)
		}
	}
}

// A store that no process has used for long is removed, and the log says how large it was; what is used, or was of late, is not, nor what is no store.
func TestRemoveUnusedStores(t *testing.T) {
	const long = unusedAfter + time.Hour
	dir := t.TempDir()
	own, lock, err := claimStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	makeStore(t, dir, "0", 0)
	used, unused, late := makeStore(t, dir, "1", long), makeStore(t, dir, "2", long), makeStore(t, dir, "3", unusedAfter-time.Hour)
	s, err := state.Open(state.Options{Dir: used, MemoryBudget: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	age(t, used, long)
	age(t, own, long)
	marked := makeStore(t, dir, "4", long)
	if err := os.Chtimes(marked+".lock", time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	photos := filepath.Join(dir, "5")
	named := makeStore(t, dir, "mine", long)
	if err := errors.Join(os.Mkdir(photos, 0o700), os.WriteFile(filepath.Join(photos, "a.jpg"), nil, 0o600), os.WriteFile(photos+".lock", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	age(t, photos, long)

	var log bytes.Buffer
	logger := (&settings{}).logger(&log)
	since := map[string]time.Time{}
	removeUnused(t.Context(), dir, own, time.Now(), since, logger)
	removeUnused(t.Context(), dir, own, time.Now().Add(unusedAgain-time.Minute), since, logger)
	if _, err := os.Stat(unused); err != nil {
		t.Errorf("%s was removed before its process had a day to take it", unused)
	}
	age(t, late, unusedAfter-2*unusedAgain)
	removeUnused(t.Context(), dir, own, time.Now().Add(unusedAgain), since, logger)
	for _, path := range []string{own, used, late, marked, photos, named} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s was removed", path)
		}
	}
	if _, err := os.Stat(unused); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there: %v", unused, err)
	}
	if said := log.String(); !strings.Contains(said, "level=INFO msg=\"a store was removed that no process has used for long") || !strings.Contains(said, "dir="+unused+" days=31 bytes=") || strings.Contains(said, "bytes=0\n") {
		t.Errorf("the log says\n%s", said)
	}
	if strings.Contains(log.String(), "WARN") {
		t.Errorf("the log warns of what is in use:\n%s", log.String())
	}
	if _, err := s.Partition(state.PartitionID{Group: "g", Topic: "t"}); err != nil {
		t.Errorf("the store that is in use: %v", err)
	}
}

// A store is not removed while a process has its number, whatever its files look like.
func TestRemoveUnusedLeavesWhatIsClaimed(t *testing.T) {
	dir := t.TempDir()
	makeStore(t, dir, "0", unusedAfter+time.Hour)
	path, lock, err := claimStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	age(t, path, unusedAfter+time.Hour)
	logger := (&settings{}).logger(t.Output())
	since := map[string]time.Time{path: time.Now().Add(-unusedAgain)}
	removeUnused(t.Context(), dir, filepath.Join(dir, "1"), time.Now(), since, logger)
	if _, err := os.Stat(path); err != nil {
		t.Error("it was removed")
	}
	lock.Close()
	removeUnused(t.Context(), dir, filepath.Join(dir, "1"), time.Now(), since, logger)
	if _, err := os.Stat(path); err == nil {
		t.Error("it is there after that")
	}
}

// What comes back after it was gone, as what is restored from a backup with the times that it had, is new to a process, which leaves it a day.
func TestRemoveUnusedForgetsWhatWasGone(t *testing.T) {
	dir := t.TempDir()
	logger := (&settings{}).logger(t.Output())
	since := map[string]time.Time{}
	now := time.Now()
	look := func(after time.Duration) {
		removeUnused(t.Context(), dir, filepath.Join(dir, "0"), now.Add(after), since, logger)
	}
	restore := func() string { return makeStore(t, dir, "1", unusedAfter+time.Hour) }
	away := restore()
	look(0)
	if err := os.RemoveAll(away); err != nil {
		t.Fatal(err)
	}
	look(time.Hour)
	restore()
	look(unusedAgain)
	if _, err := os.Stat(away); err != nil {
		t.Error("it was removed when it had just come back")
	}
	look(2 * unusedAgain)
	if _, err := os.Stat(away); err == nil {
		t.Fatal("it is there after a day")
	}
	restore()
	look(2*unusedAgain + time.Hour)
	if _, err := os.Stat(away); err != nil {
		t.Error("it was removed when it had just come back after it was removed")
	}
}

// unreadable is a file of which it cannot be told when it was written.
type unreadable struct {
	os.DirEntry
	name string
	err  error
}

func (u unreadable) Name() string               { return u.name }
func (u unreadable) Info() (fs.FileInfo, error) { return nil, u.err }

// A store counts as used now when it cannot be told, as on a disk that fails.
func TestLastUsedOfADiskThatFails(t *testing.T) {
	path := makeStore(t, t.TempDir(), "0", unusedAfter)
	files, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		files []os.DirEntry
		err   error
		now   bool
	}{
		{"all is told", files, nil, false},
		{"no store", nil, nil, true},
		{"the directory fails", nil, syscall.EIO, true},
		{"the directory fails after some files", files, syscall.ESTALE, true},
		{"a file fails", append(slices.Clone(files), unreadable{files[0], "000009.sst", syscall.ESTALE}), nil, true},
		{"all files fail", []os.DirEntry{unreadable{files[0], "marker.manifest.000001.MANIFEST-000001", syscall.EIO}}, nil, true},
	} {
		if got := time.Since(newest(c.files, c.err)) < time.Hour; got != c.now {
			t.Errorf("%s: used now: %v, want %v", c.name, got, c.now)
		}
	}
}

// A lock of which it cannot be told when it was marked counts as marked now; where there is none, files alone tell.
func TestUnusedByALockThatFails(t *testing.T) {
	dir := t.TempDir()
	fails, none := makeStore(t, dir, "1", unusedAfter+time.Hour), makeStore(t, dir, "2", unusedAfter+time.Hour)
	if err := errors.Join(os.Remove(none+".lock"), os.Remove(fails+".lock"), os.Symlink(fails+".lock", fails+".lock")); err != nil {
		t.Fatal(err)
	}
	since := map[string]time.Time{}
	removeUnused(t.Context(), dir, filepath.Join(dir, "0"), time.Now(), since, (&settings{}).logger(t.Output()))
	if _, unused := since[fails]; unused {
		t.Error("the one whose lock fails is taken for unused")
	}
	if _, unused := since[none]; !unused {
		t.Error("the one without a lock is taken for used")
	}
}

// A process marks its own store as used, however little is written there.
func TestOwnStoreIsMarkedAsUsed(t *testing.T) {
	dir := t.TempDir()
	path := makeStore(t, dir, "0", unusedAfter+time.Hour)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go tidyStateDir(ctx, dir, path, (&settings{}).logger(io.Discard))
		for range 2 {
			synctest.Wait()
			info, err := os.Stat(path + ".lock")
			if err != nil {
				t.Fatal(err)
			}
			if at := info.ModTime(); !at.Equal(time.Now()) {
				t.Errorf("it was marked at %v, and it is %v", at, time.Now())
			}
			time.Sleep(lookEvery)
		}
	})
}

// A file system without locks is told from a directory that is in use, and it is said what to do.
func TestStateDirWithoutLocks(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EAGAIN: true, syscall.EACCES: true, errors.New("lock held by current process"): true,
		syscall.ENOLCK: false, syscall.EOPNOTSUPP: false, syscall.EIO: false, &fs.PathError{Op: "open", Path: "0.lock", Err: syscall.EACCES}: false,
	} {
		if got := isInUse(err); got != want {
			t.Errorf("%v: in use %v, want %v", err, got, want)
		}
	}
	_, _, err := unlocked("/nfs/duewheel", syscall.ENOLCK)
	if !errors.Is(err, syscall.ENOLCK) || !strings.HasPrefix(err.Error(), "state.dir /nfs/duewheel: its file system gives no locks (") || !strings.Contains(err.Error(), "name a directory on a local disk") {
		t.Errorf("it is said: %v", err)
	}
}
