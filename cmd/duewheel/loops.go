package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/topics"
)

// fewestTrips is how often a record must have come to a retry topic without the number of its attempt to say that a consumer takes that off. Once is
// how it begins, and who replays what was parked begins anew.
const fewestTrips = 4

// trips counts what comes to a retry topic again and again as if for the first time.
type trips struct {
	route *topics.Route
	of    map[[sha256.Size]byte]int // by key and value

	most int
	key  string // of the record that came most often
}

func (s *trips) add(r *kgo.Record) {
	q, err := s.route.Parser().Parse(r.Headers, topics.StampOf(r), r.Offset, topics.NewMark([4]byte{}, "", r.Partition))
	if err != nil || q.Kind != topics.KindRequest || q.Round > 0 || len(r.Key) == 0 || len(r.Value) == 0 {
		return
	}
	for _, h := range r.Headers {
		if h.Key == topics.HeaderRetry || h.Key == topics.HeaderSeq { // written by duewheel, of a record that was counted
			return
		}
	}
	name := sha256.Sum256(slices.Concat(binary.BigEndian.AppendUint64(nil, uint64(len(r.Key))), r.Key, r.Value))
	if s.of[name]++; s.of[name] > s.most {
		s.most, s.key = s.of[name], string(r.Key)
	}
}

func (s *trips) problem() (topics.Problem, bool) {
	attempt := s.route.Header(topics.HeaderAttempt)
	return topics.Problem{
		Severity: topics.Warning,
		Topic:    s.route.Topic,
		What:     fmt.Sprintf("one record (key %s) has come %d times without %s", shownID(s.key), s.most, attempt),
		Why:      "a consumer seems to drop the headers of what it gives up: attempts are counted anew each time, and nothing is ever parked",
		Mend:     "have the consumer write all headers of the record as they are, " + attempt + " among them (docs/retries.md)",
	}, s.most >= fewestTrips
}

// sharedTargets notes each target of a retry route that several groups read: what goes back is read by all of them. Targets of patterns are not
// looked for, and groups that may not be described are left out.
func sharedTargets(ctx context.Context, adm *patient, own string, want topics.Expect) ([]topics.Problem, error) {
	var found []topics.Problem
	targets := map[string]bool{}
	for _, r := range want.Routes {
		for _, target := range append(slices.Clone(r.Allow), r.Target) {
			if r.Retry != nil && target != "" && !strings.Contains(target, "*") {
				targets[target] = true
			}
		}
	}
	if len(targets) == 0 {
		return nil, nil
	}
	listed, err := patiently(ctx, adm, func(ctx context.Context) (kadm.ListedGroups, error) { return kafka.Listed(ctx, adm.Client) })
	if err != nil {
		return nil, err
	}
	groups := slices.DeleteFunc(listed.Groups(), func(g string) bool { return g == own })
	committed, _ := kafka.Committed(ctx, adm.Client, groups, kafka.RequestTimeout)
	for _, target := range sorted(targets) {
		readers := slices.DeleteFunc(slices.Sorted(slices.Values(groups)), func(g string) bool { return !reads(committed[g][target]) })
		if len(readers) > 1 {
			found = append(found, topics.Problem{
				Severity: topics.Note,
				Topic:    target,
				What:     "groups " + brief([]byte(strings.Join(readers, ", ")), 200) + " read it",
				Why:      "what goes back to it from a retry topic is read again by all of them, also by those that did not fail",
				Mend:     "give each group a target of its own for what comes back (retry.target), or tell records apart by delay-source",
			})
		}
	}
	return found, ctx.Err()
}

// reads tells whether a group has offsets of a topic.
func reads(committed map[int32]kadm.OffsetResponse) bool {
	for _, o := range committed {
		if o.Err == nil && o.At >= 0 {
			return true
		}
	}
	return false
}
