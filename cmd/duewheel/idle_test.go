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
