package topics

import (
	"fmt"
	"strings"
	"testing"
)

// What is told of each header is what the parser does with it.
func TestReadings(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		pairs      []string
		want       string
	}{
		{"forms", "p1", []string{"delay-until", "1767225605123", "a", "b", "delay-expires", `"2026-01-02"`}, "delay-until>delay-until milliseconds since 1970|delay-expires>delay-expires date: midnight UTC"},
		{"the last of a name", "p1", []string{"delay-for", "1s", "delay-for", "2s"}, "delay-for>delay-for numbers with units (does not count: of several with this name the last one does)|delay-for>delay-for numbers with units"},
		{"delay-until wins", "p1", []string{"delay-for", "1s", "delay-until", "1767225605"}, "delay-for>delay-for numbers with units (does not count: delay-until wins)|delay-until>delay-until seconds since 1970"},
		{"one that is null", "p1", []string{"delay-until", "null"}, "delay-until>delay-until (absent: it has no value)"},
		{"one that cannot be read", "p1", []string{"delay-for", "soon"}, "delay-for>delay-for (cannot be read: " + whySpan + ")"},
		{"what was emitted", "p1", []string{"delay-due", "7"}, "delay-due> (is no header of a request)"},
		{"aliases", "p1", []string{"scheduler-epoch", "1767225605", "scheduler-target-topic", "o"}, "scheduler-epoch>delay-until etf1 seconds since 1970|scheduler-target-topic>delay-target-topic etf1"},
		{"aliases beside ours", "p1", []string{"x-delay", "7", "delay-for", "1s"}, "x-delay>delay-for plain milliseconds (does not count beside headers that begin with delay-: it is delivered)|delay-for>delay-for numbers with units"},
		{"aliases of another preset", "p1", []string{"x-delay", "7", "ce_expirytime", "2026-01-02"}, "x-delay>delay-for plain milliseconds|ce_expirytime>delay-expires cloudevents date: midnight UTC (does not count: the record does not say by this preset when it is due, so it is delivered)"},
		{"aliases of two presets", "p1", []string{"x-delay", "7", "scheduler-epoch", "1767225605", "scheduler-target-topic", "o"},
			"x-delay>delay-for plain milliseconds (contradicts what a header of another preset says)|scheduler-epoch>delay-until etf1 seconds since 1970 (contradicts what a header of another preset says)|scheduler-target-topic>delay-target-topic etf1"},
		{"aliases that are off", "p1!", []string{"x-delay", "7"}, ""},
		{"a prefix", "p1^x-wheel-", []string{"x-wheel-for", "1s", "delay-for", "1s"}, "x-wheel-for>delay-for numbers with units"},
		{"a retry route", "r1+1000+2000+60000+0", []string{"delay-for", "1s", "delay-attempt", "1"}, "delay-for>delay-for numbers with units (passed over: a retry route has its backoff)|delay-attempt>delay-attempt"},
	} {
		var got []string
		for _, r := range parser(t, tt.spec).Readings(headers(tt.pairs...), Stamp{Millis: T}) {
			s := r.Name + ">" + r.For
			if r.By != NoPreset {
				s += " " + r.By.String()
			}
			if r.Form != 0 {
				s += " " + r.Form.String()
			}
			if r.Note != "" {
				s += fmt.Sprintf(" (%s)", r.Note)
			}
			got = append(got, s)
		}
		if s := strings.Join(got, "|"); s != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, s, tt.want)
		}
	}
}
