package retention

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
)

// Excerpt is what a carrier has read of a partition's log, in the order of the log. The lane copies what of it is pending there, in one of
// its turns, and answers what became of that. One without records asks where in a stretch of the log something is pending; the lane says so at once.
type Excerpt struct {
	TP      kafka.TopicPartition
	ID      kafka.TopicID
	From    int64 // the stretch: From is in it, UpTo is not
	UpTo    int64
	Records []*kgo.Record

	Most      int   // copies in one turn, or offsets that are told
	MostBytes int   // about so much is copied in one turn
	Suspect   bool  // brokers have refused one of what is to be copied
	Spares    int64 // ms: what is due within that time is not worth a copy
	Answer    chan Copied
}

// Copied is what became of an excerpt.
type Copied struct {
	Wanted []int64 // where something is pending: the first of the stretch
	Read   int     // so many of its records are done with
	Copies int
	Bytes  int64
	Unfit  *int64 // the offset of one that the topic does not take with two headers more

	Err     error  // nothing was copied
	Refused *int64 // for what a record is: the offset of the first that was to be copied
}
