package processor

import (
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
)

// kit is what a lane and the goroutines that it starts work with. It is complete before the first of them
// starts, and any of them may use all of it; what only the lane may touch is not in it.
type kit struct {
	p           *Processor
	cfg         *Config
	n           int
	writer      string // how the lane signs checkpoints; empty in at_least_once, which leaves nothing open
	log         *slog.Logger
	events      events
	coordinator *kafka.Coordinator
	reader      *kgo.Client
	quota       *producer.Quota
	wg          *sync.WaitGroup // goroutines that the lane has to wait for
	windowMax   int64           // ms
}
