package pending

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// The same with routes of every kind, one after the other: for retries, with a fixed delay, with an expiry; with cancels that other partitions have passed
// on or that are passed on from here, and with records that are tried again. (Design rule 10.)
func TestReplayIsDeterministicWhateverTheRoute(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { replaysOf(t, rand.New(rand.NewPCG(seed, 3)), seen) })
	}
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("followed/", seed), func(t *testing.T) { replaysFollowed(t, rand.New(rand.NewPCG(seed, 78)), seen) })
	}
	for _, kind := range kindsOfReplays {
		if seen[kind] < 50 {
			t.Errorf("%s: seen %d times", kind, seen[kind])
		}
	}
}

var kindsOfReplays = []string{
	"a retry route", "a retry route with another pause", "a fixed delay", "a queue and keys, one after the other", "a fixed delay, and keys are pending", "expire_after",
	"a cancel from another partition, by a handle", "a cancel from another partition, by an id", "a cancel that another group has passed on", "a cancel for another partition",
	"taken away by what was passed on", "an attempt", "attempts are exhausted", "a record of which it is not known when it came", "it is tried again", "an expiry", "expired", "what is tried again asks for the same",
}

func (r *replaying) note(kind string) {
	if r.seen != nil {
		r.seen[kind]++
	}
}

// otherKind makes a route one of a kind that does not go by what records say, or leaves it as it is.
func (r *replaying) otherKind(route *topics.Route) bool {
	if r.seen == nil {
		return false
	}
	if r.IntN(3) == 0 {
		route.ExpireAfter = time.Duration(1+r.IntN(1500)) * time.Millisecond
		r.note("expire_after")
	}
	switch r.IntN(5) {
	case 0, 1:
		b := topics.Backoff{Initial: time.Duration(300+600*r.IntN(2)) * time.Millisecond, Factor: 2, Max: 5 * time.Second}
		r.note("a retry route")
		if b.Initial > 300*time.Millisecond {
			b.Jitter = 0.2
			r.note("a retry route with another pause")
		}
		route.Retry = &topics.Retrying{Backoff: b, MaxAttempts: 1 + r.IntN(3)}
	case 2:
		route.Delay = time.Duration(500+1000*r.IntN(3)) * time.Millisecond
		r.note("a fixed delay")
		if r.p != nil && !r.p.Ordered() && r.p.ledger.Len() > 0 {
			r.note("a fixed delay, and keys are pending")
		}
	default:
		return false
	}
	return true
}

// otherRequest makes a record one that a consumer has failed to process, that other partitions have written, or that expires; true: it is whole.
func (r *replaying) otherRequest(rec *kgo.Record) bool {
	if r.seen == nil {
		return false
	}
	rec.Timestamp = time.UnixMilli(r.now - int64(r.IntN(400)))
	if r.IntN(10) == 0 {
		rec.Timestamp = time.UnixMilli(r.now + int64(r.IntN(3000))) // by a clock that is ahead
	}
	if r.IntN(2) == 0 {
		rec.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1})
	} else if r.l.route.Retry != nil {
		r.note("a record of which it is not known when it came")
	}
	set := func(name, value string) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	switch r.IntN(8) {
	case 0:
		set(topics.HeaderExpires, strconv.FormatInt(r.now+int64(r.IntN(6000)), 10))
		r.note("an expiry")
	case 1, 2:
		set(topics.HeaderAttempt, strconv.Itoa(1+r.IntN(4)))
		r.note("an attempt")
	case 3:
		set(topics.HeaderTargetKey, "t")
		set(topics.HeaderTargetPartition, "2")
	}
	switch r.IntN(8) {
	case 0, 1: // what is pending, or was lately
		set(topics.HeaderCancel, r.handle().String())
		r.prefixed(rec)
		r.passOn(rec, "a cancel from another partition, by a handle")
	case 2:
		set(topics.HeaderCancel, fmt.Sprintf("k%d", r.IntN(6)))
		r.prefixed(rec)
		r.passOn(rec, "a cancel from another partition, by an id")
	case 3:
		h := r.handle()
		h.Partition = elsewherePartition
		set(topics.HeaderCancel, h.String())
		r.prefixed(rec)
		r.note("a cancel for another partition")
	case 4:
		set(topics.HeaderCancel, r.handle().String())
		r.prefixed(rec)
	default:
		return false
	}
	return true
}

// handle is that of something that is pending, if anything is.
func (r *replaying) handle() topics.Handle {
	h := topics.Handle{Partition: testID.Partition, Offset: int64(r.IntN(len(r.log) + 1)), Due: r.now}
	if len(r.keys) > 0 {
		k := r.keys[r.IntN(len(r.keys))]
		h.Offset, h.Due = k.Seq, k.Due-r.p.parsers.at(k.Seq).Jitter(testMark, k.Seq)
	}
	return h
}

// passOn has a cancel be written by the owner of another partition, of this group or of another one.
func (r *replaying) passOn(rec *kgo.Record, kind string) {
	mark := testMark
	if r.IntN(4) == 0 {
		mark, kind = topics.NewMark([4]byte(testID.TopicID[:4]), "another", testID.Partition), "a cancel that another group has passed on"
	}
	rec.Headers, _ = topics.AppendForward(nil, rec.Headers, mark, elsewherePartition, 7, r.now-int64(r.IntN(800)), nil)
	r.note(kind)
}

// triedAgain is what a turn appends in the place of a record of which it is not known when it came, or whose target is in trouble.
func (r *replaying) triedAgain(pt *Part, it *Item) *kgo.Record {
	if r.seen == nil || r.p.Ordered() || !deliverable(it) {
		return nil
	}
	rec, req := r.read(it)
	if req == nil || !r.l.route.Allowed(req.Target) || !req.AtOnce && r.IntN(8) > 0 {
		return nil
	}
	r.note("it is tried again")
	written, last, retried := testMark.Written(rec.Headers, rec.Offset)
	next := topics.Retry{Due: r.now + 200 + int64(r.IntN(3000)), Attempt: last.Attempt + 1, Origin: last.Origin, Names: topics.NamesOf(pt.ParserOf(rec))}
	if !retried {
		next.Origin = topics.Origin{Offset: rec.Offset, Timestamp: rec.Timestamp, Due: it.Key.Due}
	}
	again := &kgo.Record{Topic: testTopic, Partition: testID.Partition, Key: rec.Key, Value: rec.Value, Timestamp: time.UnixMilli(r.now)}
	again.Headers, _ = topics.AppendRetry(nil, written, testMark, next, nil)
	return again
}

// read reads a record again that is to be resolved; nil: that is not known any more.
func (r *replaying) read(it *Item) (*Record, *topics.Request) {
	rec, req := &Record{}, &topics.Request{}
	must(r.T, rec.Decode(bytes.Clone(it.Run)))
	if r.p.RequestOf(req, it, rec) != nil {
		return rec, nil
	}
	return rec, req
}

// expired reports whether a turn finds that a record is of no use any more, and takes note of what has become of others.
func (r *replaying) expired(it *Item) bool {
	switch {
	case r.seen == nil:
		return false
	case it.Effect == EffectCancelled && r.passedOn(it.Offset):
		r.note("taken away by what was passed on")
	case it.Refusal != nil && it.Refusal.Code == topics.CodeExhausted:
		r.note("attempts are exhausted")
	}
	if !deliverable(it) {
		return false
	}
	_, req := r.read(it)
	if req == nil || r.l.route.Expired(req, it.Key.Due, r.now) == nil {
		return false
	}
	r.note("expired")
	return true
}

func (r *replaying) passedOn(offset int64) bool {
	headers := r.log[offset].Headers
	return len(headers) > 0 && headers[len(headers)-1].Key == topics.HeaderForwarded
}
