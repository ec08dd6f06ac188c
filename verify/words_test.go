package verify

import (
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1_234_567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: got %s", n, got)
		}
	}
	for ms, want := range map[float64]string{0: "0.0 ms", 1.25: "1.2 ms", 999.9: "999.9 ms", 1850.4: "1.85 s", 59_994: "59.99 s", 900_400: "15m0s", 86_399_000: "23h59m59s", 86_436_000: "24 h or more"} {
		if got := lateness(ms); got != want {
			t.Errorf("%v ms: got %s", ms, got)
		}
	}
	for n, want := range map[int64]string{1: "  1 time appended again, to be tried later\n", 2: "  2 times appended again, to be tried later\n"} {
		var b strings.Builder
		(&Report{Counts: Counts{Retried: n}}).writeCounts(&b)
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}
