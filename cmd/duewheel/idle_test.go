package main

import (
	"slices"
	"strings"
	"testing"
)

// Every setting of a route does something on a kind of route, or is refused there by its name, whatever its value, with what to write
// instead. A new setting needs a line here.
func TestEverySettingDoesSomethingOrIsRefused(t *testing.T) {
	kinds := []struct{ name, yaml string }{
		{"header", "targets: {allow: [orders]}"},
		{"keyed", "targets: {allow: [orders]}, mode: keyed"},
		{"fixed delay", "target: orders, delay: 5m"},
		{"retry", "targets: {allow: [orders]}, retry: {target: from_headers}"},
	}
	const (
		all     = "header, keyed, fixed delay, retry"
		noFixed = "header, keyed, retry"
		withIDs = "header, keyed"
		makes   = "header, retry" // it makes a header route one for retries
	)
	settings := map[string]struct {
		does   string   // on these it does something
		values []string // each of which says something
	}{
		"topic":                 {all, []string{"requests"}},
		"target":                {all, []string{"bills"}},
		"targets.allow":         {all, []string{"bills,orders"}},
		"delay":                 {"header, fixed delay", []string{"10m"}}, // it makes a route of the first kind one of the third, and mode: keyed means nothing there
		"max_delay":             {all, []string{"400d"}},
		"dead_letter":           {all, []string{"graves"}},
		"headers.emit":          {all, []string{"source", "all", "none"}},
		"jitter":                {withIDs, []string{"1m"}},
		"trim":                  {all, []string{"true", "false"}},
		"carry":                 {noFixed, []string{"true", "false"}},
		"weight":                {all, []string{"1", "3"}},
		"expire_after":          {all, []string{"1m"}}, // from due on, however long the delay was
		"on_unknown_cancel":     {noFixed, []string{"count", "dead_letter", "Count"}},
		"on_late_replace":       {noFixed, []string{"dead_letter", "deliver"}},
		"mode":                  {withIDs, []string{"headers", "keyed"}},
		"ids.on_duplicate":      {withIDs, []string{"reject", "replace", "ignore"}},
		"headers.prefix":        {all, []string{"x-wheel-"}},
		"headers.aliases":       {withIDs, []string{"plain", "etf1"}},
		"partitioner":           {all, []string{"murmur2", "crc32", "source_partition"}},
		"timestamp":             {all, []string{"fired", "due", "original"}},
		"ids.remember":          {"header", []string{"1s", "24h"}},
		"retry.target":          {makes, []string{"from_headers", "bills"}},
		"retry.backoff.initial": {makes, []string{"10s", "1m"}},
		"retry.backoff.factor":  {makes, []string{"1", "3"}},
		"retry.backoff.max":     {makes, []string{"1h", "5m"}},
		"retry.backoff.jitter":  {makes, []string{"0", "0.2"}},
		"retry.max_attempts":    {makes, []string{"8", "1"}},
		"retry.parking":         {makes, []string{"parked"}},
		"retry.strip":           {makes, []string{"x-*"}},
	}
	for _, path := range routeNames() {
		key, ok := strings.CutPrefix(path, "routes.N.")
		want, known := settings[key]
		if !ok || !known {
			t.Errorf("%s: it is not said on which kinds of routes it does something", path)
			continue
		}
		delete(settings, key)
		for _, kind := range kinds {
			for _, value := range want.values {
				does := strings.Contains(want.does, kind.name)
				file := "kafka: {brokers: 'a:1'}\ngroup: {id: g}\nroutes: [{topic: delays, " + kind.yaml + "}]\n"
				_, said := judge(t, sources{File: writeFile(t, "duewheel.yaml", file), X: []string{"routes[0]." + key + "=" + value}})
				nothing := slices.IndexFunc(said, func(line string) bool {
					return strings.Contains(line, " does nothing on ") && strings.Contains(line, "; ")
				})
				switch {
				case does && len(said) > 0:
					t.Errorf("%s: %s on a %s route does something, and is refused: %s", key, value, kind.name, strings.Join(said, "\n"))
				case does:
				case nothing < 0:
					t.Errorf("%s: %s on a %s route does nothing, and what is said is %q", key, value, kind.name, said)
				case !makesAnother(key) && (len(said) > 1 || !strings.Contains(said[0], ": "+key+" does nothing on ")):
					t.Errorf("%s: %s on a %s route is not refused by its name: %q", key, value, kind.name, said)
				}
			}
		}
	}
	for key := range settings {
		t.Errorf("%s is no setting of a route", key)
	}
}

// makesAnother tells whether a setting makes a route one of another kind: then what it is of the first kind by does nothing.
func makesAnother(key string) bool { return key == "delay" || strings.HasPrefix(key, "retry.") }

// What another setting of a retry route leaves without effect is refused by its name, with what to write instead.
func TestIdleBesideAnother(t *testing.T) {
	for _, tt := range []struct{ name, route, want string }{ // "": it does something
		{"a target beside a topic", "target: orders, retry: {target: bills}", "target does nothing where retry.target is a topic; leave it out"},
		{"a target beside headers", "target: orders, retry: {target: from_headers}", ""},
		{"a target beside nothing", "target: orders, retry: {parking: parked}", ""},
		{"one attempt and a factor", "retry: {target: orders, max_attempts: 1, backoff: {factor: 3}}", "retry.backoff.factor does nothing where retry.max_attempts is 1: the only pause is retry.backoff.initial; leave it out"},
		{"one attempt and a maximum", "retry: {target: orders, max_attempts: 1, backoff: {max: 5m}}", "retry.backoff.max does nothing where retry.max_attempts is 1: the only pause is retry.backoff.initial; leave it out"},
		{"one attempt and a pause", "retry: {target: orders, max_attempts: 1, backoff: {initial: 5m, jitter: 0}}", ""},
		{"two attempts", "retry: {target: orders, max_attempts: 2, backoff: {max: 5m, factor: 3}}", ""},
		{"pauses that do not grow and a maximum", "retry: {target: orders, backoff: {factor: 1, max: 5m}}", "retry.backoff.max does nothing where retry.backoff.factor is 1"},
		{"pauses that do not grow", "retry: {target: orders, backoff: {factor: 1}}", ""},
		{"pauses that cannot grow and a factor", "retry: {target: orders, backoff: {initial: 5m, factor: 3, max: 5m}}", "retry.backoff.factor does nothing where retry.backoff.max is as short as retry.backoff.initial"},
		{"pauses that cannot grow", "retry: {target: orders, backoff: {initial: 5m, max: 5m}}", ""},
		{"a header that is taken off everywhere", "retry: {target: orders, strip: [x-*, delay-until]}", `retry.strip has "delay-until", which does nothing`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := "kafka: {brokers: 'a:1'}\ngroup: {id: g}\nroutes: [{topic: delays, " + tt.route + "}]\n"
			_, said := judge(t, sources{File: writeFile(t, "duewheel.yaml", file)})
			if all := strings.Join(said, "\n"); (all == "") != (tt.want == "") || len(said) > 1 || !strings.Contains(all, tt.want) {
				t.Errorf("got %q, want %q", all, tt.want)
			}
		})
	}
}
