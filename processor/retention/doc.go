// Package retention keeps the logs of delay topics short, and what is pending in them from being deleted with their older part.
//
// A [Keeping] looks whether the settings of topics keep what is pending, a [Trimming] deletes what no checkpoint needs any more (KIP-107), and a [Carrier]
// for each lane finds what a lane has to write again at the end of a log, before retention deletes it or because it keeps a log long. Each is a
// goroutine of its own that touches nothing of a lane: what it knows of partitions are the pictures that lanes publish, what it finds out is in a [Topic],
// and what is to be copied it hands to the lane as an [Excerpt].
//
// DESIGN.md says more of it under "Carry" and "Trim".
package retention

import (
	"log/slog"
	"time"

	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/topics"
)

// Env is what all of them work with. It stays as it is when the first of them has begun.
type Env struct {
	Group          string
	AtLeastOnce    bool
	TrimInterval   time.Duration
	SessionTimeout time.Duration
	Lanes          int
	BatchRecords   int
	CarryRecords   int   // copies a second that all lanes together make
	CarryBytes     int64 // bytes a second of these

	Routes   map[string]*topics.Route
	Topics   map[string]*Topic
	Pictures func() []picture.Partition // of the partitions that this process has
	Now      func() int64               // ms, by the clock that records are delivered by
	Settings wait.Wake                  // asked to look at the settings of topics soon
	Log      *slog.Logger
}
