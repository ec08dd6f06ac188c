package turn

import (
	"slices"

	"github.com/duewheel/duewheel/processor/kafka"
)

// chain passes Appended on to the later part of a partition, whose checkpoint alone is committed: without it a takeover would not look for the
// records that the first part has appended.
func (t *Turn) chain() {
	if len(t.Joining) == 0 {
		return
	}
	appended := map[kafka.TopicPartition]bool{}
	for _, pt := range t.Tried { // the first part of a partition comes first
		pt.To.Appended = pt.To.Appended || appended[pt.TP]
		appended[pt.TP] = pt.To.Appended
	}
}

// Lasts returns the last part of each partition that is tried. Only its checkpoint is committed; it covers the parts before it.
func (t *Turn) Lasts() []*Part {
	if len(t.Joining) == 0 {
		return t.Tried
	}
	later := map[kafka.TopicPartition]*Part{}
	for _, pt := range t.Tried {
		later[pt.TP] = pt
	}
	return slices.DeleteFunc(slices.Clone(t.Tried), func(pt *Part) bool { return later[pt.TP] != pt })
}

// Brought is how much a turn has brought to the brokers: all of it, or what was acknowledged before
// it was given up. When that is nothing, it says no more than that all of it was too much.
func (t *Turn) Brought() (records int, bytes int64) {
	for _, pt := range t.Tried {
		n, size := pt.Weigh()
		records, bytes = records+n, bytes+size
		if pt.Copies != nil {
			records, bytes = records+pt.Copies.Done.Copies, bytes+pt.Copies.Done.Bytes
		}
	}
	if t.Outcome == Aborted && t.Acked > 0 {
		records, bytes = max(int(t.Acked*float64(records)), 1), max(int64(t.Acked*float64(bytes)), 1)
	}
	return records, bytes
}
