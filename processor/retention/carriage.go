package retention

import (
	"fmt"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/picture"
)

// carriage is how far the carrying of a partition has come.
type carriage struct {
	tp     kafka.TopicPartition
	id     kafka.TopicID
	since  time.Time // when the partition's stay began: in another one its log may be shorter, and have been written on
	low    int64     // L, when it was last looked at
	end    int64     // where the log ended before it was asked how old it is
	next   int64     // what lies below was read, and what of it was pending and could be carried was copied
	old    int64     // what lies below this offset is older than half of what the topic keeps
	ageing int64     // and than three quarters
	most   int       // copies in one turn
	seeks  bool      // a copy was refused, and it is not known yet which
	weight int64     // bytes that an offset takes in the log, as far as it was read
	rests  time.Time
	failed int       // in a row
	ahead  []int64   // from where on was carried for the length of the log, when L has not passed that yet
	why    error     // nothing could be carried the last time
	fails  time.Time // since when that is so; zero: something could, or nothing is to be
	stuck  string    // why some record is not carried
	again  time.Time // when that is tried again; zero: that has been done
}

// upTo is the offset below which is to be carried.
func (g *carriage) upTo(long bool, p picture.Partition) int64 {
	if long {
		return p.Offset
	}
	return min(g.old, p.Offset)
}

// reason says what may be the reason that carrying is behind, and what to do. throttled: a quota has kept it waiting lately. loses: why the topic loses what is pending.
func (g *carriage) reason(p picture.Partition, throttled bool, loses string) string {
	switch {
	case p.Phase != picture.Live:
		return "nothing is carried before the partition is live: " + p.Reason
	case p.HeldBack != "":
		return p.HeldBack
	case g.stuck != "":
		return g.stuck
	case g.why != nil:
		return fmt.Sprintf("carrying fails: %v", g.why)
	case loses != "": // what is gone cannot be carried
		return loses
	case throttled:
		return "a quota of the brokers slows it down: raise that (producer_byte_rate, request_percentage), or retention.ms"
	}
	return "raise retention.ms, or carry_records and carry_bytes, unless all replicas were away for long"
}
