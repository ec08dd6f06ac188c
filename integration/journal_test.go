package integration

import (
	"bytes"
	"os"
	"slices"
	"sync"
	"testing"
)

// journal takes what processors log. It is shown when the test has failed, or with DUEWHEEL_TEST_LOG=1: its end at once, all of it
// in a file.
type journal struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// journalTail is how much of a journal is shown.
const journalTail = 12 << 10

func newJournal(t *testing.T) *journal {
	j := &journal{}
	t.Cleanup(func() {
		if t.Failed() || os.Getenv("DUEWHEEL_TEST_LOG") != "" {
			j.show(t)
		}
	})
	return j
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.Write(b)
}

// text is all that was written.
func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.String()
}

// count is how many lines have all of these words.
func (j *journal) count(words ...string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range bytes.Lines(j.all.Bytes()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !bytes.Contains(line, []byte(word)) }) {
			n++
		}
	}
	return n
}

func (j *journal) show(t *testing.T) {
	j.mu.Lock()
	defer j.mu.Unlock()
	file, err := os.CreateTemp("", "duewheel-integration-*.log")
	if err != nil {
		t.Log(err)
		return
	}
	defer file.Close()
	if _, err := file.Write(j.all.Bytes()); err != nil {
		t.Log(err)
	}
	tail := j.all.Bytes()
	if n := len(tail) - journalTail; n > 0 {
		tail = tail[n:]
		tail = tail[bytes.IndexByte(tail, '\n')+1:]
	}
	t.Logf("the processors' log is in %s; it ends:\n%s", file.Name(), tail)
}
