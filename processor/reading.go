package processor

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/pending"
)

// reading is what the lane's reader reads. It looks for records on a goroutine of its own, one poll at
// a time. Partitions come and go between two polls, so that nothing from before turns up after.
type reading struct {
	cl      *kgo.Client
	wg      *sync.WaitGroup
	fetched chan kgo.Fetches
	polling bool
	resting bool // some partition is left alone because brokers refuse it
	waiting bool // the store has no room for what would be read
	endPoll context.CancelFunc
}

// poll lets the reader look for records, unless it does, or there is no room for them in the store; they arrive on fetched.
func (r *reading) poll(ctx context.Context, room bool) {
	if r.waiting = !room && !r.polling; r.polling || r.waiting {
		return
	}
	ctx, r.endPoll = context.WithCancel(ctx)
	r.polling = true
	r.wg.Go(func() { r.fetched <- kafka.PollSome(ctx, r.cl) })
}

// stop ends a poll, and returns what it has found.
func (r *reading) stop() (fs kgo.Fetches, polled bool) {
	if !r.polling {
		return nil, false
	}
	r.endPoll()
	fs = <-r.fetched
	r.ended()
	return fs, true
}

// ended notes that what a poll has found was received.
func (r *reading) ended() {
	r.polling = false
	r.endPoll()
}

// add reads a partition from an offset on, which lies in the log of a leader epoch: where that log has been given up, the client says so (kgo.ErrDataLoss).
func (r *reading) add(tp kafka.TopicPartition, from int64, epoch int32) {
	r.cl.RemoveConsumePartitions(tp.Alone()) // else the client goes on where it was
	r.cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{tp.Topic: {tp.Partition: kgo.NewOffset().At(from).WithEpoch(epoch)}})
}

// remove reads partitions no more, and knows of no pause of theirs.
func (r *reading) remove(tps map[string][]int32) {
	r.cl.RemoveConsumePartitions(tps)
	r.cl.ResumeFetchPartitions(tps)
}

// forget gives up the id by which the client knows a topic.
func (r *reading) forget(topic string) { r.cl.PurgeTopicsFromConsuming(topic) }

// announce has the client ask for the metadata of topics that it does not know, while partitions of
// them are restored. A partition that is added before its leader is known is read a second later:
// the client asks any broker for its offsets, and rests when it is the wrong one.
func (r *reading) announce(tps []kafka.TopicPartition) {
	known := r.cl.GetConsumeTopics()
	add := map[string]map[int32]kgo.Offset{}
	remove := map[string][]int32{}
	for _, tp := range tps {
		if !slices.Contains(known, tp.Topic) && add[tp.Topic] == nil {
			add[tp.Topic] = map[int32]kgo.Offset{tp.Partition: kgo.NewOffset().At(0)}
			remove[tp.Topic] = []int32{tp.Partition}
		}
	}
	if len(add) > 0 {
		r.cl.AddConsumePartitions(add) // there is no other way to name a topic
		r.cl.RemoveConsumePartitions(remove)
	}
}

// pause is how soon throttle or poll has to look again: a rest ends as soon as another leader is known, and the client does not say when.
func (r *reading) pause() time.Duration {
	switch {
	case r.waiting:
		return local.RoomPause
	case r.resting:
		return 10 * time.Millisecond
	}
	return time.Hour
}

// throttle pauses and resumes reading, partition by partition.
func (r *reading) throttle(ps []*partition, now int64, room pending.Room) {
	pause, resume := map[string][]int32{}, map[string][]int32{}
	r.resting = false
	for _, p := range ps {
		rests := p.unread.Rests(r.cl, p.tp)
		r.resting = r.resting || rests
		want := rests || p.opened() && p.Full(now, room) || !p.beheaded.IsZero()
		if want == p.paused {
			continue
		}
		p.paused = want
		if want {
			pause[p.tp.Topic] = append(pause[p.tp.Topic], p.tp.Partition)
		} else {
			resume[p.tp.Topic] = append(resume[p.tp.Topic], p.tp.Partition)
		}
	}
	if len(pause) > 0 {
		r.cl.PauseFetchPartitions(pause)
	}
	if len(resume) > 0 {
		r.cl.ResumeFetchPartitions(resume)
	}
}
