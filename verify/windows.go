package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// findCuts: a delay topic holds what is pending.
func (s *survey) findCuts(keep int) Found {
	f := Found{Kind: kindCut}
	for _, p := range s.sortedDelays() {
		c := p.checkpoint
		said, first := "", c.low // that is gone
		switch {
		case !c.known:
		case p.began > c.low:
			said = fmt.Sprintf("the log begins at %d, and what is pending began at %d: pending records are gone", p.began, c.low)
		case c.offset > p.goal:
			said, first = fmt.Sprintf("the log ends at %d, and the group has read up to %d: the cluster has lost records", p.goal, c.offset), p.goal
		case p.hole.beyond > 0:
			said, first = fmt.Sprintf("the log has nothing at %d, and what is pending began there; it goes on at %d: pending records are gone, as compaction takes them", p.hole.low, p.hole.beyond), p.hole.low
		}
		if said == "" {
			continue
		}
		if f.Count++; len(f.First) < keep {
			f.First = append(f.First, Fault{Topic: p.topic, Partition: p.partition, Offset: first, Detail: said})
		}
	}
	return f
}

func (s *survey) sortedDelays() []*part {
	var all []*part
	for _, at := range sortedPlaces(s.delays) {
		all = append(all, s.delays[at])
	}
	return all
}

// windows says of each topic since when it can be told.
func (s *survey) windows() (all []Window) {
	for _, r := range s.routes {
		if s.away[r.Topic] != nil {
			continue
		}
		w, first := Window{Topic: r.Topic, Kind: "delay"}, int64(0)
		for _, p := range s.sortedDelays() {
			if p.topic != r.Topic {
				continue
			}
			w.Partitions++
			cut, since := p.start > 0 && p.from == p.start, max(p.first, 1) // one of 1970 is a request, too: 0 says that there are none
			w.Cut = w.Cut || cut
			switch {
			case p.first == unread:
			case p.first < 0:
				w.Undated = true
			case cut:
				w.Since = max(w.Since, since) // only from there on none of its partitions lacks something
			case first == 0 || since < first:
				first = since
			}
		}
		w.Since = cmp.Or(w.Since, first)
		all = append(all, w)
	}
	for _, name := range slices.Sorted(maps.Keys(s.topics)) {
		t := s.topics[name]
		if len(t.parts) == 0 || t.gone {
			continue
		}
		w := Window{Topic: name, Kind: "target", Partitions: len(t.parts)}
		if s.letters[name] {
			w.Kind = "dead_letter"
		}
		for _, p := range t.parts {
			w.Cut = w.Cut || p.shrunk
			if p.wholeSince == never {
				w.Unknown = true
			} else {
				w.Since = max(w.Since, p.wholeSince)
			}
		}
		all = append(all, w)
	}
	return all
}

// notes are what a person should know besides.
func (s *survey) notes(denied []string) (all []string) {
	note := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(s.topics)) {
		if s.topics[name].gone && s.letters[name] && !slices.Contains(denied, name) {
			note("the dead letter topic %s does not exist", name)
		}
	}
	for _, name := range denied {
		note("%s may not be looked at, so what lies there is not known", name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.compacted)) {
		note("%s is compacted, which removes requests before they are delivered: what it has removed cannot be told; set its cleanup.policy to delete", name)
	}
	none, unreadable, given := 0, 0, map[string]int{}
	for _, p := range s.sortedDelays() {
		if to := p.checkpoint.given; to != "" {
			given[to]++
		} else if p.checkpoint.foreign {
			unreadable++
		} else if !p.checkpoint.known && p.next > 0 {
			none++
		}
		if p.waits {
			note("%s/%d was read up to offset %d of %d: an open transaction keeps back the rest", p.topic, p.partition, p.next, p.goal)
		}
		if given := p.checkpoint.givenUp; given > 0 {
			note("%s/%d: the group has given up what was pending below offset %d, and the log or the checkpoint had lost (accept_loss, say): it is delivered only where a carried copy stands for it", p.topic, p.partition, given)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.topics)) {
		for _, p := range s.topics[name].parts {
			if p.waits {
				note("%s/%d was read up to offset %d of %d: an open transaction keeps back the rest", p.topic, p.partition, p.next, p.goal)
			}
		}
	}
	for _, to := range slices.Sorted(maps.Keys(given)) {
		note("the group has given the checkpoints of %d %s to group %q, which takes its place: ask for that one", given[to], plural(int64(given[to]), "partition", "partitions"), to)
	}
	if none > 0 {
		note("the group has no checkpoint of %d %s: of their requests none is missing, only overdue", none, plural(int64(none), "partition", "partitions"))
	}
	if unreadable > 0 {
		note("the checkpoints of %d %s cannot be read (another release wrote them, or a tool): of their requests none is missing, only overdue", unreadable, plural(int64(unreadable), "partition", "partitions"))
	}
	return all
}
