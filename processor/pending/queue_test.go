package pending

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// queueOf is an empty queue of a fixed delay, in ms, where clocks may differ by half a second.
func queueOf(delay time.Duration) *queue {
	r := testRoute(true)
	r.Target, r.Delay = "orders", delay*time.Millisecond
	return &queue{env: &Env{Route: mustRoute(r), Skew: 500}}
}

// A timestamp that is ahead of the clock counts as the time at which the record was first seen in
// the log.
func TestQueueStamp(t *testing.T) {
	q := queueOf(100 * sightings)
	q.begin(state.Checkpoint{Offset: 3, Watermark: state.Key{Due: 1000, Seq: 10}}, Sighting{})
	q.sight(Sighting{End: 20, At: 5000})
	q.sight(Sighting{End: 30, At: 5050}) // too soon after the one before
	q.sight(Sighting{End: 40, At: 9000})
	q.sight(Sighting{End: 40, At: 9500}) // nothing new
	const now, ahead = 12_000, 500
	for _, c := range []struct {
		name       string
		offset, is int64
		want       int64
	}{
		{"of the past", 5, 200, 200},
		{"a little ahead", 5, 1500, 1500},
		{"ahead of what the checkpoint saw", 5, 1501, 1000},
		{"the last that it saw", 9, 1 << 40, 1000},
		{"seen next", 10, 1 << 40, 5000},
		{"of then", 10, 4900, 4900},
		{"seen later", 20, 1 << 40, 9000},
		{"never seen before", 40, 1 << 40, now},
		{"a little ahead of now", 40, now + ahead, now + ahead},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &kgo.Record{Offset: c.offset, Timestamp: time.UnixMilli(c.is)}
			equal(t, "stamp", q.written(r, now).Millis, c.want)
		})
	}
	empty := queueOf(100 * sightings)
	empty.begin(state.Checkpoint{Offset: 10, Watermark: state.Key{Due: 1000, Seq: 10}}, Sighting{End: 10, At: 2000})
	equal(t, "of a checkpoint that has seen nothing more", empty.written(&kgo.Record{Offset: 10, Timestamp: time.UnixMilli(1 << 40)}, now).Millis, now)
}

// What was written after a log was cut is not taken for what was sighted where it lies now.
func TestQueueStampBehindACut(t *testing.T) {
	const now = 20_000
	begin := func() *queue {
		q := queueOf(100 * sightings)
		q.begin(state.Checkpoint{Offset: 3, Watermark: state.Key{Due: 1000, Seq: 10}}, Sighting{End: 20, At: 2000, Epoch: 4})
		q.sight(Sighting{End: 30, At: 4000, Epoch: 5})
		q.sight(Sighting{End: 40, At: 6000, Epoch: -1})
		return q
	}
	for _, c := range []struct {
		name   string
		offset int64
		epoch  int32
		want   int64
	}{
		{"what the checkpoint saw", 3, 4, 1000},
		{"after what the owner has begun with", 3, 5, 4000},
		{"after the last that is known", 3, 6, 6000},
		{"seen next", 10, 4, 2000},
		{"whose epoch is not known", 10, -1, 2000},
		{"behind all", 40, 6, now},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &kgo.Record{Offset: c.offset, Timestamp: time.UnixMilli(1 << 40), LeaderEpoch: c.epoch}
			equal(t, "stamp", begin().written(r, now).Millis, c.want)
		})
	}
}

// A checkpoint keeps its sighting until O has reached it, and then takes the latest.
func TestQueueKeepsItsSighting(t *testing.T) {
	q := queueOf(sightings)
	at := func(offset int64, w, want state.Key) {
		t.Helper()
		equal(t, "W", q.seen(w, offset), want)
	}
	none := state.Key{}
	at(0, none, none)
	q.sight(Sighting{End: 10, At: 1000})
	q.sight(Sighting{End: 20, At: 2000})
	at(0, none, state.Key{Due: 2000, Seq: 20})
	q.sight(Sighting{End: 30, At: 3000})
	at(19, state.Key{Due: 2000, Seq: 20}, state.Key{Due: 2000, Seq: 20})
	at(20, state.Key{Due: 2000, Seq: 20}, state.Key{Due: 3000, Seq: 30})
	at(20, state.Key{Due: 4000, Seq: 5}, state.Key{Due: 4000, Seq: 5}) // W never goes back
	at(30, state.Key{Due: 3000, Seq: 30}, state.Key{Due: 3000, Seq: 30})
	equal(t, "sightings that are kept", len(q.sightings), 0)
}

// However long a queue is, there is a bounded number of sightings within its delay.
func TestQueueSightingsAreFew(t *testing.T) {
	l := testOwner(t)
	r := testRoute(true)
	r.Target, r.Delay = "orders", time.Hour
	l.route = mustRoute(r)
	p := l.live(t)
	for i := range int64(3600) {
		p.Sight(Sighting{End: i + 1, At: testNow + 1000*i})
	}
	if n := len(p.order.(*queue).sightings); n > sightings+1 || n < sightings-1 {
		t.Errorf("%d sightings in an hour", n)
	}
}

// The claim of a queue says what is in the log, as its owner may not live until its first checkpoint.
func TestQueueClaimsWhatItSees(t *testing.T) {
	l := testOwner(t)
	r := testRoute(true)
	r.Target, r.Delay = "orders", time.Hour
	l.route = mustRoute(r)
	p, err := l.assign(state.Checkpoint{Offset: 2, LowWater: 2, Parsers: []state.ParserEpoch{{Spec: p1Hour}}}, 0, 7, 7)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "W", p.committed.Watermark, state.Key{Due: testNow, Seq: 7})
}

const p1Hour = "p1+3600000"

// A queue forgets when the log was seen to reach up to where it has read: it may be read for months, and each record asks.
func TestQueueForgetsWhatItHasPassed(t *testing.T) {
	q := queueOf(sightings)
	q.begin(state.Checkpoint{}, Sighting{})
	for i := range int64(10_000) {
		q.sight(Sighting{End: i + 1, At: 10 * i})
		r := &kgo.Record{Offset: i, Timestamp: time.UnixMilli(10 * i)}
		equal(t, "stamp", q.written(r, 10*i).Millis, 10*i)
	}
	if n := len(q.sightings); n > 1 {
		t.Errorf("%d sightings are kept", n)
	}
}

// A copy of what was given up is refused once, where nothing says that its record is resolved; any other is passed over.
func TestQueueRefusesCopies(t *testing.T) {
	const below = 5
	copies := []topics.Copy{{Seq: 1, From: 1, Due: 100}, {Seq: 2, From: 3, Due: 200}, {Seq: 3, From: 3, Due: 300}, {Seq: 2, From: 4, Due: 200}, {Seq: 4, From: below, Due: 400}}
	q := queueOf(1000)
	q.near, q.lost.below = newNear(), below
	must(t, q.resolve(state.Key{Due: 100, Seq: 1}, -1))
	for i, c := range copies {
		q.copied(&kgo.Record{Offset: below + int64(i)}, c)
	}
	must(t, q.resolve(state.Key{Due: 300, Seq: 3}, -1))
	must(t, q.resolve(state.Key{Due: 400, Seq: 4}, -1))
	must(t, q.resolve(state.Key{Due: 201, Seq: 2}, -1)) // of what lay there when it was due at another time
	items, _ := q.take(0, q.near, nil, 10, anyBytes)
	var got []string
	for _, it := range items {
		got = append(got, fmt.Sprint(it.Offset, it.Key.Seq, it.Effect, it.Refusal != nil))
	}
	equals(t, "taken", got, []string{"6 2 none true", "7 3 stale false"})
}

// A queue that holds enough for the near window is full, also behind a record that was refused, which has no due time; it goes on being full until half of that is left.
func TestQueueFullBehindARefusal(t *testing.T) {
	const delay = 10_000
	room := Room{Most: delay / 2, Share: 1 << 30}
	for _, c := range []struct {
		name string
		last func(q *queue, offset int64)
	}{
		{"a record", func(q *queue, offset int64) { q.hold(recordAt(offset), held{key: state.Key{Due: delay, Seq: offset}}) }},
		{"a refused one", func(q *queue, offset int64) { q.refuse(recordAt(offset), &topics.Refusal{}) }},
	} {
		q := queueOf(delay)
		q.near = newNear()
		for offset := range int64(1001) {
			equal(t, "full below the bound", q.fill(0, room, false), false)
			q.hold(recordAt(offset), held{key: state.Key{Due: delay, Seq: offset}})
		}
		c.last(q, 1001)
		equal(t, "full behind "+c.name, q.fill(0, room, false), true)
		equal(t, "full behind "+c.name+" when it is nearer", q.fill(delay*3/5, room, true), true)
		equal(t, "full behind "+c.name+" when it is near", q.fill(delay*4/5, room, true), false)
	}
}

func recordAt(offset int64) *kgo.Record { return &kgo.Record{Offset: offset} }
