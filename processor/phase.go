package processor

import "github.com/duewheel/duewheel/processor/picture"

// Phase is where a partition stands between being assigned and being given up.
type Phase = picture.Phase

// The phases.
const (
	PhaseRestoring = picture.Restoring
	PhaseCatchUp   = picture.CatchUp
	PhaseLive      = picture.Live
	PhaseStopped   = picture.Stopped
)

// PartitionStats is what is known of one assigned partition.
type PartitionStats = picture.Partition

// AgendaEntry says how many pending records are due within a time from now.
type AgendaEntry = picture.AgendaEntry
