package topics

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Reading is how one header of a request is understood.
type Reading struct {
	Name  string // of the header, as the record has it
	Value []byte
	For   string // which header of ours it stands for, with the usual prefix; "": none
	By    Preset // whose header it is; NoPreset: ours
	Wrap  Wrap   // what is around its value
	Form  Form   // of a time or a delay; 0: it is none
	At    int64  // ms since the epoch, rounded up: the instant that it says; holds with Form
	Note  string // why it does not count; "": it does
}

// Readings tells how each header is understood that is ours or a preset's, in their order. What the record as a whole asks for, Parse says.
func (p *Parser) Readings(headers []kgo.RecordHeader, written Stamp) (all []Reading) {
	var n headerMap
	var q Request
	for i := range headers {
		if f := fieldOf(headers[i].Key, p.ours()); f != other {
			n.at[f] = int32(i) + 1
		}
	}
	byOurs := n.asksByOurs(headers)
	several := p.substitute(&q, &n, headers) != nil && q.Preset == NoPreset // presets by which the record asks, so it is refused
	cancels := n.onlyCancels(headers, p.keyed, written.NoValue)
	for i := range headers {
		h := &headers[i]
		r := Reading{Name: h.Key, Value: h.Value}
		c := open(h.Value)
		r.Wrap = c.wrap
		f := fieldOf(h.Key, p.ours())
		switch a := aliasAt(h.Key); {
		case f != other:
			r.For = known(f)
		case a >= 0 && p.aliases.has(aliases[a].Preset):
			f, r.For, r.By = aliases[a].field, aliases[a].For, aliases[a].Preset
			if c.unit == unitBySize {
				c.unit = aliases[a].unit
			}
		case slices.Contains(p.sources, h.Key):
			f, r.For, r.By = fieldTopic, HeaderTargetTopic, sourcePreset(h.Key)
			if r.Note = p.sourceNote(headers, &n, i); len(c.b) > 0 {
				all = append(all, r)
				continue
			}
		default:
			continue
		}
		r.time(f, c, written.Millis)
		switch {
		case len(c.b) == 0:
			r.Note = "absent: it has no value"
		case cancels && r.For != "" && f != fieldCancel:
			r.Note, r.Form, r.At = "passed over: a record that cancels does nothing else", 0, 0
		case r.By != NoPreset && byOurs:
			r.Note = "does not count beside headers that begin with " + p.ours() + ": it is delivered"
		case r.By != NoPreset && several:
			if a := aliasAt(h.Key); r.Note == "" && aliases[a].asksBy(h.Value) {
				r.Note = "contradicts what a header of another preset says"
			}
		case r.By != NoPreset && r.By != q.Preset:
			r.Note = "does not count: the record does not say by this preset when it is due, so it is delivered"
		case r.Note == "" && r.For != "" && n.at[f] != int32(i)+1:
			r.Note = outdone(headers[i].Key, headers[n.at[f]-1].Key)
		case r.Note == "" && r.For == "" && r.By == NoPreset:
			r.Note = "is no header of a request"
		case r.Note == "" && p.retries() && (f == fieldUntil || f == fieldFor || f == fieldExpires || f == fieldID):
			r.Note = "passed over: a retry route has its backoff"
		case r.Note == "" && f == fieldFor && n.at[fieldUntil] != 0 && len(bare(headers[n.at[fieldUntil]-1].Value)) > 0:
			r.Note = "does not count: " + headers[n.at[fieldUntil]-1].Key + " wins"
		}
		all = append(all, r)
	}
	return all
}

// onlyCancels tells whether a record asks for nothing but a cancel, whatever else it has.
func (n *headerMap) onlyCancels(headers []kgo.RecordHeader, keyed, noValue bool) bool {
	if len(nameIn(headers, n.at[fieldCancel], keyed)) > 0 {
		return true
	}
	return keyed && (noValue || n.cancels) && len(nameIn(headers, n.at[fieldReplace], keyed)) == 0
}

// sourcePreset is the preset that names a target by a header of that name, and says no more.
func sourcePreset(name string) Preset {
	for _, a := range aliases[asking:] {
		if a.Name == name {
			return a.Preset
		}
	}
	return NoPreset
}

// outdone says why a header does not count beside another one that says the same.
func outdone(name, by string) string {
	if name == by {
		return "does not count: of several with this name the last one does"
	}
	return "does not count: " + by + " is there, too"
}

// sourceNote says why the header at i does not name the target, although headers of its name may.
func (p *Parser) sourceNote(headers []kgo.RecordHeader, n *headerMap, i int) string {
	if at := n.at[fieldTopic]; at != 0 && len(bare(headers[at-1].Value)) > 0 {
		return "does not count: " + headers[at-1].Key + " wins"
	}
	for _, name := range p.sources {
		for j := len(headers) - 1; j >= 0; j-- {
			if headers[j].Key == name && len(bare(headers[j].Value)) > 0 {
				if i == j {
					return ""
				}
				return outdone(headers[i].Key, name)
			}
		}
	}
	return ""
}

// time reads what says an instant or a delay; a note says why it cannot be read.
func (r *Reading) time(f field, c content, base int64) {
	var bad fault
	switch {
	case len(c.b) == 0:
	case f == fieldUntil || f == fieldExpires:
		r.At, r.Form, bad = parseUntil(c)
	case f == fieldFor:
		r.At, r.Form, bad = parseFor(c, base)
	}
	if bad.code != "" {
		r.At, r.Form, r.Note = 0, 0, "cannot be read: "+bad.why+hint(f != fieldFor, r.Value)
	}
}

// known is the usual name of a header of ours that asks for something; "" of others.
func known(f field) string {
	for _, name := range slices.Concat(requestNames, []string{HeaderAttempt}) {
		if fieldOf(name, HeaderPrefix) == f {
			return name
		}
	}
	return ""
}
