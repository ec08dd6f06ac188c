package brokers

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// What is half made is never found, and the next one makes it anew.
func TestCacheKeepsOnlyWhatSucceeded(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	broken := errors.New("broken")
	_, err := cached("k", func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "half"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatalf("got %v, want the error of the maker", err)
	}
	dir, err := cached("k", func(dir string) error { return os.WriteFile(filepath.Join(dir, "whole"), nil, 0o644) })
	if err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(dir, "half")) || !exists(filepath.Join(dir, "whole")) {
		t.Error("the folder is a mixture of both attempts")
	}
	left, err := filepath.Glob(filepath.Join(cacheDir(), "making-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// Any number of processes make a thing once. A lock belongs to an open file, so goroutines stand for processes.
func TestCacheIsMadeOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			dir, err := cached("k", func(dir string) error {
				made.Add(1)
				return os.WriteFile(filepath.Join(dir, "f"), nil, 0o644)
			})
			if err != nil || !exists(filepath.Join(dir, "f")) {
				t.Errorf("got %s, %v", dir, err)
			}
		})
	}
	wg.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("made %d times", n)
	}
}

// No port is given out twice while it is held, and all are below those that clients get.
func TestPortsAreDistinct(t *testing.T) {
	var a, b ports
	defer a.release()
	defer b.release()
	seen := map[int]bool{}
	for range 200 {
		for _, p := range []*ports{&a, &b} {
			port, err := p.take()
			if err != nil {
				t.Fatal(err)
			}
			if seen[port] || port >= 32768 {
				t.Errorf("port %d", port)
			}
			seen[port] = true
		}
	}
}

// Folders whose process has died are swept, those in use are not.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	held, lock, err := newDir()
	if err != nil {
		t.Fatal(err)
	}
	abandoned, free, err := newDir()
	if err != nil {
		t.Fatal(err)
	}
	free.Close() // as the kernel does for a dead process
	third, lock3, err := newDir()
	if err != nil {
		t.Fatal(err)
	}
	if exists(abandoned) || exists(abandoned+".lock") {
		t.Errorf("%s is still there", abandoned)
	}
	if !exists(held) || !exists(third) {
		t.Error("a folder in use was removed")
	}
	for dir, l := range map[string]*os.File{held: lock, third: lock3} {
		if err := removeDir(dir, l); err != nil || exists(dir) || exists(dir+".lock") {
			t.Errorf("%s is not removed: %v", dir, err)
		}
	}
}

// Both lines of ldd that name a file count, the one without a file does not.
func TestLddLines(t *testing.T) {
	out := "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f1)\n" +
		"\tlibjvm.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f2)\n"
	var got []string
	for _, m := range lddLine.FindAllStringSubmatch(out, -1) {
		got = append(got, m[1])
	}
	want := []string{"/lib/x86_64-linux-gnu/libz.so.1", "/lib64/ld-linux-x86-64.so.2"}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %q, want %q", got, want)
	}
}
