package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/topics"
)

// storyEvery is how often the stories are told again.
const storyEvery = 8 * time.Second

// The stories: a record that is cancelled, one that its consumer fails to process twice, one that is dead-lettered, and a replica that is killed.
const (
	storyCancel = iota
	storyRetry
	storyDead
	storyKill
	storyCount
)

var storyNames = [storyCount]string{"cancel", "retry", "dead", "kill"}

// stories are what is to be followed, and what became of it.
type stories struct {
	mu      sync.Mutex
	told    [storyCount]string // the newest line of each; what is behind a line break is a detail
	held    time.Time          // until then the one of what is cancelled answers a key, and stays
	changed []string           // what was not printed yet
	began   map[string]time.Time
	trips   map[string]int // of retries
	done    int            // of these: processed at the third attempt
	came    map[string]bool
	wrong   []string
	again   func(*kgo.Record) // writes what the consumer has failed to process; nil: it does not any more
}

func newStories() *stories {
	return &stories{began: map[string]time.Time{}, trips: map[string]int{}, came: map[string]bool{}}
}

// tell sets the newest line of a story.
func (s *stories) tell(story int, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say(story, format, args...)
}

// answer is tell of what a key has asked to cancel: it stays long enough to be read.
func (s *stories) answer(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = time.Time{}
	s.say(storyCancel, format, args...)
	s.held = time.Now().Add(storyStays)
}

// storyStays is how long the answer to a key stays at least, unless another one comes.
const storyStays = 2 * time.Second

// say is tell with mu held.
func (s *stories) say(story int, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if story != storyCancel || !time.Now().Before(s.held) {
		s.told[story] = line
	}
	s.changed = append(s.changed, line)
}

// newest are the newest lines, by story; empty is one of which nothing was told.
func (s *stories) newest() [storyCount]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// fresh are the lines that were not given yet.
func (s *stories) fresh() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := s.changed
	s.changed = nil
	return fresh
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
		send(storyRequest(fmt.Sprintf("wages-%d", n), "payroll", time.Second)) // not allowed: it is dead-lettered
		s.tell(storyCancel, "%s is asked for, due in 4 s, with an id", id)
		if !pause(ctx, time.Second) {
			return
		}
		send(&kgo.Record{Topic: demoRequests, Key: []byte(id), Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(id)}, {Key: demoMark}}})
		s.tell(storyCancel, "%s is cancelled by its id, 3 s before it is due", id)
		if !pause(ctx, 4*time.Second) {
			return
		}
		s.mu.Lock()
		if !s.came[id] {
			s.say(storyCancel, "%s was cancelled by its id, and never came", id)
		}
		s.mu.Unlock()
		if !pause(ctx, storyEvery-5*time.Second) {
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
		{Key: topics.HeaderFor, Value: []byte(delay.String())}, {Key: topics.HeaderTargetTopic, Value: []byte(target)}, {Key: demoMark, Value: []byte(name)},
	}, more...)}
}

// arrived takes in what a consumer of targets and dead letters sees. That a record comes which must not is the checker's to say.
func (s *stories) arrived(r *kgo.Record, from check.Source) {
	name := string(topics.Last(r.Headers, demoMark))
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case isDeadLetter(r):
		if name == "" {
			name = from.String()
		}
		s.say(storyDead, "%s is dead-lettered: %s\n%s", name, topics.Last(r.Headers, topics.HeaderErrorCode), topics.Last(r.Headers, topics.HeaderErrorMessage))
	case strings.HasPrefix(name, "order-"):
		s.process(name, r)
	case name != "":
		s.came[name] = true
	}
}

// process is a consumer that fails twice: it writes the record to the retry topic, as it is. It is called with mu held.
func (s *stories) process(name string, r *kgo.Record) {
	s.trips[name]++
	if s.trips[name] == 1 {
		s.began[name] = time.Now()
	}
	switch s.trips[name] {
	case 1, 2:
		if s.again == nil {
			return
		}
		s.say(storyRetry, "%s: its consumer fails (attempt %d) and writes it to %s", name, s.trips[name], demoRetry)
		s.again(&kgo.Record{Topic: demoRetry, Key: r.Key, Value: r.Value, Headers: append(r.Headers[:len(r.Headers):len(r.Headers)],
			kgo.RecordHeader{Key: "__connect.errors.topic", Value: []byte(r.Topic)})})
	case 3:
		s.done++
		s.say(storyRetry, "%s is processed at the third attempt, %.1f s after the first", name, time.Since(s.began[name]).Seconds())
		delete(s.began, name)
	default:
		s.wrong = append(s.wrong, name+" came again after it was processed")
	}
}

// end says that nothing is to be written any more: what comes back from now on is not waited for.
func (s *stories) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again = nil
}

// ends are what the stories have come to: how many retries, and what went wrong.
func (s *stories) ends() (retried int, wrong []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done, s.wrong
}
