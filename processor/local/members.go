package local

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/duewheel/duewheel/processor/wait"
)

// Members is a file beside the store that names the members which the process has in its group. Who has the directory next finds there which ones were
// left in the group by a process that has ended without leaving, as after kill -9: it has had the lock that this one has now, so nothing of it runs any more.
// Every goroutine may use it.
type Members struct {
	store *Store
	group string
	wake  wait.Wake // asked when there is something to write

	mu  sync.Mutex
	now map[int]string // by the number of each: its member id
}

// noted is what the file says.
type noted struct {
	Tenure  string         `json:"tenure"`
	Group   string         `json:"group"`
	Members map[int]string `json:"members"` // by number: a member id
}

// NewMembers makes the file's owner; it reads and writes nothing.
func NewMembers(store *Store, group string) *Members {
	return &Members{store: store, group: group, wake: wait.NewWake(), now: map[int]string{}}
}

const (
	membersFile = "members.json"
	membersNext = "members.json.next"
)

// Left is which members the process before this one has had, by the number of each, if that is known and it has ended. It may be asked before Run.
func (m *Members) Left() map[int]string {
	tenure := m.tenure()
	if tenure == "" {
		return nil
	}
	files := m.store.files()
	file, err := files.Open(m.path(membersFile))
	if err != nil {
		return nil // there was none, or it had no disk
	}
	defer file.Close()
	var n noted
	if text, err := io.ReadAll(file); err != nil || json.Unmarshal(text, &n) != nil || n.Tenure != tenure || n.Group != m.group {
		return nil
	}
	return n.Members
}

// Note takes in the id that the member of a number has in the group. It does not wait for the disk.
func (m *Members) Note(number int, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now[number] != id {
		m.now[number] = id
		m.wake.Ask()
	}
}

// Run writes what was noted, until ctx ends. Where the disk does not take it, the next process waits until the session of this one has ended.
func (m *Members) Run(ctx context.Context) {
	for {
		select {
		case <-m.wake:
		case <-ctx.Done():
			return
		}
		if err := m.write(); err != nil {
			m.store.log.Debug("the members of this process were not noted beside the store", "error", err)
		}
	}
}

// write replaces the file. It is not synced: after a power loss sessions have ended before the machine is back.
func (m *Members) write() error {
	n := noted{Tenure: m.tenure(), Group: m.group}
	if n.Tenure == "" {
		return ErrNoStore
	}
	m.mu.Lock()
	n.Members = maps.Clone(m.now)
	m.mu.Unlock()
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode members: %w", err)
	}
	files := m.store.files()
	file, err := files.Create(m.path(membersNext), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := file.Write(text); err != nil {
		file.Close() // the first error tells more
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return files.Rename(m.path(membersNext), m.path(membersFile))
}

// tenure names the lock on the directory; empty: there is none that can be named.
func (m *Members) tenure() string {
	if store := m.store.Opened(); store != nil {
		return store.Tenure()
	}
	return ""
}

func (m *Members) path(name string) string {
	return m.store.files().PathJoin(m.store.Options.Dir, name)
}
