package state

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// keep is the seed of a child that opens a store, and keeps it until its input ends.
const keep = "keep"

func keeper(dir, _ string) error {
	s, err := Open(Options{Dir: dir, MemoryBudget: 4 << 20})
	if err != nil {
		fmt.Println(err)
		return nil
	}
	fmt.Println("open")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return s.Close()
}

// another lets another process open a store. It returns what that has said, and lets it go.
func another(t *testing.T, dir string) (said string, release func() error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir+"|"+keep)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	said, err = bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return strings.TrimSpace(said), func() error { return errors.Join(in.Close(), cmd.Wait()) }
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	return names
}

// A directory that is removed under a running store fails it, and it makes nothing in one that is there instead; it has
// its lock again before it is opened again, and not while another process has the directory.
func TestDirectoryTakenAway(t *testing.T) {
	filled := func(t *testing.T, dir string) (*Store, *history, []*Partition) {
		s, err := Open(Options{Dir: dir, MemoryBudget: 4 << 20})
		must(t, err)
		h := &history{seed: 5}
		handles := h.open(t, s)
		for n := range int64(50) {
			must(t, h.run(n+1, handles))
		}
		must(t, s.Flush())
		must(t, h.run(51, handles))
		return s, h, handles
	}
	for what, take := range map[string]func(string) error{
		"directory": os.RemoveAll,
		"lock":      func(dir string) error { return os.Remove(filepath.Join(dir, "LOCK")) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			s, h, _ := filled(t, dir)
			must(t, take(dir))
			if err := s.Flush(); !errors.Is(err, ErrFailed) || !errors.Is(err, ErrTakenAway) {
				t.Errorf("flush: %v, want ErrFailed and ErrTakenAway", err)
			}
			must(t, s.Reopen())
			must(t, h.run(1, h.open(t, s)))
			if said, release := another(t, dir); !strings.Contains(said, ErrLocked.Error()) {
				t.Errorf("another process says %q, want ErrLocked", said)
				must(t, release())
			}
			must(t, s.Close())
		})
	}
	t.Run("and made anew by another process", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "store")
		s, _, _ := filled(t, dir)
		must(t, os.RemoveAll(dir))
		said, release := another(t, dir)
		if said != "open" {
			t.Fatalf("another process says %q", said)
		}
		before := files(t, dir)
		if err := s.Flush(); !errors.Is(err, ErrTakenAway) {
			t.Errorf("flush: %v, want ErrTakenAway", err)
		}
		for range 2 {
			if err := s.Reopen(); !errors.Is(err, ErrLocked) {
				t.Errorf("reopen: %v, want ErrLocked", err)
			}
		}
		if after := files(t, dir); !slices.Equal(before, after) {
			t.Errorf("it has changed what is another process's: %v, and then %v", before, after)
		}
		must(t, release())
		must(t, s.Reopen())
		must(t, s.Try())
		must(t, s.Close())
	})
}

// unlockable is a file system that gives no locks, as NFS without its lock service.
type unlockable struct{ vfs.FS }

func (unlockable) Lock(string) (io.Closer, error) { return nil, syscall.ENOLCK }

func TestNoLocksIsNotInUse(t *testing.T) {
	if _, err := Open(Options{Dir: "store", FS: unlockable{vfs.NewMem()}}); errors.Is(err, ErrLocked) || !errors.Is(err, syscall.ENOLCK) {
		t.Errorf("opening says %v", err)
	}
}

// A lock is kept when it is taken once more: at no time another process can have the directory, and take this one for ended. That of a directory that was
// taken away is another one.
func TestLockIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l := dirLock{files: vfs.Default, dir: dir}
	must(t, l.take())
	first, tenure := l.lock, l.tenure()
	must(t, l.take())
	if l.lock != first || l.tenure() != tenure || tenure == "" && runtime.GOOS == "linux" {
		t.Errorf("it was let go; it is %q, and was %q", l.tenure(), tenure)
	}
	must(t, errors.Join(os.RemoveAll(dir), l.take()))
	if l.lock == first {
		t.Error("the lock is that of a directory that is gone")
	}
	must(t, l.release())
}
