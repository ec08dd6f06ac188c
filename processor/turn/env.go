package turn

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/clock"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/targets"
)

// Env is what the turns of a lane work with. None of it belongs to a goroutine.
type Env struct {
	AtLeastOnce        bool // else each turn is a transaction
	Group              string
	Instance           string // that dead letters name
	AuditTopic         string // "": nothing is audited
	TurnTimeout        time.Duration
	TransactionTimeout time.Duration
	RetryBackoff       time.Duration // of what is appended again: the first pause
	RetryBackoffMax    time.Duration
	Clock              *clock.Clock
	Targets            *targets.Table
	Coordinator        *kafka.Coordinator
	Reader             *kgo.Client // commits without a transaction
	Quota              *producer.Quota
	Count              func(*Turn) // counts what has been delivered
}
