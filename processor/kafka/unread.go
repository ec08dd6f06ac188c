package kafka

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/wait"
)

// Unread is how it stands with a partition that brokers do not let be read. A reader is told of every refusal
// (kgo.KeepRetryableFetchErrors): left to itself, the client would fetch again at once as long as the broker has another partition that
// is well, some thousand times a second. So its owner has a refused partition rest, and wants its leader looked up meanwhile: most
// refusals are over as soon as another one is known.
//
// It belongs to the goroutine that polls. The zero value has not been refused.
type Unread struct {
	tries   wait.Backoff
	n       int       // refusals without a rest between that went well
	since   time.Time // of the first of them
	until   time.Time // how long it rests; one that is over may be long ago
	asked   time.Time // since when it is asked for again; before until: not yet
	looked  time.Time // when its leader was last asked for
	why     error     // the last of them; nil: it is well
	told    bool      // by News
	refused leader    // by which one
}

// leader is what a client knows of who leads a partition.
type leader struct {
	node, epoch int32
	err         string
}

// Leaders is what a client knows of leaders: a *kgo.Client.
type Leaders interface {
	PartitionLeader(topic string, partition int32) (node, epoch int32, err error)
	ForceMetadataRefresh()
}

var _ Leaders = (*kgo.Client)(nil)

const (
	// lookAgain is how often the leader of a partition is looked up that rests.
	lookAgain = 250 * time.Millisecond
	// wellAgain is how long a partition is asked for after a rest, and not refused again, until it is well. A broker refuses at once.
	wellAgain = time.Second
	// goneAfter is how often in a row a topic is not known by its id before it is gone: one that is new, or has moved, is not known by
	// every broker at first.
	goneAfter = 6
)

// Refused notes that a fetch was refused. What is told while the partition rests was under way, or is what the client has learned of
// its leader, and says nothing new.
func (u *Unread) Refused(cl Leaders, tp TopicPartition, why error) {
	now := time.Now()
	if u.why = why; now.Before(u.until) {
		return
	}
	if u.n == 0 {
		u.since = now
	}
	u.n++
	u.refused, u.looked = leaderOf(cl, tp), now // the client looks it up by itself
	u.until = now.Add(u.tries.Failed())
}

// Hear is Refused, and reports what follows: the topic is gone, or there is News.
func (u *Unread) Hear(cl Leaders, tp TopicPartition, why error, lasting time.Duration) (gone bool, news error) {
	u.Refused(cl, tp, why)
	if u.Gone() {
		return true, nil
	}
	return false, u.News(lasting)
}

// Read notes that the partition was read.
func (u *Unread) Read() { u.n, u.why, u.told, u.until = 0, nil, false, time.Time{} }

// Rests reports whether a partition is not to be asked for. One whose leader has changed is, since it was another one that has refused.
func (u *Unread) Rests(cl Leaders, tp TopicPartition) bool {
	if u.why == nil {
		return false
	}
	now := time.Now()
	if !now.Before(u.until) {
		if u.asked.Before(u.until) {
			u.asked = now
		}
		if now.Sub(u.asked) > wellAgain {
			u.Read()
		}
		return false
	}
	if leaderOf(cl, tp) != u.refused {
		u.until = now
		return false
	}
	if now.Sub(u.looked) >= lookAgain {
		u.looked = now
		cl.ForceMetadataRefresh() // one request, for however many partitions
	}
	return true
}

func leaderOf(cl Leaders, tp TopicPartition) leader {
	node, epoch, err := cl.PartitionLeader(tp.Topic, tp.Partition)
	l := leader{node: node, epoch: epoch}
	if err != nil {
		l.err = err.Error()
	}
	return l
}

// Why is why the partition cannot be read, as far as it is worth telling; nil is that it can, for all that is known. What mends itself,
// as when leaders move, is told of when it has lasted for so long.
func (u *Unread) Why(lasting time.Duration) error {
	if u.why != nil && kerr.IsRetriable(u.why) && time.Since(u.since) < lasting {
		return nil
	}
	return u.why
}

// News is Why for the log, which is told once until the partition is well again.
func (u *Unread) News(lasting time.Duration) error {
	why := u.Why(lasting)
	if why == nil || u.told {
		return nil
	}
	u.told = true
	return why
}

// Gone reports that brokers go on saying that the topic is another one, or none (KIP-516).
func (u *Unread) Gone() bool { return u.n >= goneAfter && errors.Is(u.why, kerr.UnknownTopicID) }
