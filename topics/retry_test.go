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
