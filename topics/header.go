package topics

import (
	"slices"
	"strings"
)

// Names of the request headers: what a producer may write.
const (
	HeaderUntil           = "delay-until"
	HeaderFor             = "delay-for"
	HeaderTargetTopic     = "delay-target-topic"
	HeaderTargetKey       = "delay-target-key"
	HeaderTargetPartition = "delay-target-partition"
	HeaderExpires         = "delay-expires"
	HeaderCancel          = "delay-cancel"
	HeaderReplace         = "delay-replace"
	HeaderID              = "delay-id"
)

// Names of the emitted headers: what a delivered record carries besides its
// own.
const (
	HeaderDue             = "delay-due"
	HeaderSource          = "delay-source"
	HeaderSourceTimestamp = "delay-source-timestamp"
	HeaderFired           = "delay-fired"
	HeaderTries           = "delay-tries"
	HeaderAttempt         = "delay-attempt" // of a retry route: it comes back
	HeaderHops            = "delay-hops"    // reserved for delay topics in a chain
)

// Names of the internal headers: what duewheel writes to a delay topic for
// itself. The package comment lists their bytes.
const (
	HeaderRetry     = "delay-retry"
	HeaderResolve   = "delay-resolve"
	HeaderForwarded = "delay-forwarded"
	HeaderSeq       = "delay-seq"  // of a carried copy
	HeaderFrom      = "delay-from" // of a carried copy
)

// HeaderPrefix begins every name that belongs to duewheel, in whatever case, where a route has no other (Route.Prefix). A
// name that begins so and is not in the tables of the package comment is refused,
// so that a typing error cannot change what a record asks for.
const HeaderPrefix = "delay-"

// leftOut tells whether a header is left out of the delivered record, whatever it asked by: request
// headers, internal ones, emitted ones that came in from outside, which would
// otherwise forge where the record comes from, and what an earlier dead letter
// said of itself.
func leftOut(name, prefix string) bool {
	return belongs(name, prefix) || strings.HasPrefix(name, errorPrefix) || prefix != HeaderPrefix && internal(name) != other
}

// belongs tells whether a name begins with a prefix, in whatever case.
func belongs(name, prefix string) bool {
	n := len(prefix)
	return len(name) >= n && name[0]|0x20 == prefix[0]|0x20 && (name[:n] == prefix || strings.EqualFold(name[:n], prefix))
}

// withPrefix is the name that a header of ours has where the prefix is another one.
func withPrefix(name, prefix string) string {
	if name == "" || prefix == "" || prefix == HeaderPrefix {
		return name
	}
	return prefix + strings.TrimPrefix(name, HeaderPrefix)
}

// field numbers the headers that Parse looks at.
type field uint8

const (
	other field = iota // not ours
	fieldUntil
	fieldFor
	fieldTopic
	fieldKey
	fieldPartition
	fieldExpires
	fieldAttempt
	fieldID
	fieldIgnored // known, and without a meaning in a request
	fieldRetry   // what follows is not in ordinary records
	fieldResolve
	fieldSeq
	fieldCancel
	fieldReplace
	fieldForwarded
	fieldUnknown  // begins with our prefix, and we do not know it
	fieldReserved // the first of the names that are not supported yet
)

// reserved holds the names that are known and not supported yet. A record
// that has one is refused: to ignore it would deliver what was meant to be
// cancelled, or once what was meant to recur.
var reserved = [...]string{
	"delay-every",
	"delay-cron",
	"delay-zone",
	"delay-count",
	"delay-target-key-null",
}

const fields = int(fieldReserved) + len(reserved)

// internal sorts the names that are the same whatever the prefix is: what we write for ourselves.
func internal(name string) field {
	switch name {
	case HeaderForwarded:
		return fieldForwarded
	case HeaderRetry:
		return fieldRetry
	case HeaderResolve:
		return fieldResolve
	case HeaderSeq:
		return fieldSeq
	case HeaderFrom:
		return fieldIgnored
	}
	return other
}

// fieldOf sorts a header name. It is called for every header of every record.
func fieldOf(name, prefix string) field {
	if !belongs(name, prefix) {
		if prefix == HeaderPrefix {
			return other
		}
		return internal(name)
	}
	if f := internal(name); f != other {
		return f
	}
	if name[:len(prefix)] != prefix {
		return fieldUnknown
	}
	switch name[len(prefix):] {
	case "until":
		return fieldUntil
	case "for":
		return fieldFor
	case "target-topic":
		return fieldTopic
	case "target-key":
		return fieldKey
	case "target-partition":
		return fieldPartition
	case "expires":
		return fieldExpires
	case "attempt":
		return fieldAttempt
	case "id":
		return fieldID
	case "cancel":
		return fieldCancel
	case "replace":
		return fieldReplace
	case "due", "source", "source-timestamp", "fired", "tries", "hops":
		return fieldIgnored
	}
	for i, r := range reserved {
		if name[len(prefix):] == r[len(HeaderPrefix):] {
			return fieldReserved + field(i)
		}
	}
	return fieldUnknown
}

// requestNames are the names that a misspelt one is compared with.
var requestNames = append([]string{
	HeaderUntil, HeaderFor, HeaderTargetTopic, HeaderTargetKey, HeaderTargetPartition, HeaderExpires, HeaderCancel, HeaderReplace, HeaderID,
}, reserved[:]...)

// meant says what a name that begins with our prefix and is unknown should have been.
func meant(name, prefix string) string {
	if len(name) > 64 {
		return "this one is unknown"
	}
	low := strings.ToLower(name)
	if low != name && fieldOf(low, prefix) != fieldUnknown {
		return "they are lower case: write " + low
	}
	n := nearest(low[len(prefix):])
	if n == "" {
		return "this one is unknown"
	}
	if slices.Contains(reserved[:], n) {
		return "this one is unknown: did you mean " + withPrefix(n, prefix) + ", which this version does not support yet?"
	}
	return "this one is unknown: did you mean " + withPrefix(n, prefix) + "?"
}

// otherWords are what else people call what our headers say, without the prefix.
var otherWords = map[string]string{
	"by": HeaderFor, "in": HeaderFor, "after": HeaderFor, "ms": HeaderFor, "millis": HeaderFor, "duration": HeaderFor, "period": HeaderFor, "interval": HeaderFor,
	"at": HeaderUntil, "on": HeaderUntil, "till": HeaderUntil, "time": HeaderUntil, "timestamp": HeaderUntil, "date": HeaderUntil, "epoch": HeaderUntil,
	"to": HeaderTargetTopic, "target": HeaderTargetTopic, "topic": HeaderTargetTopic, "destination": HeaderTargetTopic, "destination-topic": HeaderTargetTopic,
	"key": HeaderTargetKey, "partition": HeaderTargetPartition, "expiry": HeaderExpires, "expiration": HeaderExpires, "ttl": HeaderExpires, "deadline": HeaderExpires,
	"retry": HeaderAttempt, "retries": HeaderAttempt, "retry-count": HeaderAttempt, "name": HeaderID, "repeat": reserved[0], "recur": reserved[0],
}

// nearest returns the request header that a name without its prefix most probably means, or "".
func nearest(name string) string {
	if known := otherWords[name]; known != "" {
		return known
	}
	best, least := "", 4                                                                              // more than three wrong letters is another word
	for _, known := range append(requestNames[:len(requestNames):len(requestNames)], HeaderAttempt) { // which a retry has
		short := known[len(HeaderPrefix):]
		if d := distance(name, short); d < min(least, len(name), len(short)) { // and so is one of which no letter is right
			best, least = known, d
		}
	}
	return best
}

// distance counts the letters to insert, remove or change to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
