package standby

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/assignor"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/telling"
)

// allotment is of which partitions this replica is to keep standbys: what the group says of who owns what.
type allotment struct {
	*Env
	log       *slog.Logger             // says how many are kept of each partition
	kept      func() []picture.Standby // what there is of it
	wanted    []kafka.TopicPartition
	mine      map[kafka.TopicPartition]bool // what the group has given to this replica, whose lanes may not have heard of it
	ids       map[kafka.TopicPartition]kafka.TopicID
	silent    telling.Lasting // why the group cannot be described
	unknown   telling.Lasting // why topics cannot be looked up
	rebalance int64           // how many rebalances there had been when wanted was found
	evenedAt  time.Time
	evenPause time.Duration // until the group may be asked again
}

const (
	// allotInterval is how often the group is asked who owns what.
	allotInterval = 2 * time.Second
	// evenInterval is how soon the group is asked once more to even out what it left uneven; evenLast
	// is how much later that may become when it does not help.
	evenInterval = 10 * time.Second
	evenLast     = 10 * time.Minute
)

// allot finds out of which partitions a standby is wanted here.
func (a *allotment) allot(ctx context.Context, reader *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	rebalances := a.Rebalances.Load()
	view, err := assignor.Describe(ctx, reader, a.Group, a.Consumer)
	if err != nil {
		a.rebalance = rebalances // not again before its time
	}
	a.silent.Tell(a.log, err, "the group does not say who owns what; standbys stay as they are")
	if view == nil {
		return // it is being decided; what is there is as good as anything
	}
	wanted := a.saw(view, assignor.Replica(kafka.ClientID(reader), a.Instance))
	ids, err := kafka.TopicIDs(ctx, reader, wanted)
	if len(ids) == len(wanted) {
		err = nil
	}
	a.unknown.Tell(a.log, err, "topics of standbys cannot be looked up; asking again")
	if !slices.Equal(wanted, a.wanted) {
		a.log.Info("standbys allotted", "partitions", wanted)
	}
	a.wanted, a.ids, a.rebalance = wanted, ids, rebalances
}

// saw takes in who owns what, and returns of what this replica is to keep standbys.
func (a *allotment) saw(view *assignor.View, self string) []kafka.TopicPartition {
	a.mine = map[kafka.TopicPartition]bool{}
	for tp, owner := range view.Owners {
		a.mine[tp] = owner == self
	}
	a.even(view, self)
	for tp := range view.Owners {
		if r := a.Routes[tp.Topic]; r == nil || r.Delay > 0 {
			delete(view.Owners, tp) // a fixed-delay route has nothing to be warm
		}
	}
	return view.Allot(self, a.Copies)
}

// even asks for a rebalance when this replica has fewer partitions than its share and all of its
// standbys are warm: it was passed over when they were not.
func (a *allotment) even(view *assignor.View, self string) {
	if a.Consumer || !view.Uneven(self) {
		a.evenPause = evenInterval
		return
	}
	if time.Since(a.evenedAt) < a.evenPause {
		return
	}
	followed := a.kept()
	if len(followed) < len(a.wanted) || slices.ContainsFunc(followed, func(b picture.Standby) bool { return b.Offset-b.Position > assignor.NearlyAsWarm }) {
		return
	}
	// Where replicas do not read the same topics it may be as even as it can be.
	a.evenedAt, a.evenPause = time.Now(), min(2*a.evenPause, evenLast)
	a.log.Info("asking for a rebalance: others have more than their share")
	a.Uneven.Ask()
}
