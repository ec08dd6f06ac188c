package ahead

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// basis is what a partition is judged by: a checkpoint, and the parsers that it names.
type basis struct {
	env        Env
	checkpoint state.Checkpoint
	parsers    []parserFrom
	logStart   int64 // the log has lost what lies below
	queue      bool  // a fixed delay: records wait in the order of the log
}

// parserFrom is a parser that holds from an offset on.
type parserFrom struct {
	from   int64
	parser *topics.Parser
}

// take goes on with a checkpoint.
func (b *basis) take(c state.Checkpoint, high int64) error {
	last := ""
	if n := len(c.Parsers); n > 0 {
		last = c.Parsers[n-1].Spec
	}
	if b.env.Route != nil {
		c.Parsers = pending.ParsersOfToday(c, b.env.Route.Spec(), high)
		last = b.env.Route.Spec()
	} else if last == "" {
		c.Parsers = []state.ParserEpoch{{From: c.LowWater, Spec: topics.Spec(0)}}
	}
	parsers := make([]parserFrom, 0, len(c.Parsers))
	for _, e := range c.Parsers {
		of := topics.ParserFor
		if b.env.Route != nil {
			of = b.env.Route.ParserFor
		}
		parser, err := of(e.Spec)
		if err != nil {
			return err
		}
		parsers = append(parsers, parserFrom{e.From, parser})
	}
	b.checkpoint, b.parsers = c, parsers
	b.queue = topics.FixedDelay(last) && c.LowWater == c.Offset
	if !b.queue && c.GivenUp > 0 && c.LowWater == c.Offset && c.Watermark.Seq > c.Offset {
		b.checkpoint.Watermark = state.Key{} // a sighting: it says nothing of copies of what was given up
	}
	return nil
}

// Queue reports whether its records wait in the order of the log: a fixed delay.
func (b *basis) Queue() bool { return b.queue }

// Checkpoint is the one that counts, with the parser of today in it.
func (b *basis) Checkpoint() state.Checkpoint { return b.checkpoint }

// Parser is the one that holds for an offset.
func (b *basis) Parser(offset int64) *topics.Parser {
	for i := len(b.parsers) - 1; i > 0; i-- {
		if offset >= b.parsers[i].from {
			return b.parsers[i].parser
		}
	}
	return b.parsers[0].parser
}

// knows reports whether it is known which parser holds for an offset. Below the first one that the checkpoint names nothing is pending, so what
// held there is not told any more.
func (b *basis) knows(offset int64) bool {
	return offset >= min(b.parsers[0].from, b.checkpoint.LowWater)
}

// written is what a record counts by. In a queue one that is ahead of the clock counts as written when it was first seen in the log, of
// which the checkpoint tells.
func (b *basis) written(r *kgo.Record) topics.Stamp {
	stamp := topics.StampOf(r)
	if !b.queue {
		return stamp
	}
	since := b.env.Now
	if w := b.checkpoint.Watermark; w.Seq > b.checkpoint.Offset && r.Offset < w.Seq {
		since = min(w.Due, since)
	}
	if stamp.Millis > since+b.env.Skew {
		stamp.Millis = since
	}
	return stamp
}

// judge is what the configuration of today says of a request.
func (b *basis) judge(r *kgo.Record, q *topics.Request) *topics.Refusal {
	if b.env.Route == nil {
		return nil
	}
	return b.env.Route.Refuse(q, topics.JudgedAt(r, b.env.Now, b.env.Skew))
}

// passed reports whether the checkpoint says that a record is resolved.
func (b *basis) passed(e *entry, key state.Key) bool {
	if b.queue {
		return e.offset < b.checkpoint.Offset
	}
	return e.offset < b.checkpoint.Offset && !b.checkpoint.Watermark.Less(key)
}

// waits reports whether a record is pending, or late, and not resolved.
func (b *basis) waits(e *entry, key state.Key) bool {
	return e.condition == isHeld && !b.passed(e, key)
}

// rememberedUntil is the key up to which the id of a record is remembered that was delivered; zero: not at all.
func (b *basis) rememberedUntil(key state.Key) state.Key {
	return pending.StubOf(key, b.Parser(key.Seq).Remember())
}

// remembers reports whether a record was delivered, and its id is remembered.
func (b *basis) remembers(e *entry, key state.Key) bool {
	return (e.condition == isRemembered || e.condition == isHeld && b.passed(e, key)) && e.id != 0 &&
		b.checkpoint.Watermark.Less(b.rememberedUntil(key))
}
