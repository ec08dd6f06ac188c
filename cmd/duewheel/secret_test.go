package main

import "testing"

func TestExpand(t *testing.T) {
	env := map[string]string{"USER": "alice", "EMPTY": ""}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	for _, test := range []struct{ in, want, err string }{
		{"${USER}:${USER}", "alice:alice", ""},
		{"${EMPTY}", "", ""},
		{"${NONE:-otherwise}", "otherwise", ""},
		{"${NONE:-}", "", ""},
		{"$${USER} costs $5", "${USER} costs $5", ""},
		{"${NONE}", "", "${NONE} is not set in the environment"},
	} {
		got, err := expand(test.in, lookup)
		if got != test.want || errText(err) != test.err {
			t.Errorf("expand(%q) = %q, %v; want %q, %s", test.in, got, err, test.want, test.err)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"broker", "brokers", 1}, {"mechansim", "mechanism", 1}, {"kitten", "sitting", 3},
	} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
