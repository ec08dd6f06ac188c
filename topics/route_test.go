package topics

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func route(t testing.TB, r Route, others ...Route) *Route {
	t.Helper()
	if r.Topic == "" {
		r.Topic, r.DeadLetter = "delay-requests", "delay-requests.dead"
	}
	made, err := NewRoutes(append([]Route{r}, others...)...)
	if err != nil {
		t.Fatal(err)
	}
	return made[0]
}

func TestAllowed(t *testing.T) {
	others := []Route{{Topic: "delay-5m", DeadLetter: "dead", Target: "x"}, {Topic: "billing.delay", DeadLetter: "billing.dead", Target: "x"}}
	for _, tt := range []struct {
		name  string
		route Route
		yes   string
		no    string
	}{
		{"nothing is allowed by default", Route{}, "", "orders delay-requests"},
		{"the fixed target is", Route{Target: "orders"}, "orders", "order orderss Orders"},
		{"literals, and the fixed target beside them", Route{Target: "orders", Allow: []string{"a", "b.c"}}, "orders a b.c", "b bxc"},
		{"* is any run of characters", Route{Allow: []string{"billing.*", "*-eu", "a*b*c"}},
			"billing. billing.x billing.x.y -eu x-eu abc axbxc abbcc", "billing xbilling.x eu abcd"},
		{"never an internal topic, a delay topic or a dead letter topic", Route{Allow: []string{"*", "billing.*"}},
			"orders _x", "__consumer_offsets __x delay-5m billing.delay billing.dead dead delay-requests delay-requests.dead"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := route(t, tt.route, others...)
			for _, target := range strings.Fields(tt.yes) {
				if !r.Allowed([]byte(target)) {
					t.Errorf("%s is not allowed", target)
				}
			}
			for _, target := range strings.Fields(tt.no) {
				if r.Allowed([]byte(target)) {
					t.Errorf("%s is allowed", target)
				}
			}
		})
	}
}

func TestRefuse(t *testing.T) {
	day := 24 * time.Hour
	for _, tt := range []struct {
		name  string
		route Route
		q     Request
		want  Code // "": may be held
	}{
		{"allowed", Route{Allow: []string{"a"}}, Request{Target: []byte("a"), Due: T}, ""},
		{"no target", Route{Allow: []string{"a"}}, Request{Due: T}, CodeNoTarget},
		{"another target", Route{Allow: []string{"a"}}, Request{Target: []byte("b"), Due: T}, CodeTargetNotAllowed},
		{"as far ahead as may be", Route{Target: "a", MaxDelay: day}, Request{Target: []byte("a"), Due: T + day.Milliseconds()}, ""},
		{"too far ahead", Route{Target: "a", MaxDelay: day}, Request{Target: []byte("a"), Due: T + day.Milliseconds() + 1}, CodeTooFarAhead},
		{"as far ahead as may be, and its jitter", Route{Target: "a", MaxDelay: day, Jitter: time.Hour}, Request{Target: []byte("a"), Due: T + day.Milliseconds() + 7, Jitter: 7}, ""},
		{"too far ahead without its jitter", Route{Target: "a", MaxDelay: day, Jitter: time.Hour}, Request{Target: []byte("a"), Due: T + day.Milliseconds() + 8, Jitter: 7}, CodeTooFarAhead},
		{"tried again after a pause that is longer", Route{Target: "a", MaxDelay: time.Minute}, Request{Target: []byte("a"), Due: T + day.Milliseconds(), Retry: true, Attempt: 9, Origin: Origin{7, 1, T - 1}}, ""},
		{"carried on before it was due, as far ahead as may be, and its jitter", Route{Target: "a", MaxDelay: day, Jitter: time.Hour}, Request{Target: []byte("a"), Due: T + 25*time.Hour.Milliseconds(), Retry: true, Origin: Origin{7, 1, T + 25*time.Hour.Milliseconds()}}, ""},
		{"carried on before it was due, too far ahead", Route{Target: "a", MaxDelay: day}, Request{Target: []byte("a"), Due: T + day.Milliseconds() + 1, Retry: true, Origin: Origin{7, 1, T + day.Milliseconds() + 1}}, CodeTooFarAhead},
		{"of a retry route, when it had longer pauses", Route{Target: "a", MaxDelay: time.Minute, Retry: &Retrying{Backoff: Backoff{Initial: time.Second, Factor: 1, Max: time.Second}, MaxAttempts: 1}}, Request{Target: []byte("a"), Due: T + day.Milliseconds(), Retry: true, Origin: Origin{7, 1, T + day.Milliseconds()}}, ""},
		{"of a retry route, which the route was before", Route{Target: "a", MaxDelay: time.Minute}, Request{Target: []byte("a"), Due: T + day.Milliseconds(), Retry: true, ByBackoff: true, Origin: Origin{7, 1, T + day.Milliseconds()}}, ""},
		{"no bound", Route{Target: "a"}, Request{Target: []byte("a"), Due: maxDueMillis}, ""},
		{"a resolve record has no target", Route{Target: "a"}, Request{Kind: KindResolve}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := route(t, tt.route).Refuse(&tt.q, T)
			switch {
			case r == nil && tt.want == "":
			case r == nil || r.Code != tt.want || r.Stage == "" || r.Message == "":
				t.Errorf("got %+v, want %q", r, tt.want)
			}
		})
	}
}

func TestRouteParserKnowsTheFixedTarget(t *testing.T) {
	r := route(t, Route{Target: "orders", Delay: time.Minute})
	if r.Spec() != "p1+60000" {
		t.Errorf("spec %q", r.Spec())
	}
	older, err := r.ParserFor("p1")
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*Parser{"its own": r.Parser(), "of an older checkpoint": older} {
		hs := headers()
		if p == older {
			hs = headers("delay-for", "60000")
		}
		q, err := p.Parse(hs, Stamp{Millis: T}, 42, ours)
		if err != nil || string(q.Target) != "orders" || q.Due != T+60_000 {
			t.Errorf("%s: got %+v, %v", name, q, err)
		}
	}
	if _, err := r.ParserFor("p9"); !errors.Is(err, ErrUnknownParser) {
		t.Errorf("p9: got %v", err)
	}
}
