package pending

import (
	"errors"
	"slices"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// parsers are the parsers of a checkpoint, in the order of the offsets from which they hold
// (design rule 10).
type parsers []parserFrom

type parserFrom struct {
	from   int64
	parser *topics.Parser
}

// ErrNoParser: an owner that finds such a checkpoint names its own parser in it.
var ErrNoParser = errors.New("pending: the checkpoint names no parser")

func parsersOf(route *topics.Route, c state.Checkpoint) (parsers, error) {
	var out parsers
	for _, e := range c.Parsers {
		parser, err := route.ParserFor(e.Spec)
		if err != nil {
			return nil, err
		}
		out = append(out, parserFrom{e.From, parser})
	}
	if len(out) == 0 {
		return nil, ErrNoParser
	}
	return out, nil
}

func (ps parsers) at(offset int64) *topics.Parser {
	for i := len(ps) - 1; i > 0; i-- {
		if offset >= ps[i].from {
			return ps[i].parser
		}
	}
	return ps[0].parser
}

// ParsersOfToday are the parsers of a checkpoint when spec is to hold from now on. A checkpoint of an owner that had transactions says what that has done. Of any
// other one an owner may have acted on what lies above O: at least once, or where the checkpoint is that of a store, or was reset.
func ParsersOfToday(c state.Checkpoint, spec string, end int64) []state.ParserEpoch {
	if c.Writer == "" {
		return WithParserAtLeastOnce(c, spec, end)
	}
	return WithParser(c, spec, end)
}

// WithParser returns the parsers of a checkpoint when spec is to hold from now on. That is from its
// offset on, as nothing above has been accepted, or from the beginning where a checkpoint without
// any says what was given up; but what waits in a queue lies there, so a queue goes on with the
// parser that it was written for up to the end of the log. What would hold from there by an earlier
// configuration never held for any record.
func WithParser(c state.Checkpoint, spec string, end int64) []state.ParserEpoch {
	return holdToday(c, spec, end, func(string) string { return spec })
}

// WithParserAtLeastOnce is WithParser where an owner may have acted on what lies above O. It may have delivered a record, or refused it, beside one
// whose place that takes by the configuration of today; a replay would take that one away, and nothing would be delivered of either. So what lies in the
// log takes the place of no other that it did not take by the configuration before.
func WithParserAtLeastOnce(c state.Checkpoint, spec string, end int64) []state.ParserEpoch {
	if c.Offset >= end {
		return WithParser(c, spec, end)
	}
	out := holdToday(c, spec, end, func(former string) string { return topics.NamingAs(former, spec) })
	return holding(out, max(end, out[len(out)-1].From), spec)
}

// holdToday has what today makes of a spec hold from O on in the place of that.
func holdToday(c state.Checkpoint, spec string, end int64, today func(former string) string) []state.ParserEpoch {
	n := len(c.Parsers)
	switch {
	case n == 0 && c.GivenUp > 0:
		return []state.ParserEpoch{{From: 0, Spec: spec}} // what lies below is gone, and copies of it may lie above: it is read by this parser, too
	case n == 0:
		return []state.ParserEpoch{{From: c.Offset, Spec: spec}}
	}
	last := c.Parsers[n-1]
	switch {
	case last.Spec == spec:
		return slices.Clone(c.Parsers)
	case topics.FixedDelay(last.Spec) && c.LowWater == c.Offset:
		return holding(slices.Clone(c.Parsers), max(end, last.From), spec)
	}
	var out []state.ParserEpoch
	for i, e := range c.Parsers {
		as := today(e.Spec)
		if i < n-1 {
			if c.Parsers[i+1].From <= c.Offset || topics.FixedDelay(e.Spec) { // it ends before, or what was written for it waits in a queue
				out = append(out, e)
				continue
			}
		}
		if e.From < c.Offset {
			out = append(out, e)
		}
		out = holding(out, max(e.From, c.Offset), as)
	}
	return out
}

// holding are parsers of which another one holds from an offset on.
func holding(ps []state.ParserEpoch, from int64, spec string) []state.ParserEpoch {
	n := len(ps)
	for ; n > 0 && ps[n-1].From >= from; n-- {
	}
	if n > 0 && ps[n-1].Spec == spec {
		return ps[:n]
	}
	return append(ps[:n], state.ParserEpoch{From: from, Spec: spec})
}
