package main

import (
	"context"
	"fmt"
	"time"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/processor"
)

const (
	// takeoverLimit is how long the partitions of a killed replica may take to be delivered from again.
	takeoverLimit = 30 * time.Second
	// demoGrace is how long what is due may take until it is seen.
	demoGrace = 10 * time.Second
)

// takeover is a replica that is killed, and what becomes of its partitions. It is guarded by the mu of the watch.
type takeover struct {
	victim string
	began  time.Time                               // when it was killed
	gone   time.Time                               // when its process was: what is due later is not its any more
	back   map[processor.TopicPartition]*time.Time // its partitions, and when each was delivered from again; nil: not yet
	over   time.Time                               // when all were; zero: not yet

	fell  int           // how many records of them came due between kill and return, and have come since
	worst time.Duration // how late the latest of them was
	// report is the checker's, of all that was due until it was over; nil: not yet.
	report *check.Report
}

// delivered takes in a delivery, and tells whether it was held up by the takeover. A nil takeover holds up nothing.
func (t *takeover) delivered(from check.Source, due int64, now time.Time) bool {
	if t == nil {
		return false
	}
	of := processor.TopicPartition{Topic: from.Topic, Partition: from.Partition}
	back, concerned := t.back[of]
	if !concerned || now.Before(t.began) || !t.over.IsZero() && due > t.over.UnixMilli() {
		return false
	}
	t.fell++
	t.worst = max(t.worst, now.Sub(time.UnixMilli(due)))
	if back == nil && !t.gone.IsZero() && due > t.gone.UnixMilli() {
		t.returned(of, now)
	}
	return true
}

func (t *takeover) returned(of processor.TopicPartition, at time.Time) {
	t.back[of] = &at
	for _, back := range t.back {
		if back == nil {
			return
		}
	}
	t.over = at
}

// verdict is what was found, such as "0 lost, 0 doubled, back in 2.4 s", and whether all is well.
func (t *takeover) verdict() (text string, well bool) {
	text = fmt.Sprintf("%s lost, %s doubled, back in %.1f s", thousands(t.report.Count(check.Missing)), thousands(t.report.Count(check.Doubled)), t.over.Sub(t.began).Seconds())
	if others := t.report.Faults - t.report.Count(check.Missing) - t.report.Count(check.Doubled); others > 0 {
		text += fmt.Sprintf(", %s", count(others, "other fault"))
	}
	return text, t.report.Faults == 0
}

// kill kills a replica, waits until its partitions are delivered from again, and has judged what was due until then. What is wrong with the records is told by the verdict; the error tells that there is none.
func (d *demo) kill(ctx context.Context) error {
	if !d.killing.TryLock() {
		return errOne
	}
	defer d.killing.Unlock()
	victim, partitions, err := d.crew.choose()
	if err != nil {
		return err
	}
	t := &takeover{victim: victim.name, began: time.Now(), back: map[processor.TopicPartition]*time.Time{}}
	for _, tp := range partitions {
		t.back[tp] = nil
	}
	d.watch.mu.Lock()
	d.watch.takeover = t
	d.watch.mu.Unlock()
	d.tell(storyKill, "replica %s is killed (kill -9), with %s of %s", victim.name, count(int64(len(partitions)), "partition"), demoRequests)
	d.crew.kill(victim)
	d.watch.mu.Lock()
	t.gone = time.Now()
	d.watch.mu.Unlock()
	if err := d.awaitReturn(ctx, t, victim); err != nil {
		return err
	}
	report := d.watch.judge(t.over, demoGrace)
	d.watch.mu.Lock()
	t.report = report
	d.watch.takeovers++
	if report.Faults > 0 {
		d.watch.badTakeovers++
	}
	fell, worst := t.fell, t.worst
	d.watch.mu.Unlock()
	text, _ := t.verdict()
	d.tell(storyKill, "%s\nreplica %s killed; %s came due meanwhile, at most %.1f s late", text, victim.name, count(int64(fell), "record"), worst.Seconds())
	return nil
}

// awaitReturn waits until each partition is delivered from again, or is live elsewhere when nothing of it has come due.
func (d *demo) awaitReturn(ctx context.Context, t *takeover, victim *member) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(takeoverLimit); ; {
		d.watch.mu.Lock()
		over := !t.over.IsZero()
		var open []processor.TopicPartition
		for tp, back := range t.back {
			if back == nil {
				open = append(open, tp)
			}
		}
		d.watch.mu.Unlock()
		switch {
		case over:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("replica %s was killed, and after %v nothing is delivered of %v", t.victim, takeoverLimit, open)
		}
		for _, tp := range open {
			if since, live := d.crew.liveSince(tp, victim); live && !d.watch.overdue(tp, t.gone, time.Now()) {
				d.watch.mu.Lock()
				if t.back[tp] == nil {
					t.returned(tp, since)
				}
				d.watch.mu.Unlock()
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
