package topics

import (
	"strings"
	"testing"
	"time"
)

// What can have no effect on a kind of route is refused by its name, and taken on the others.
func TestIdleSettings(t *testing.T) {
	kinds := map[string]Route{
		"header": {},
		"delay":  {Delay: time.Minute},
		"retry":  {Retry: &Retrying{Backoff: Backoff{Initial: time.Second, Factor: 2, Max: time.Hour}, MaxAttempts: 3}},
	}
	for _, tt := range []struct {
		key  string
		set  func(*Route)
		idle []string
	}{
		{"jitter", func(r *Route) { r.Jitter = time.Second }, []string{"delay", "retry"}},
		{"on_unknown_cancel", func(r *Route) { r.CancelsAnswered = true }, []string{"delay"}},
		{"on_late_replace", func(r *Route) { r.ReplacesLate = true }, []string{"delay"}},
		{"mode", func(r *Route) { r.Keyed = true }, []string{"delay", "retry"}},
		{"mode", func(r *Route) { r.Keyed, r.OnDuplicate = true, DuplicateReplaces }, []string{"delay", "retry"}},
		{"ids.on_duplicate", func(r *Route) { r.OnDuplicate = DuplicateReplaces }, []string{"delay", "retry"}},
		{"ids.on_duplicate", func(r *Route) { r.OnDuplicate = DuplicateIgnored }, []string{"delay", "retry"}},
		{"delay", func(r *Route) { r.Delay = time.Second }, []string{"retry"}},
		{"carry", func(r *Route) { r.Carry = new(bool) }, []string{"delay"}},
		{"carry", func(r *Route) { yes := true; r.Carry = &yes }, []string{"delay"}},
		{"expire_after", func(r *Route) { r.ExpireAfter = time.Second }, nil},
		{"headers.emit", func(r *Route) { r.Emit = EmitNone }, nil},
	} {
		for name, r := range kinds {
			r.Topic, r.DeadLetter, r.Target = "a", "a.dead", "orders"
			tt.set(&r)
			idle := ""
			for _, on := range tt.idle {
				if on == name {
					idle = `route "a": ` + tt.key + " does nothing on a"
				}
			}
			_, err := NewRoutes(r)
			switch {
			case idle == "" && err != nil:
				t.Errorf("%s on a route by %s is refused: %v", tt.key, name, err)
			case idle != "" && (err == nil || !strings.HasPrefix(err.Error(), idle) || strings.Contains(err.Error(), "\n")):
				t.Errorf("%s on a route by %s: %v", tt.key, name, err)
			}
		}
	}
}

// A route says whether what is pending in its topic is carried: unless it says no, and only where records have keys.
func TestCarries(t *testing.T) {
	yes, no := true, false
	retry := &Retrying{Backoff: Backoff{Initial: time.Second, Factor: 2, Max: time.Hour}, MaxAttempts: 3}
	for _, tt := range []struct {
		name  string
		route Route
		want  bool
	}{
		{"nothing said", Route{}, true},
		{"yes", Route{Carry: &yes}, true},
		{"no", Route{Carry: &no}, false},
		{"retries", Route{Retry: retry}, true},
		{"retries and no", Route{Retry: retry, Carry: &no}, false},
		{"a fixed delay", Route{Delay: time.Minute}, false},
	} {
		if got := tt.route.Carries(); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}
