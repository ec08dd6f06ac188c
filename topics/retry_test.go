package topics

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

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

// A retry expires as its request does: what came to a retry route passes over what it says of that, of whatever kind its route is by then, and what did not says it still.
// So it is with how often it was delivered before, and whether somebody has asked for its due time.
func TestRetryKeepsItsKind(t *testing.T) {
	request := headers("delay-until", "1767225605123", "delay-target-topic", "later", "delay-expires", "1767225699000", "delay-attempt", "3")
	kinds := []string{"p1", "p1!", "p1!pe^x-wheel-", "p1~5/kr", "p1+300000", "r1+10000+2000+3600000+200", "r1+5000+1000+5000+0^x-wheel-"}
	for _, was := range kinds {
		by := parser(t, was)
		written := append([]kgo.RecordHeader(nil), request...)
		for i := range written {
			written[i].Key = withPrefix(written[i].Key, by.ours())
		}
		want := Request{Expires: 1767225699000}
		if by.retries() {
			want = Request{Round: 3, ByBackoff: true}
		}
		hs, _ := AppendRetry(nil, written, ours, Retry{Due: T + 60_000, Attempt: 1, Origin: Origin{Offset: 42, Timestamp: T, Due: T}, Names: NamesOf(by)}, nil)
		for _, spec := range kinds {
			got, err := parser(t, spec).Parse(hs, Stamp{Millis: T, Key: []byte("k")}, 50, ours)
			if err != nil || !got.Retry || got.Expires != want.Expires || got.Round != want.Round || got.ByBackoff != want.ByBackoff || got.AtOnce || got.ID != nil {
				t.Errorf("written by %s, read by %s: %+v, %v", was, spec, got, err)
			}
			again, _ := AppendRetry(nil, written, ours, Retry{Due: T + 90_000, Attempt: 2, Origin: Origin{Offset: 42, Timestamp: T, Due: T}, Names: NamesOf(ParserOf(parser(t, spec), hs, 50, &ours))}, nil)
			if got, err := parser(t, was).Parse(again, Stamp{Millis: T, Key: []byte("k")}, 70, ours); err != nil || got.Expires != want.Expires || got.Round != want.Round {
				t.Errorf("written by %s, tried again by %s: %+v, %v", was, spec, got, err)
			}
		}
	}
}
