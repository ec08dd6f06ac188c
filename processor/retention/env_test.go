package retention

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/topics"
)

const testTopic = "delays"

// testEnv is that of group g, which has no partition.
func testEnv(routes map[string]*topics.Route) *Env {
	env := &Env{
		Group: "g", TrimInterval: time.Minute, Routes: routes, Topics: map[string]*Topic{}, Settings: wait.NewWake(), Log: slog.New(slog.DiscardHandler),
		Pictures: func() []picture.Partition { return nil },
	}
	for topic := range routes {
		env.Topics[topic] = &Topic{}
	}
	return env
}

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
