package state

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Remove takes a part away with all that it holds, and leaves others alone, also that of a topic of the same name that was made anew.
func TestRemove(t *testing.T) {
	files := vfs.NewMem()
	s := openStore(t, Options{FS: files})
	p, other := openPartition(t, s, orders(0)), openPartition(t, s, orders(1))
	for _, part := range []*Partition{p, other} {
		value := make([]byte, 10_000)
		rand.NewChaCha8([32]byte{1}).Read(value) // zeros would be compressed to nothing
		must(t, part.Put(Key{Due: 7, Seq: 1}, value))
		must(t, part.Commit(Position{Offset: 2, Resume: 2}))
	}
	must(t, s.Flush())
	former := orders(0)
	former.TopicID = [16]byte{9}
	must(t, s.Remove(former)) // of another topic id
	if bytes := s.Size(former); bytes != 0 {
		t.Errorf("of another topic id it takes %d bytes", bytes)
	}
	if n := len(s.Positions()); n != 2 {
		t.Fatalf("%d parts, want 2", n)
	}
	if bytes := s.Size(orders(0)); bytes < 10_000 {
		t.Errorf("it takes %d bytes", bytes)
	}
	must(t, s.Remove(orders(0)))
	if bytes := s.Size(orders(0)); bytes != 0 {
		t.Errorf("what is gone takes %d bytes", bytes)
	}
	if err := p.Commit(Position{Offset: 3}); !errors.Is(err, ErrEnded) {
		t.Errorf("who held it writes: %v", err)
	}
	must(t, s.Close())
	s = openStore(t, Options{FS: files})
	if held := s.Positions(); len(held) != 1 || held[orders(1)].Offset != 2 {
		t.Errorf("opened again it has %v", held)
	}
	p, other = openPartition(t, s, orders(0)), openPartition(t, s, orders(1))
	if _, ok := p.Position(); ok || len(keys(t, p, Key{})) != 0 || len(keys(t, other, Key{})) != 1 {
		t.Error("what was removed is there again, or another part is not")
	}
}

// How large a part is may take for ever to find out on a disk from which nothing comes back: nothing waits for that.
func TestSizeHoldsNothingUp(t *testing.T) {
	for what, do := range map[string]func(*Store) error{
		"another part is opened": func(s *Store) error { _, err := s.Partition(orders(2)); return err },
		"it is removed":          func(s *Store) error { return s.Remove(orders(0)) },
		"it is looked for room":  func(s *Store) error { s.HasRoom(); return nil },
	} {
		t.Run(what, func(t *testing.T) {
			var hangs atomic.Bool
			reached, resume := make(chan struct{}, 100), make(chan struct{})
			files := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				if (op.Kind == errorfs.OpFileReadAt || op.Kind == errorfs.OpOpen) && strings.HasSuffix(op.Path, ".sst") && hangs.Load() {
					reached <- struct{}{}
					<-resume
				}
				return nil
			}))
			s := openStore(t, Options{FS: files})
			for n := range int32(2) { // so that the table holds more than the part
				p := openPartition(t, s, orders(n))
				must(t, p.Put(Key{Due: 7, Seq: 1}, make([]byte, 1000)))
				must(t, p.Commit(Position{Offset: 2, Resume: 2}))
			}
			must(t, s.Flush())
			sized, done := make(chan struct{}), make(chan error, 1)
			hangs.Store(true)
			go func() { defer close(sized); s.Size(orders(0)) }()
			defer func() { hangs.Store(false); close(resume); <-sized }()
			await(t, reached, "its table is not read")
			go func() { done <- do(s) }()
			must(t, await(t, done, "it waits for the disk"))
		})
	}
}

// await receives what has to come soon.
func await[T any](t *testing.T, from <-chan T, otherwise string) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(10 * time.Second):
		t.Error(otherwise)
	}
	return got
}

// A directory is removed with what pebble has made in it, never while a store is open there, and what else lies in it is left.
func TestRemoveDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "0")
	s, err := Open(Options{Dir: dir, MemoryBudget: 8 << 20})
	must(t, err)
	p := openPartition(t, s, orders(0))
	must(t, p.Put(Key{Due: 7, Seq: 1}, make([]byte, 1000)))
	must(t, p.Commit(Position{Offset: 2, Resume: 2}))
	if _, err := RemoveDir(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("while it is open: %v", err)
	}
	must(t, s.Close())
	notes := filepath.Join(dir, "notes.txt")
	must(t, os.WriteFile(notes, nil, 0o600))
	if bytes, err := RemoveDir(dir); err != nil || bytes < 500 {
		t.Errorf("%d bytes, %v", bytes, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 || files[0].Name() != "notes.txt" {
		t.Errorf("what is left: %v, %v", files, err)
	}
	must(t, os.Remove(notes))
	if _, err := RemoveDir(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
}
