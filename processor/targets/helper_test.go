package targets

import (
	"slices"
	"testing"

	"github.com/duewheel/duewheel/processor/kafka"
)

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func equals[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s are %v, want %v", what, got, want)
	}
}

// unseen is who nothing is told of leaders.
func unseen(string, map[int32]kafka.Leader) {}
