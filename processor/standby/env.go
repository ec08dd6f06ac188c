package standby

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/topics"
)

// Env is what the standbys of a process work with. None of it belongs to a goroutine.
type Env struct {
	Group          string
	Instance       string
	Consumer       bool // the broker shares partitions out (KIP-848), and evens out by itself
	Copies         int  // how many are kept of each partition, each by another replica
	SessionTimeout time.Duration
	Routes         map[string]*topics.Route // by delay topic
	Store          *local.Store
	Assigned       *picture.Set // what lanes of this process have
	Epochs         *kafka.Epochs
	Rebalances     *atomic.Int64 // how many there have been: who owns what is asked for anew
	Uneven         wait.Wake     // asked for a rebalance
	Log            *slog.Logger
}
