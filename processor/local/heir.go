package local

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Heir goes on from a checkpoint with what the store holds of a partition: a lane that restores it, or a standby of it.
type Heir struct {
	TP     kafka.TopicPartition
	Route  *topics.Route
	Store  *state.Partition
	Reader *kgo.Client // asks where leader epochs end
	Epochs *kafka.Epochs
	Cut    int64        // the O that was committed, where the log was cut below it and is gone on with; else 0
	Log    *slog.Logger // with the partition's name
}

// ForgetLost empties a store that holds what the log has lost since, and been written on: by offsets alone it would fit a checkpoint, and be taken for what
// is there now. holds is an epoch of which it is known that the log has it up to O; high is a high watermark that was heard.
func (h *Heir) ForgetLost(ctx context.Context, c state.Checkpoint, holds int32, high int64) error {
	pos, ok := h.Store.Position()
	if !ok || pos.Epoch == holds || !pending.Fits(pos, c) {
		return nil
	}
	until, lost, err := h.Epochs.Lost(ctx, h.Reader, h.TP, pos.Epoch, pos.Offset, high)
	if err != nil || !lost {
		return err
	}
	h.Log.Warn("the local store holds records that the log has lost; rebuilding the partition from the log", "offset", pos.Offset, "log_until", until)
	return h.Store.Drop()
}

// Inherit is what the store spares, and says why it is of no use, if it is not. It may take long, and ends with ctx.
func (h *Heir) Inherit(ctx context.Context, c state.Checkpoint, logStart, logEnd int64) (pending.Inherited, error) {
	pos, _ := h.Store.Position()
	got, err := pending.Inherit(ctx.Err, h.Route, h.Store, c, logStart, logEnd)
	if err == nil && got.Unused != nil {
		got.Leads = got.Leads && (pos.Offset > h.Cut || c.Watermark.Less(pos.Watermark)) // else it is the checkpoint that is gone on from that is lower
		h.tell(got)
	}
	return got, err
}

func (h *Heir) tell(got pending.Inherited) {
	level := slog.LevelInfo
	switch {
	case got.Lagged:
		level = slog.LevelDebug
	case got.Leads:
		h.Log.Error("the committed offset has gone back: it was set back, or the brokers have lost offsets (unclean leader election, power loss, or a restored broker); what was delivered since comes again", "error", got.Unused)
		return
	}
	h.Log.Log(context.Background(), level, "the local store is of no use for a partition; rebuilding that from the log", "error", got.Unused)
}
