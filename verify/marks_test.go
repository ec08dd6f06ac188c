package verify

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
)

// What a fixed delay has made of a timestamp that was ahead of the clock is believed, and counted. What was not there yet when a pass had ended is not due before that and the delay
// are over, whatever it says.
func TestAheadIsBelievedAsFarAsItCanBe(t *testing.T) {
	s := newFakeGroup(t)
	now := s.at(10)
	s.config.Now = func() time.Time { return now }
	v := s.verifier()
	remind := func(minute, due float64) {
		q := s.write(&kgo.Record{Topic: "reminders", Partition: 1, Value: []byte("tick"), Timestamp: s.at(minute)})
		s.write(s.delivered(q, due))
		s.resolve("reminders", 1, q.Offset+1, 0, q.Offset+1)
	}
	remind(8, 6)
	s.expect(s.pass(v), nil, "1 were due earlier than the timestamps of their requests say, by up to 7m0s: that those were ahead of the clock is believed\n")
	now = s.at(20)
	s.pass(v)
	now = s.at(30)
	remind(25, 24.5) // it has come after minute 20, so it is due after minute 25
	remind(26, 26)
	r := s.pass(v)
	s.expect(r, nil, "3 were due earlier")
	now = s.at(40)
	remind(35, 33)
	s.expect(s.pass(v), map[string]int64{"early": 1}, "reminders/1@3: says that it was due ")
	s.expect(s.pass(s.verifier()), nil, "4 were due earlier") // which has not seen when it came
}

// What waits on a retry route whose topic has the time of producers is overdue when it has been seen for longer than its pause, and no replica has read it.
func TestRetryIsOverdueSinceItWasSeen(t *testing.T) {
	s := newFakeGroup(t)
	now := s.at(10)
	s.config.Now = func() time.Time { return now }
	s.config.Routes[0] = check.Route{Topic: "delays", Target: "orders", Retry: &check.Retry{Initial: 5 * time.Minute, Max: 5 * time.Minute, Factor: 1, MaxAttempts: 3, Behind: time.Hour}}
	s.resolve("delays", 0, 0, 0, 0)
	v := s.verifier()
	s.request(-1000)
	s.expect(s.pass(v), nil, "1 pending")
	now = s.at(15.9)
	s.request(-1000)
	s.expect(s.pass(v), nil, "2 pending")
	now = s.at(16)
	s.expect(s.pass(v), map[string]int64{"overdue": 1}, "delays/0@0: ")
	s.expect(s.pass(s.verifier()), nil, "2 pending") // which sees it for the first time
	s.resolve("delays", 0, 1, 30, 0)
	s.tryAgain(&kgo.Record{Topic: "delays", Key: []byte("k"), Value: []byte("v"), Timestamp: s.at(-1000)}, 16, 21, 0, 21)
	s.expect(s.pass(v), nil, "2 pending")
}
