package main

import (
	"fmt"
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
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(b)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// await waits until something of each form was printed, and returns what the last group of the last form has matched.
func (h *heard) await(t *testing.T, forms ...string) (found string) {
	t.Helper()
	for _, form := range forms {
		is := regexp.MustCompile(form)
		await(t, func() string {
			text := h.String()
			if all := is.FindStringSubmatch(text); all != nil {
				found = all[len(all)-1]
				return ""
			}
			return fmt.Sprintf("no %q in\n%s", form, text[max(0, len(text)-4000):])
		})
	}
	return found
}

// await looks until nothing is missing. Most of what is waited for is done by other processes, which cannot say so.
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
