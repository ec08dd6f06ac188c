package telling

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/topics"
)

const (
	// sayEvery is how often one reason for dead letters is worth a line in the log: a producer that sends
	// nothing else shows within a minute, and does not fill the disk.
	sayEvery = time.Minute
	// sayCheck bounds how long after that the last of a flood is told.
	sayCheck = 10 * time.Second
	// maxReasons bounds what is kept of reasons: a header's name is up to who writes the record.
	maxReasons = 100
)

// DeadLetters counts what was written to dead letter topics, and tells people why: each reason at
// once, and then once a minute with a count. Lanes add, every goroutine may read.
type DeadLetters struct {
	log *slog.Logger

	mu      sync.Mutex
	totals  map[deadLetterLabels]int64
	reasons map[deadLetterReason]*deadLetterNews
}

// DeadLetterCount counts the records of a delay topic that were dead-lettered for one reason.
type DeadLetterCount struct {
	Topic   string
	Code    string
	Records int64
}

type deadLetterLabels struct {
	topic string
	code  topics.Code
}

// deadLetterReason is what one line of the log is about.
type deadLetterReason struct {
	deadLetterLabels
	header string // to blame; empty: none
}

// deadLetterNews is what has happened for a reason since the last line.
type deadLetterNews struct {
	records int64
	cut     int64     // of them are not whole
	since   time.Time // of the last line, and at first of the first record
	example string    // of the last record
	box     string    // where that is; one for each reason, since a code has one
	told    int64     // by the last line
}

// NewDeadLetters has counted nothing yet.
func NewDeadLetters(log *slog.Logger) *DeadLetters {
	return &DeadLetters{log: log, totals: map[deadLetterLabels]int64{}, reasons: map[deadLetterReason]*deadLetterNews{}}
}

// Bear begins to count for a delay topic.
func (d *DeadLetters) Bear(topic string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, code := range topics.Codes {
		d.totals[deadLetterLabels{topic, code}] = 0
	}
}

// Add counts the record at an offset of a delay topic, which has just been written to the topic box,
// a dead letter topic or where its route parks, or what fits of it.
func (d *DeadLetters) Add(tp kafka.TopicPartition, offset int64, box string, refusal *topics.Refusal, cut bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	reason := deadLetterReason{deadLetterLabels{tp.Topic, refusal.Code}, refusal.Header}
	d.totals[reason.deadLetterLabels]++
	n := d.reasons[reason]
	if n == nil {
		if len(d.reasons) >= maxReasons {
			reason.header = "(others)"
			n = d.reasons[reason]
		}
		if n == nil {
			n = &deadLetterNews{since: now.Add(-sayEvery)}
			d.reasons[reason] = n
		}
	}
	n.records++
	if cut {
		n.cut++
	}
	n.box = box
	n.example = fmt.Sprintf("%s@%d: %s", tp, offset, refusal.Message)
	d.tell(reason, n, now)
}

// tell writes a line for a reason whose time has come. mu is held.
func (d *DeadLetters) tell(reason deadLetterReason, n *deadLetterNews, now time.Time) {
	if n.records == 0 || now.Sub(n.since) < sayEvery {
		return
	}
	args := []any{"topic", reason.topic, "code", reason.code}
	if reason.header != "" {
		args = append(args, "header", reason.header)
	}
	if n.cut > 0 {
		args = append(args, "cut_to_fit", n.cut)
	}
	d.log.Warn("records cannot be delivered; they were put aside", append(args, "in", n.box, "records", n.records, "example", n.example)...)
	n.told, n.records, n.cut, n.since = n.records, 0, 0, now
}

// Run tells what has come since, and forgets what comes no more, until ctx ends; then it tells the rest.
func (d *DeadLetters) Run(ctx context.Context) {
	ticker := time.NewTicker(sayCheck)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			d.review(now)
		case <-ctx.Done():
			d.review(time.Now().Add(sayEvery))
			return
		}
	}
}

func (d *DeadLetters) review(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for reason, n := range d.reasons {
		d.tell(reason, n, now)
		if n.records == 0 && now.Sub(n.since) >= sayEvery {
			delete(d.reasons, reason)
		}
	}
}

// Total is what has been counted, by topic and code.
func (d *DeadLetters) Total() []DeadLetterCount {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []DeadLetterCount
	for l, n := range d.totals {
		all = append(all, DeadLetterCount{Topic: l.topic, Code: string(l.code), Records: n})
	}
	slices.SortFunc(all, func(a, b DeadLetterCount) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Code, b.Code))
	})
	return all
}

// Recent is what the last minute or two had to say, a sentence for each reason.
func (d *DeadLetters) Recent() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, reason := range slices.SortedFunc(maps.Keys(d.reasons), func(a, b deadLetterReason) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.code, b.code), cmp.Compare(a.header, b.header))
	}) {
		n := d.reasons[reason]
		blame := string(reason.code)
		if reason.header != "" {
			blame += " (" + reason.header + ")"
		}
		all = append(all, fmt.Sprintf("%s: %s, %s, such as %s", reason.topic, topics.Plural(n.told+n.records, "record"), blame, n.example))
	}
	return all
}
