package producer

import (
	"context"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// behind is how far the epochs of a writer's ids are behind what partitions know of them.
type behind struct {
	times int  // in a row that one was refused
	told  bool // of it
}

// Behind notes that a partition knows a newer epoch of the id than its coordinator has given. Where nobody else has asked for the id, the brokers have lost
// what coordinators wrote last (an unclean leader election of __transaction_state, power loss), and the epochs of as many transactions, since each of them
// takes one (transaction.version 2). What is given is refused until as many were given again. So it is with all ids of the writer.
func (p *Producer) Behind() {
	s := p.cfg.Spare
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind.times++
}

// inTime notes that partitions have taken what one id was given. The others may be a little further behind.
func (s *Spare) inTime() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behind.times--; s.behind.times <= 0 {
		s.behind = behind{}
	}
}

// more is how many more epochs to ask for: four times as many each time that one was refused. How many were lost only partitions could say, to who may read them.
func (s *Spare) more() (n int, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behind.times == 0 {
		return 0, false
	}
	tell = s.behind.times > 1 && !s.behind.told // the first time it may have been another one that has asked for the id
	s.behind.told = s.behind.told || tell
	return 1 << min(2*s.behind.times, 15), tell
}

const (
	catchUpPause = 30 * time.Millisecond // between two epochs
	catchUpMost  = 4 * time.Second       // is asked for them, and then it is tried what they are worth
)

// catchUp asks for more epochs where they are behind.
func (p *Producer) catchUp(ctx context.Context) error {
	if p.cfg.Spare == nil {
		return nil
	}
	n, tell := p.cfg.Spare.more()
	if tell {
		p.cfg.Log.Warn("partitions know newer epochs of transactional ids than their coordinators give, which have lost them (an unclean leader election of __transaction_state, power loss); they are asked for more until partitions take what is written", "id", p.id)
	}
	for began := time.Now(); n > 0 && time.Since(began) < catchUpMost && wait.For(ctx, catchUpPause); n-- {
		if _, err := kafka.AskForEpoch(ctx, p.next, p.id, p.cfg.Timeout, kafka.BusyAfter); err != nil {
			return err
		}
	}
	return nil
}
