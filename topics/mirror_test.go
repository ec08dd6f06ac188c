package topics

import "testing"

// A copy, or a retry, in a mirror of its topic is a request whose delay counts from when that was written first. One that says nothing of that, or is not as
// we write it, counts from its own timestamp.
func TestMirrored(t *testing.T) {
	const first = T - 100_000
	for name, c := range map[string]struct {
		more []string
		from int64
	}{
		"a copy":                      {[]string{"delay-seq", "a8098c1b:billing:3:7:1767225699000:1767225505123", "delay-from", "7"}, first},
		"of another partition":        {[]string{"delay-seq", "a8098c1a:billing:4:7:1767225699000:1767225505123", "delay-from", "7"}, first},
		"a copy without its last":     {[]string{"delay-seq", "a8098c1b:billing:3:7:1767225699000:1767225505123"}, first},
		"a retry":                     {[]string{"delay-retry", "a8098c1b:billing:3:7:1767225505123:1767225505124:2:1767225699000"}, first},
		"a copy of a retry":           {[]string{"delay-retry", "a8098c1b:billing:3:7:1767225505123:1767225505124:2:1767225699000", "delay-seq", "a8098c1b:billing:3:9:1767225699000:1767225605000", "delay-from", "9"}, first},
		"of what has no timestamp":    {[]string{"delay-seq", "a8098c1b:billing:3:7:1767225699000:-1", "delay-from", "7"}, T},
		"of ours that looks forwards": {[]string{"delay-seq", "a8098c1a:billing:3:99:1767225699000:1767225505123", "delay-from", "99"}, T},
		"a number is missing":         {[]string{"delay-seq", "a8098c1b:billing:3:7:1767225505123", "delay-from", "7"}, T},
		"no numbers":                  {[]string{"delay-seq", "a8098c1b:billing", "delay-from", "7"}, T},
		"no number":                   {[]string{"delay-retry", "a8098c1b:billing:3:7:x:1767225505124:2:1767225699000"}, T},
	} {
		for _, by := range [][]string{{"delay-for", "60s"}, {"delay-until", "1767225665123"}} {
			want := int64(T + 60_000)
			if by[0] == "delay-for" {
				want = c.from + 60_000
			}
			hs := headers(append(by, c.more...)...)
			q, err := parser(t, "p1").Parse(hs, Stamp{Millis: T}, 42, ours)
			if err != nil || q.Kind != KindRequest || q.Retry || q.Due != want {
				t.Errorf("%s, by %s: %+v (%v), want due %d", name, by[0], q, err, want)
			}
		}
	}
}

// A resolve record in a mirror of its topic says nothing of what lies there, and asks for nothing. What else has its header is refused.
func TestMirroredResolve(t *testing.T) {
	for _, c := range []struct {
		value  string
		stamp  Stamp
		passed bool
	}{
		{"a8098c1b:billing:3:7:1767225505123:7:-1", Stamp{NoValue: true}, true},
		{"a8098c1a:billing:4:7:1767225505123:7:-1", Stamp{NoValue: true}, true},
		{"a8098c1b:billing:3:7:1767225505123:7:-1", Stamp{}, false},
		{"a8098c1b:billing:3:7:1767225505123:7:-1", Stamp{NoValue: true, Key: []byte("k")}, false},
		{"a8098c1a:billing:3:99:1767225505123:7:-1", Stamp{NoValue: true}, false}, // ours, and it looks forwards
		{"yes", Stamp{NoValue: true}, false},
	} {
		q, err := parser(t, "p1").Parse(headers("delay-resolve", c.value), c.stamp, 42, ours)
		if passed := err == nil && q.Kind == KindOfAnotherGroup; passed != c.passed || !passed && err == nil {
			t.Errorf("%s with %+v: %+v (%v), want it passed over: %v", c.value, c.stamp, q, err, c.passed)
		}
	}
}
