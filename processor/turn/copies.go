package turn

import (
	"context"
	"iter"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/topics"
)

// Copies are what a part of a turn appends to the partition: it carries what they are copied from.
type Copies struct {
	Owner any // who wants them made, and is told what became of that
	List  []Original
	Done  Copied
}

// Copied is what became of the records that were looked at for copies.
type Copied struct {
	Read   int // so many are done with
	Copies int
	Bytes  int64
	Unfit  *int64 // the offset of one that the topic does not take with two headers more
}

// Original is a record that is carried.
type Original struct {
	From    *kgo.Record
	Written []kgo.RecordHeader // as it was written first
	As      topics.Copy
	item    pending.Item // what was learned of the copy
}

// Made are the copies of a list.
func (cs *Copies) Made() iter.Seq[topics.Copy] {
	return func(yield func(topics.Copy) bool) {
		for i := range cs.List {
			if !yield(cs.List[i].As) {
				return
			}
		}
	}
}

// render renders the copies of a part: all that its topic takes.
func (cs *Copies) render(ctx context.Context, r *Renderer, pt *Part) error {
	t, st, err := r.delayTopic(ctx, pt)
	if err != nil {
		return err
	}
	cs.Done.Copies, cs.Done.Bytes, cs.Done.Unfit = 0, 0, nil
	for i := range cs.List {
		c, out := &cs.List[i], r.newRecord()
		out.Topic, out.Partition, out.Key, out.Value = t.Name, pt.TP.Partition, c.From.Key, c.From.Value
		headers, buf := topics.AppendCopy(r.headers, c.Written, pt.Mark, c.As, r.buf)
		size := sealed(r, out, headers, buf)
		if _, ok := r.fits(out, size, st); !ok {
			r.drop(out)
			cs.Done.Unfit = &c.From.Offset
			continue
		}
		cs.Done.Copies, cs.Done.Bytes = cs.Done.Copies+1, cs.Done.Bytes+int64(size)
		r.Outputs = append(r.Outputs, Output{Record: out, Kind: OutCopy, Item: &c.item, Part: pt, Size: size})
	}
	return nil
}
