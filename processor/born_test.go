package processor

import (
	"maps"
	"slices"
	"testing"

	"github.com/duewheel/duewheel/topics"
)

// Counters whose labels are known begin at 0: what rises first would not be seen as a rise otherwise.
func TestCountersAreBornAtZero(t *testing.T) {
	for _, audit := range []string{"", "audits"} {
		p := testProcessor(t, func(c *Config) { c.AuditTopic = audit })
		s := p.Stats()
		born := func(what string, got map[string]int64, want ...string) {
			t.Helper()
			slices.Sort(want)
			equals(t, what, slices.Sorted(maps.Keys(got)), want)
			for label, n := range got {
				equal(t, what+" "+label, n, 0)
			}
		}
		born("transactions", s.Transactions, "committed", "aborted", "unknown")
		born("checkpoints", s.Checkpoints, "written", "refused", "unknown")
		born("cancels", s.Cancels, "cancelled", "replaced", "too_late", "unknown", "forwarded", "not_here", "ignored")
		born("refused", s.Refused, "no_due", "unparsable_due", "due_out_of_range", "invalid_target", "invalid_partition", "unsupported_header",
			"invalid_expiry", "invalid_attempt", "wrong_partition", "invalid_id", "expired")
		var events []string
		for e := range topics.AuditEvents {
			if audit != "" {
				events = append(events, topics.AuditEvent(e).String())
			}
		}
		born("audited, to "+audit, s.Audited, events...)
		equal(t, "dead letters", len(s.DeadLetters), len(topics.Codes))
		for _, code := range topics.Codes {
			equal(t, "dead letters for "+string(code), slices.Contains(s.DeadLetters, DeadLetterStats{Topic: testTopic, Code: string(code)}), true)
		}
	}
}
