package local

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/duewheel/duewheel/state"
)

// A process finds the members that the one before it has had in the same directory, of the same group. A copy of the directory has none: whose they
// are may run. So it is on a disk, whose locks are the kernel's.
func TestMembersOfTheProcessBefore(t *testing.T) {
	dir := t.TempDir()
	open := func(dir string) *Store {
		t.Helper()
		s := New(state.Options{Dir: dir, MemoryBudget: 1 << 20, Logger: slog.New(slog.DiscardHandler)}, "identity", nil)
		if err := s.Open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	left := func(s *Store, group string, want map[int]string) {
		t.Helper()
		if got := NewMembers(s, group).Left(); !maps.Equal(got, want) {
			t.Errorf("left are %v, want %v", got, want)
		}
	}
	first := open(dir)
	left(first, "g", nil)
	m := NewMembers(first, "g")
	m.Note(0, "a")
	m.Note(1, "b")
	m.Note(0, "c")
	want := map[int]string{0: "c", 1: "b"}
	if err := m.write(); err != nil {
		t.Fatal(err)
	}
	left(first, "g", want)

	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	left(open(copied), "g", nil)
	first.Close()
	left(first, "g", nil) // it has the lock no more
	second := open(dir)
	left(second, "g", want)
	left(second, "another", nil)
	if err := os.WriteFile(filepath.Join(dir, membersFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	left(second, "g", nil)
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil { // another process may have it now
		t.Fatal(err)
	}
	if err := NewMembers(second, "g").write(); err == nil {
		t.Error("written into a directory that was taken away")
	}
}
