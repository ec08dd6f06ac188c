package processor

import (
	"fmt"
	"time"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/wait"
)

// room is what there is for pending records.
func (l *lane) room() pending.Room {
	return pending.Room{Window: l.window, Most: l.windowMax, Budget: l.nearBudget, Used: l.nearBytes, Share: l.nearBudget / int64(max(len(l.parts), 1))}
}

// balance keeps the near records inside the budget: the window shrinks and its far end goes to
// the store; it widens again when there is room. A live partition that still holds too much
// pauses reading. One that is not live never does, since nothing would drain it.
func (l *lane) balance(now int64) error {
	l.nearBytes = 0
	for _, p := range l.parts {
		if p.opened() {
			l.nearBytes += p.Memory()
		}
	}
	switch {
	case l.nearBytes > l.nearBudget:
		if l.window > pending.LeastWindow {
			l.window = max(l.window/2, pending.LeastWindow)
		}
		for _, p := range l.parts {
			if !p.opened() {
				continue
			}
			if err := p.Fit(now, l.room()); err != nil {
				return err
			}
		}
	case l.nearBytes < l.nearBudget/4 && l.window < l.windowMax:
		l.window = min(2*l.window, l.windowMax)
	}
	l.throttle(now)
	return nil
}

// restReading leaves a partition alone for a while that brokers do not let be read. What was read before
// is as good as ever, and is delivered.
func (l *lane) restReading(p *partition, why error) {
	rest := max(p.refusals.Failed(), wait.LeastRest)
	if p.unread == nil {
		l.log.Warn("partition cannot be read; trying again", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", why)
	}
	p.unread = fmt.Errorf("cannot be read: %w", why)
	p.resting = time.Now().Add(rest)
}

// throttle pauses and resumes reading, partition by partition.
func (l *lane) throttle(now int64) {
	pause, resume := map[string][]int32{}, map[string][]int32{}
	room := l.room()
	for _, p := range l.parts {
		want := p.opened() && p.Full(now, room)
		if want = want || time.Now().Before(p.resting); want == p.paused {
			continue
		}
		p.paused = want
		if want {
			pause[p.tp.Topic] = append(pause[p.tp.Topic], p.tp.Partition)
		} else {
			resume[p.tp.Topic] = append(resume[p.tp.Topic], p.tp.Partition)
		}
	}
	if len(pause) > 0 {
		l.reader.PauseFetchPartitions(pause)
	}
	if len(resume) > 0 {
		l.reader.ResumeFetchPartitions(resume)
	}
}
