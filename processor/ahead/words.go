package ahead

import (
	"hash/maphash"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// words stand for what records say: numbers for the names of targets, hashes for ids.
type words struct {
	targets []string
	places  map[string]int32 // of targets
	seed    maphash.Seed
}

// hash stands for an id; 0 is none.
func (w *words) hash(id []byte) uint64 {
	if id == nil {
		return 0
	}
	return max(maphash.Bytes(w.seed, id), 1)
}

// mostTargets is how many names are told apart. A producer may make up any.
const mostTargets = 100_000

func (w *words) target(name []byte) int32 {
	if place, has := w.places[string(name)]; has {
		return place
	}
	text := string(name)
	if len(w.targets) >= mostTargets {
		if text = "(others)"; w.places[text] > 0 {
			return w.places[text]
		}
	}
	place := int32(len(w.targets))
	w.targets, w.places[text] = append(w.targets, text), place
	return place
}

func (w *words) questionOf(r *kgo.Record, q *topics.Request, what What) question {
	about := question{offset: r.Offset, writtenBy: q.WrittenBy, what: what, at: r.Timestamp.UnixMilli()}
	switch {
	case q.NamedID != nil:
		about.id = w.hash(q.NamedID)
	case what == Cancels || q.Replaces:
		about.names = state.Key{Due: q.Handle.Due, Seq: q.Handle.Offset}
	default:
		about.id = w.hash(q.ID)
	}
	return about
}
