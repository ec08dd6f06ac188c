package retention

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
)

// vain is since when brokers have been asked in vain for what has to be known of topics. One goroutine owns it.
type vain struct {
	since map[string]time.Time
	said  map[string]bool
}

// Unsaid is for how long it may be asked in vain, or something be as it should not be, before that is said.
const Unsaid = 5 * time.Minute

func newVain() vain { return vain{map[string]time.Time{}, map[string]bool{}} }

// failed notes that it was in vain once more, and reports whether that is to be said: once, when it has lasted, or at once if only a person can mend it.
func (v *vain) failed(topic string, err error) bool {
	if _, fails := v.since[topic]; !fails {
		v.since[topic] = time.Now()
	}
	if v.said[topic] || time.Since(v.since[topic]) < Unsaid && kafka.VerdictOf(err) != kafka.Stop {
		return false
	}
	v.said[topic] = true
	return true
}

// over notes that it was answered, or is not asked any more.
func (v *vain) over(topic string) {
	delete(v.since, topic)
	delete(v.said, topic)
}

// apart asks of all topics at once, and where that fails for any other reason than time, of each by itself: what fails of one says nothing of the others. Each answer
// may take as long as patience.
func apart[T any](ctx context.Context, patience time.Duration, names []string, ask func(context.Context, []string) (map[string]T, error)) (all map[string]T, why map[string]error) {
	within := func(names []string) (map[string]T, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return ask(ctx, names)
	}
	all, why = map[string]T{}, map[string]error{}
	if len(names) == 0 {
		return all, why
	}
	got, err := within(names)
	if err == nil {
		return got, why
	}
	alone := len(names) > 1 && !errors.Is(err, context.DeadlineExceeded)
	for _, name := range names {
		if alone {
			got, err = within([]string{name})
		}
		if err != nil {
			why[name] = err
		} else {
			maps.Copy(all, got)
		}
	}
	return all, why
}
