package main

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/ahead"
)

// What an agenda holds does not depend on how many minutes there are in which something is due, and nothing is left out of its bars.
func TestAgendaIsBounded(t *testing.T) {
	s := schedule{zone: lookNow.Location()}
	now := lookNow.UnixMilli()
	const many = 3 * mostMinutes
	for i := range int64(many) {
		s.add(ahead.Pending{Due: now + i*time.Minute.Milliseconds(), Size: 1, Target: "orders"}, now)
		if len(s.minutes) > mostMinutes {
			t.Fatalf("%d minutes", len(s.minutes))
		}
	}
	var records, bytes int64
	for _, r := range s.rows(byDay, lookNow) {
		records, bytes = records+r.Records, bytes+r.Bytes
		if r.Targets["orders"] != r.Records || r.Records > 24*60 {
			t.Fatalf("a day has %+v", r)
		}
	}
	if records != many || bytes != many {
		t.Errorf("%d records of %d bytes in the bars, want %d", records, bytes, many)
	}
}
