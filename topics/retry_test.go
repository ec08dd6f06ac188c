package topics

import "testing"

// A retry asks by the headers of other tools that its request has asked by, and by no others, of whatever kind its route is by then.
func TestRetryKeepsItsAliases(t *testing.T) {
	request := headers("scheduler-epoch", "1767225605", "scheduler-target-topic", "later")
	kinds := []string{"p1", "p1!p", "p1~5/kr", "p1+300000", "r1+10000+2000+3600000+200"}
	for _, was := range kinds {
		by := parser(t, was)
		hs, _ := AppendRetry(nil, request, ours, Retry{Due: T + 60_000, Attempt: 1, Origin: Origin{Offset: 42, Timestamp: T, Due: T}, Names: NamesOf(by)}, nil)
		want, preset := "", NoPreset
		if by.aliases.has(PresetETF1) {
			want, preset = "later", PresetETF1
		}
		for _, spec := range kinds {
			got, err := parser(t, spec).Parse(hs, Stamp{Millis: T, Key: []byte("k")}, 50, ours)
			if err != nil || string(got.Target) != want || got.Preset != preset || !got.Retry {
				t.Errorf("written by %s, read by %s: %+v, %v", was, spec, got, err)
			}
		}
	}
}

// A retry says what jitter is in the due time of its request, whatever that of its route is by then.
func TestRetryKeepsItsJitter(t *testing.T) {
	request := headers("delay-until", "1767225605123", "delay-target-topic", "later")
	for _, was := range []string{"p1", "p1~1000", "p1~5000!pe^x-wheel-", "p1~5/kr"} {
		by := parser(t, was)
		hs, _ := AppendRetry(nil, request, ours, Retry{Due: T + 60_000, Attempt: 1, Origin: Origin{Offset: 42, Timestamp: T, Due: T}, Names: NamesOf(by)}, nil)
		for _, spec := range []string{"p1", "p1~1000", "p1~70000/k", "p1+300000", "r1+10000+2000+3600000+200"} {
			p := parser(t, spec)
			if got, want := ParserOf(p, hs, 50, &ours).Jitter(ours, 42), by.Jitter(ours, 42); got != want {
				t.Errorf("written by %s, read by %s: the jitter is %d, want %d", was, spec, got, want)
			}
			if q, err := p.Parse(hs, Stamp{Millis: T, Key: []byte("k")}, 50, ours); err != nil || q.Due != T+60_000 || q.Jitter != 0 {
				t.Errorf("written by %s, read by %s: %+v, %v", was, spec, q, err)
			}
		}
	}
}
