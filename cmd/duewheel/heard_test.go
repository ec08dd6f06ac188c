package main

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// heard is what a command has printed so far. It may be used by several goroutines.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{} // closed when more is printed; nil: that is not waited for
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.more != nil {
		close(h.more)
		h.more = nil
	}
	return h.text.Write(b)
}

func (h *heard) String() string {
	text, _ := h.sofar()
	return text
}

// sofar is what was printed, and what is closed when there is more.
func (h *heard) sofar() (text string, more <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.more == nil {
		h.more = make(chan struct{})
	}
	return h.text.String(), h.more
}

// await waits until something of each form was printed, and returns what the last group of the last form has matched.
func (h *heard) await(t *testing.T, forms ...string) (found string) {
	t.Helper()
	for _, form := range forms {
		is, late := regexp.MustCompile(form), time.After(2*patience)
		for found = ""; ; {
			text, more := h.sofar()
			if all := is.FindStringSubmatch(text); all != nil {
				found = all[len(all)-1]
				break
			}
			select {
			case <-more:
			case <-late:
				t.Fatalf("no %q in\n%s", form, text[max(0, len(text)-4000):])
			}
		}
	}
	return found
}

// await looks until nothing is missing. What is waited for is done by other processes, which cannot say so.
func await(t *testing.T, missing func() string) {
	t.Helper()
	for end := time.Now().Add(2 * patience); ; time.Sleep(20 * time.Millisecond) {
		what := missing()
		if what == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}
