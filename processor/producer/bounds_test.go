package producer

import (
	"strings"
	"testing"

	"github.com/duewheel/duewheel/processor/kafka"
)

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// A client keeps to the bound that it was told; one for larger records is given to the next.
func TestBoundsOutgrown(t *testing.T) {
	takes := int32(1000)
	b := NewBounds(func(string) int32 { return takes })
	equal(t, "at first", b.Least("orders"), 1000)
	equal(t, "told", b.of("orders"), 1000)
	takes = 500
	equal(t, "remembered", b.of("orders"), 1000)
	equal(t, "remembered", b.Least("orders"), 1000)
	equal(t, "the client remembers less", b.Outgrow("orders"), true)
	equal(t, "the client has not asked yet", b.Outgrow("bills"), false)
	equal(t, "of the same client", b.of("orders"), 1000)
	equal(t, "topics of the client", strings.Join(b.Told(), " "), "orders")
	b.forget()
	equal(t, "topics of the next", len(b.Told()), 0)
	equal(t, "of the next", b.Least("orders"), kafka.LargestBatch)
	equal(t, "of the next", b.of("orders"), kafka.LargestBatch)
	equal(t, "of another", b.of("bills"), kafka.LargestBatch)
	equal(t, "of a third", b.of("users"), 500)
}
