package topics

import (
	"slices"
	"strings"
)

// aliasSpec is what a parser's spec says of aliases and of the prefix: nothing where both are as usual. Behind ! stand the letters of the
// presets, and behind ^ the prefix. Those that only name a target decide no key.
func aliasSpec(usual, s presetSet, prefix string) string {
	said := ""
	if s &= 1<<PresetConnectDLQ - 1; s != usual {
		said = "!"
		for p := PresetPlain; p < PresetConnectDLQ; p++ {
			if s.has(p) {
				said += presetLetters[p : p+1]
			}
		}
	}
	if prefix != HeaderPrefix {
		said += "^" + prefix
	}
	return said
}

// presetLetters has one for each preset that may say when.
const presetLetters = ".pekcs"

// cutAliases takes what aliasSpec says off a spec; false when it says something else.
func cutAliases(spec string) (rest string, s presetSet, prefix string, ok bool) {
	rest, prefix, other := strings.Cut(spec, "^")
	if !other {
		prefix = HeaderPrefix
	}
	rest, letters, said := strings.Cut(rest, "!")
	usual := usualAliasesOf(rest)
	if s = usual; said {
		s = 0
		for i := range len(letters) {
			p := strings.IndexByte(presetLetters, letters[i])
			if p < 1 {
				return "", 0, "", false
			}
			s |= 1 << p
		}
	}
	return rest, s, prefix, validPrefix(prefix) == "" && rest+aliasSpec(usual, s, prefix) == spec
}

// usualAliasesOf are those of a parser of whose aliases a spec does not speak. Only where records say when they are due there are any.
func usualAliasesOf(spec string) presetSet {
	if strings.HasPrefix(spec, "p1") && !FixedDelay(spec) {
		return usualAliases
	}
	return 0
}

// mostPrefix is how long a prefix may be.
const mostPrefix = 32

// validPrefix says what is wrong with a prefix of our headers; "" is nothing.
func validPrefix(prefix string) string {
	if len(prefix) < 2 || len(prefix) > mostPrefix {
		return "has 2 to 32 characters"
	}
	for i := range len(prefix) {
		if c := prefix[i]; !topicByte(c) || c >= 'A' && c <= 'Z' {
			return "has small letters, digits, dots, underscores and dashes only"
		}
	}
	switch last := prefix[len(prefix)-1]; {
	case last != '-' && last != '_' && last != '.':
		return "ends with a dash, an underscore or a dot, so that other names do not begin with it by accident"
	case strings.HasPrefix(prefix, "__"):
		return "does not begin with __, as headers of Kafka's own tools do"
	}
	return ""
}

// presets are those of a route, and the names among them that are none.
func (r *Route) presets() (s presetSet, unknown []string) {
	if r.Aliases == nil {
		if r.Retry != nil && r.Retry.FromHeaders {
			return sourcePresets, nil
		}
		return usualAliasesOf(r.spec()), nil
	}
	for _, name := range r.Aliases {
		i := slices.Index(presetNames[:], name)
		switch {
		case i > 0:
			s |= 1 << i
		case name != noAliases || len(r.Aliases) > 1:
			unknown = append(unknown, name)
		}
	}
	return s, unknown
}

// noAliases is what a route says that knows no headers of other tools.
const noAliases = "none"

// checkNames judges the names of headers, and returns the presets.
func checkNames(r *Route, p *problems) presetSet {
	s, unknown := r.presets()
	for _, name := range unknown {
		if name == noAliases {
			p.report("headers.aliases has none beside others: write none alone, or leave it out")
			continue
		}
		p.report("headers.aliases has %q, which is none of %s", name, strings.Join(append(Presets(), noAliases), ", "))
	}
	if wrong := validPrefix(r.HeaderPrefix()); wrong != "" {
		p.report("headers.prefix %q cannot be one: it %s", r.Prefix, wrong)
		return s // whether it begins the names of a preset is of no interest
	}
	for preset := PresetPlain; preset < presets; preset++ {
		if s.has(preset) {
			checkPreset(r, preset, p)
		}
	}
	if names := s.sourceNames(); r.Retry != nil && !r.Retry.FromHeaders && len(names) > 0 {
		p.report("headers.aliases names a target by %s, and retry.target is %s: write retry.target: from_headers, or leave the presets out", strings.Join(names, ", "), r.Target)
	}
	return s
}

// checkPreset judges one of the presets of a route.
func checkPreset(r *Route, preset Preset, p *problems) {
	for _, a := range aliases {
		if a.Preset == preset && belongs(a.Name, r.HeaderPrefix()) {
			p.report("headers.prefix %q begins the header %s of the preset %s: choose another one, or list in headers.aliases what is to be understood without it", r.Prefix, a.Name, preset)
			break
		}
	}
	switch {
	case preset.dlq():
	case r.Delay > 0:
		p.report("headers.aliases does nothing on %s: %s says when a record is due, and its records wait for the delay of the route; leave it out", kindNames[fixedDelay], preset)
	case r.Retry != nil:
		p.report("headers.aliases does nothing on %s: %s says when a record is due, and the route has its backoff; leave it out", kindNames[forRetries], preset)
	}
}
