package verify

import (
	"testing"
	"time"
)

// A route goes by other settings than those by which a record was dead-lettered: a note says what that may come to.
func TestSettingsOfBefore(t *testing.T) {
	s := newFakeGroup(t)
	q := s.ask(0, 10)
	letter := s.condemned(q, "expired")
	letter.Timestamp = s.at(12)
	s.write(letter)
	s.resolve("delays", 0, 1, 30, 1)
	s.config.Routes[0].ExpireAfter = time.Minute
	s.expect(s.pass(s.verifier()), nil, "all is well")
	s.config.Routes[0].ExpireAfter = time.Hour
	s.expect(s.pass(s.verifier()), map[string]int64{"dead-lettered in vain": 1}, noteOfBefore)
}

// What has nothing to do with settings is told without that note.
func TestNoSettingsOfBefore(t *testing.T) {
	s := newFakeGroup(t)
	s.ask(0, 10)
	r := s.pass(s.verifier())
	if s.expect(r, map[string]int64{"overdue": 1}, "delays/0@0"); r.mayBeOfBefore() {
		t.Error("overdue is of before")
	}
	for _, note := range r.Notes {
		if note == noteOfBefore {
			t.Error(note)
		}
	}
}
