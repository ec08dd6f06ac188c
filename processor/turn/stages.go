package turn

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// Some records of a turn wait until others have been acknowledged. So a turn sends in stages, and each waits for all of those before it.
const (
	stageRecords = iota
	stageAudit   // what is told of those, and where they lie
	// Resolve records of at_least_once. Each must not be there before the dead letter that it stands for: after a crash between the two the
	// record might be pending again, and would be taken for resolved. What is told of the dead letter goes before it for the same reason.
	stageResolve
	lastStage = stageResolve
)

// stage is which one an output belongs to.
func (t *Turn) stage(o *Output) int {
	switch {
	case o.Kind == OutAudit && (o.Of != nil || o.Event != topics.AuditAccepted && t.AtLeastOnce):
		return stageAudit
	case o.Kind == OutResolve && t.AtLeastOnce:
		return stageResolve
	}
	return stageRecords
}

// follower is a record of a later stage.
type follower struct {
	rec *kgo.Record
	of  *kgo.Record // of an earlier stage; not nil: it tells where that lies
}

func (f follower) complete() {
	if f.of != nil {
		f.rec.Value = topics.AppendPlace(f.rec.Value, topics.Place{Partition: f.of.Partition, Offset: f.of.Offset})
	}
}

// rounds are the followers of a stage, those together that go together.
type rounds [][]follower

func (rs rounds) add(f follower, n int) rounds {
	if n == len(rs) {
		rs = append(rs, nil)
	}
	rs[n] = append(rs[n], f)
	return rs
}

func (rs rounds) len() (n int) {
	for _, r := range rs {
		n += len(r)
	}
	return n
}

// sendStages sends one stage after the other, each when those before it have been acknowledged.
func sendStages(ctx context.Context, cl *kgo.Client, stages []rounds, w *acks) {
	for stage, all := range stages {
		if len(all) == 0 {
			continue
		}
		if ctx.Err() != nil || !w.sends(stage, stages) {
			return
		}
		for _, round := range all {
			for _, f := range round {
				cl.Produce(context.Background(), f.rec, w.promise)
			}
			if cl.Flush(ctx) != nil { // what it brings is promised
				return
			}
		}
	}
}
