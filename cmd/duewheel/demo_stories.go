package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

const (
	// demoStory is the header by which the demo knows the records of its stories again.
	demoStory = "demo-story"
	demoRetry = "orders.retry"
	// storyEvery is how often the stories are told again.
	storyEvery = 8 * time.Second
)

// stories are three records to be followed: one that is cancelled, one that a consumer fails to process twice, and one that is dead-lettered.
type stories struct {
	mu        sync.Mutex
	told      [3]string // the newest line of each
	changed   []string  // what was not printed yet
	cancelled map[string]bool
	began     map[string]time.Time // of retries
	trips     map[string]int
	done      int // of retries: processed at the third attempt
	wrong     []string
	again     func(*kgo.Record) // writes what the consumer has failed to process
}

const (
	storyCancel = iota
	storyRetry
	storyDead
)

func newStories() *stories {
	return &stories{cancelled: map[string]bool{}, began: map[string]time.Time{}, trips: map[string]int{}}
}

// tell sets the newest line of a story. Called with mu held.
func (s *stories) tell(story int, format string, args ...any) {
	s.told[story] = fmt.Sprintf(format, args...)
	s.changed = append(s.changed, s.told[story])
}

// lines are the newest ones, and fresh those that were not given yet.
func (s *stories) lines() (newest, fresh []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.told {
		if line != "" {
			newest = append(newest, line)
		}
	}
	fresh, s.changed = s.changed, nil
	return newest, fresh
}

// play asks for what the stories are about until ctx ends, again and again.
func (s *stories) play(ctx context.Context, send func(*kgo.Record)) {
	s.mu.Lock()
	s.again = send
	s.mu.Unlock()
	for n := 1; ; n++ {
		id := fmt.Sprintf("reminder-%d", n)
		send(storyRequest(id, "billing.reminders", 4*time.Second, kgo.RecordHeader{Key: topics.HeaderID, Value: []byte(id)}))
		send(storyRequest(fmt.Sprintf("order-%d", n), "orders", 300*time.Millisecond))
		s.mu.Lock()
		s.tell(storyCancel, "%s is asked for, due in 4 s, with an id", id)
		s.mu.Unlock()
		if !pause(ctx, time.Second) {
			return
		}
		s.mu.Lock()
		s.cancelled[id] = true
		s.tell(storyCancel, "%s is cancelled by its id, 3 s before it is due: it never comes", id)
		s.mu.Unlock()
		send(&kgo.Record{Topic: demoRequests, Key: []byte(id), Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(id)}}})
		if !pause(ctx, storyEvery-time.Second) {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// storyRequest is a request of a story.
func storyRequest(name, target string, delay time.Duration, more ...kgo.RecordHeader) *kgo.Record {
	return &kgo.Record{Topic: demoRequests, Timestamp: time.Now(), Key: []byte(name), Value: []byte(name), Headers: append([]kgo.RecordHeader{
		{Key: topics.HeaderFor, Value: []byte(delay.String())}, {Key: topics.HeaderTargetTopic, Value: []byte(target)}, {Key: demoStory, Value: []byte(name)},
	}, more...)}
}

// arrived takes in what a consumer of the targets sees, if it belongs to a story.
func (s *stories) arrived(r *kgo.Record) bool {
	name := string(topics.Last(r.Headers, demoStory))
	if name == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Topic == demoDeadLetter || r.Topic == demoRetry+".dead":
		s.wrong = append(s.wrong, name+" dead-lettered: "+string(topics.Last(r.Headers, topics.HeaderErrorMessage)))
	case s.cancelled[name]:
		s.wrong = append(s.wrong, name+" delivered although it was cancelled")
	case strings.HasPrefix(name, "order-"):
		s.process(name, r)
	}
	return true
}

// process is a consumer that fails twice: it writes the record to the retry topic, as it is. Called with mu held.
func (s *stories) process(name string, r *kgo.Record) {
	s.trips[name]++
	if s.trips[name] == 1 {
		s.began[name] = time.Now()
	}
	switch s.trips[name] {
	case 1, 2:
		s.tell(storyRetry, "%s: its consumer fails (attempt %d) and writes it to %s", name, s.trips[name], demoRetry)
		s.again(&kgo.Record{Topic: demoRetry, Key: r.Key, Value: r.Value, Headers: append(r.Headers[:len(r.Headers):len(r.Headers)],
			kgo.RecordHeader{Key: "__connect.errors.topic", Value: []byte(r.Topic)})})
	case 3:
		s.done++
		s.tell(storyRetry, "%s: processed at the third attempt, %s after the first", name, time.Since(s.began[name]).Round(100*time.Millisecond))
		delete(s.began, name)
	default:
		s.wrong = append(s.wrong, name+" came again after it was processed")
	}
}

// dead tells why a record was dead-lettered.
func (s *stories) dead(id int64, r *kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(storyDead, "#%d is dead-lettered: %s: %s", id, topics.Last(r.Headers, topics.HeaderErrorCode), topics.Last(r.Headers, topics.HeaderErrorMessage))
}

// ends are what the stories have come to: how many cancels and retries, and what went wrong.
func (s *stories) ends() (cancelled, retried int, wrong []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.cancelled), s.done, s.wrong
}
