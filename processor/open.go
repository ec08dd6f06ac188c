package processor

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
)

// openTransaction is what is known of transactions that are open in a partition's log, of producers or of replicas. Nothing from the
// last stable offset on, where the oldest of them begins, can be read before it ends (KIP-98). Where there are many short ones that
// offset is below the high watermark nearly always, and moves; so what counts is for how long it stands still there.
type openTransaction struct {
	at     int64     // the last stable offset
	behind int64     // offsets from there to the high watermark; 0: no transaction is open
	since  time.Time // when it was first asked for and was there
	asked  time.Time // when it was last asked for
	told   time.Time // since when the one is open of which the log tells; zero: it tells of none
	toldAt time.Time
}

// openToldEvery is how often the log tells of an open transaction of a partition at most. There are producers whose transactions are
// all long, one after the other.
const openToldEvery = 10 * time.Minute

// hear takes in where the log ends, as it was asked for at a time.
func (o *openTransaction) hear(b kafka.Bounds, asked time.Time) {
	if b.Stable != o.at || o.behind == 0 {
		o.at, o.since = b.Stable, asked
	}
	o.behind, o.asked = b.High-b.Stable, asked
}

// read takes in that the log has been read up to an offset: what was open below has ended.
func (o *openTransaction) read(position int64) {
	if passed := position - o.at; passed > 0 {
		o.at, o.behind, o.since = position, max(o.behind-passed, 0), time.Now()
	}
}

// lasts is for how long at least one has been open; 0: none is, for all that is known.
func (o *openTransaction) lasts() time.Duration {
	if o.behind == 0 {
		return 0
	}
	return max(o.asked.Sub(o.since), 0)
}

// words say of one that lasts what it means, and what to do.
func (o *openTransaction) words(tp kafka.TopicPartition) string {
	return fmt.Sprintf("a transaction has been open in %s since offset %d for %v or longer, a producer's or a replica's, and nothing behind it (%d offsets) can be read before it ends: "+
		"`kafka-transactions.sh describe-producers --topic %s --partition %d` says whose it is, and `find-hanging` whether it never will",
		tp, o.at, o.lasts().Round(time.Second), o.behind, tp.Topic, tp.Partition)
}

// tell has the log tell of one when it has lasted for so long, and when it is over. It reports what it has told: that one has ended, and what is to be said of one.
func (o *openTransaction) tell(log *slog.Logger, tp kafka.TopicPartition, lasting time.Duration) (ended bool, why string) {
	if !o.told.IsZero() && (o.behind == 0 || !o.told.Equal(o.since)) {
		log.Info("the transaction has ended that was open in a delay topic, and what was behind it can be read", "after", time.Since(o.told).Round(time.Second))
		o.told, ended = time.Time{}, true
	}
	if o.told.IsZero() && o.lasts() > lasting && time.Since(o.toldAt) >= openToldEvery {
		o.told, o.toldAt = o.since, time.Now()
		why = o.words(tp)
		log.Warn("a transaction is open in a delay topic, and holds up what is behind it", "offset", o.at, "behind", o.behind, "why", why)
	}
	return ended, why
}
