package topics

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Preset is a set of headers of another tool, or of another habit, that ask for a delay or name a target.
type Preset uint8

// The presets.
const (
	NoPreset Preset = iota
	PresetPlain
	PresetETF1
	PresetKarafka
	PresetCloudEvents
	PresetSpringRetry
	PresetConnectDLQ
	PresetSpringDLT
	PresetStreamsDLQ
	PresetShareDLQ
	presets
)

var presetNames = [presets]string{"", "plain", "etf1", "karafka", "cloudevents", "spring-retry", "connect-dlq", "spring-dlt", "streams-dlq", "share-dlq"}

// String is its name in a configuration; "" for NoPreset.
func (p Preset) String() string { return presetNames[p] }

// dlq tells whether it says no more than where a record that could not be processed was.
func (p Preset) dlq() bool { return p >= PresetConnectDLQ }

// Presets are the names of all, in the order in which docs/requests.md has them.
func Presets() []string { return presetNames[1:] }

// usualAliases are those of a route that says nothing of them, where records say when they are due.
const usualAliases = presetSet(1<<PresetPlain | 1<<PresetETF1 | 1<<PresetKarafka | 1<<PresetCloudEvents)

// presetSet has a bit for each preset.
type presetSet uint16

func (s presetSet) has(p Preset) bool { return s>>p&1 != 0 }

// Alias is a header of a preset, and what it stands for.
type Alias struct {
	Preset Preset
	Name   string // of the header
	For    string // the header of ours that it stands for; "": see Means
	Means  string // what is particular about it, for people
	Stays  bool   // it is delivered, since it says something to consumers, too

	field field
	unit  unit
}

// aliases are all there are. Of those of one preset that say when, the first one that a record has counts.
var aliases = [...]Alias{
	{PresetPlain, "deliver-at", HeaderUntil, "", false, fieldUntil, unitBySize},
	{PresetPlain, "deliver-after", HeaderFor, "", false, fieldFor, unitBySize},
	{PresetPlain, "x-delay", HeaderFor, "", false, fieldFor, unitBySize},
	{PresetETF1, "scheduler-epoch", HeaderUntil, "a number is seconds", false, fieldUntil, unitSeconds},
	{PresetETF1, "scheduler-target-topic", HeaderTargetTopic, "", false, fieldTopic, unitBySize},
	{PresetETF1, "scheduler-target-key", HeaderTargetKey, "", false, fieldKey, unitBySize},
	{PresetKarafka, "schedule_target_epoch", HeaderUntil, "a number is seconds", false, fieldUntil, unitSeconds},
	{PresetKarafka, "schedule_target_topic", HeaderTargetTopic, "", false, fieldTopic, unitBySize},
	{PresetKarafka, "schedule_target_key", HeaderTargetKey, "", false, fieldKey, unitBySize},
	{PresetKarafka, "schedule_target_partition", HeaderTargetPartition, "", false, fieldPartition, unitBySize},
	{PresetKarafka, "schedule_target_partition_key", "", "not supported: such a record is dead-lettered", false, fieldReserved, unitBySize},
	{PresetKarafka, "schedule_source_type", "", "`schedule`; `cancel` and `tombstone` cancel what has the record's key, with `mode: keyed`", false, fieldCancel, unitBySize},
	{PresetKarafka, "schedule_schema_version", "", "passed over", false, fieldIgnored, unitBySize},
	{PresetCloudEvents, "ce_deliverat", HeaderUntil, "", false, fieldUntil, unitBySize},
	{PresetCloudEvents, "ce_deliverafter", HeaderFor, "", false, fieldFor, unitBySize},
	{PresetCloudEvents, "ce_expirytime", HeaderExpires, "it is delivered, too", true, fieldExpires, unitBySize},
	{PresetSpringRetry, "retry_topic-backoff-timestamp", HeaderUntil, "", false, fieldUntil, unitBySize},
	{PresetSpringRetry, "kafka_original-topic", HeaderTargetTopic, "it is delivered, too", true, fieldTopic, unitBySize},
	{PresetConnectDLQ, "__connect.errors.topic", HeaderTargetTopic, "it is delivered, too, unless `retry.strip` has it", true, fieldTopic, unitBySize},
	{PresetSpringDLT, "kafka_dlt-original-topic", HeaderTargetTopic, "it is delivered, too, unless `retry.strip` has it", true, fieldTopic, unitBySize},
	{PresetSpringDLT, "kafka_original-topic", HeaderTargetTopic, "it is delivered, too, unless `retry.strip` has it", true, fieldTopic, unitBySize},
	{PresetStreamsDLQ, "__streams.errors.topic", HeaderTargetTopic, "it is delivered, too, unless `retry.strip` has it", true, fieldTopic, unitBySize},
	{PresetShareDLQ, "__dlq.errors.topic", HeaderTargetTopic, "it is delivered, too, unless `retry.strip` has it", true, fieldTopic, unitBySize},
}

// Aliases are all headers of other tools that are understood.
func Aliases() []Alias { return slices.Clone(aliases[:]) }

// aliasAt returns the place in aliases of a name that may ask for a delay, or -1. It is called for every header that is not ours.
func aliasAt(name string) int {
	switch name {
	case "deliver-at":
		return 0
	case "deliver-after":
		return 1
	case "x-delay":
		return 2
	case "scheduler-epoch":
		return 3
	case "scheduler-target-topic":
		return 4
	case "scheduler-target-key":
		return 5
	case "schedule_target_epoch":
		return 6
	case "schedule_target_topic":
		return 7
	case "schedule_target_key":
		return 8
	case "schedule_target_partition":
		return 9
	case "schedule_target_partition_key":
		return 10
	case "schedule_source_type":
		return 11
	case "schedule_schema_version":
		return 12
	case "ce_deliverat":
		return 13
	case "ce_deliverafter":
		return 14
	case "ce_expirytime":
		return 15
	case "retry_topic-backoff-timestamp":
		return 16
	case "kafka_original-topic":
		return 17
	}
	return -1
}

// asking is how many of aliases are not of a preset that only names a target.
const asking = 18

// says tells whether an alias says when a record is due.
func (a *Alias) says() bool { return a.field == fieldUntil || a.field == fieldFor }

// isAlias tells whether a header of this name may be one that the parser takes for one of ours.
func (p *Parser) isAlias(name string) bool {
	i := aliasAt(name)
	return i >= 0 && p.aliases.has(aliases[i].Preset)
}

// headerMap is where the headers of a record are, by what they stand for.
type headerMap struct {
	at   [fields]int32 // one more than the index of the last header of a name
	unit unit          // of a due time that is a number
	// cancels says that the record cancels what has its key.
	cancels bool
}

// ownRequest are the fields of ours that ask for something. A record that has one of them asks by our headers alone.
const ownRequest = 1<<fieldUntil | 1<<fieldFor | 1<<fieldTopic | 1<<fieldKey | 1<<fieldPartition | 1<<fieldExpires | 1<<fieldID | 1<<fieldCancel | 1<<fieldReplace

// asksByOurs tells whether a record has a header of ours that asks for something.
func (n *headerMap) asksByOurs(headers []kgo.RecordHeader) bool {
	for f := range n.at {
		if ownRequest>>f&1 != 0 && n.at[f] != 0 && len(bare(headers[n.at[f]-1].Value)) > 0 {
			return true
		}
	}
	return false
}

// substitute has headers of other tools stand for ours: those of the one preset by which the record says when it is due. A record that
// has a header of ours that asks for something, or none that says when, is left as it is.
func (p *Parser) substitute(q *Request, n *headerMap, headers []kgo.RecordHeader) *Refusal {
	if n.asksByOurs(headers) {
		return nil
	}
	var at [asking]int32
	for i := range headers {
		if a := aliasAt(headers[i].Key); a >= 0 && p.aliases.has(aliases[a].Preset) {
			at[a] = int32(i) + 1
		}
	}
	by := -1
	for a := range at {
		if at[a] == 0 || !aliases[a].asksBy(headers[at[a]-1].Value) {
			continue
		}
		if by >= 0 && aliases[by].Preset != aliases[a].Preset {
			return refuse(CodeUnsupportedHeader, StageParse, aliases[a].Name, headers[at[a]-1].Value,
				"%s and %s both say what becomes of the record: write %s, or leave one of them out", aliases[by].Name, aliases[a].Name, p.Name(HeaderUntil))
		}
		if by < 0 {
			by = a
		}
	}
	if by < 0 {
		return nil
	}
	q.Preset = aliases[by].Preset
	for a := range at {
		alias := &aliases[a]
		if at[a] == 0 || alias.Preset != q.Preset {
			continue
		}
		v := headers[at[a]-1].Value
		switch alias.field {
		case fieldIgnored:
		case fieldReserved:
			if len(bare(v)) > 0 {
				return refuse(CodeUnsupportedHeader, StageParse, alias.Name, v, "this version does not support it")
			}
		case fieldCancel:
			if r := p.sourceType(n, alias.Name, v); r != nil {
				return r
			}
		default:
			if n.at[alias.field] == 0 || len(bare(headers[n.at[alias.field]-1].Value)) == 0 {
				n.at[alias.field] = at[a]
				if alias.field == fieldUntil {
					n.unit = alias.unit
				}
			}
		}
	}
	return nil
}

// asksBy tells whether the value of an alias makes its preset the one that a record asks by.
func (a *Alias) asksBy(value []byte) bool {
	switch v := bare(value); {
	case a.field == fieldCancel:
		return len(v) > 0 && string(v) != "schedule"
	default:
		return a.says() && len(v) > 0
	}
}

// sourceType reads what a record is to Karafka.
func (p *Parser) sourceType(n *headerMap, name string, raw []byte) *Refusal {
	switch string(trim(bare(raw))) {
	case "", "schedule":
		return nil
	case "cancel", "tombstone":
		if !p.keyed {
			return refuse(CodeUnsupportedHeader, StageParse, name, raw, "it cancels what has the record's key, and the route of this topic is not one with mode: keyed")
		}
		n.cancels = true
		return nil
	}
	return refuse(CodeUnsupportedHeader, StageParse, name, raw, "it is neither schedule nor cancel nor tombstone")
}

// strips tells whether a delivered record that asked by a preset loses a header.
func (p Preset) strips(name string) bool {
	if p == NoPreset {
		return false
	}
	a := aliasAt(name)
	return a >= 0 && aliases[a].Preset == p && !aliases[a].Stays
}

// sourceNames are the headers in which the presets of a set that name no more than a target do so.
func (s presetSet) sourceNames() (names []string) {
	for _, a := range aliases[asking:] {
		if s.has(a.Preset) {
			names = append(names, a.Name)
		}
	}
	return names
}
