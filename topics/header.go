package topics

import "strings"

// Names of the request headers: what a producer may write.
const (
	HeaderUntil           = "delay-until"
	HeaderFor             = "delay-for"
	HeaderTargetTopic     = "delay-target-topic"
	HeaderTargetKey       = "delay-target-key"
	HeaderTargetPartition = "delay-target-partition"
)

// Names of the emitted headers: what a delivered record carries besides its
// own. HeaderAttempt is also part of a retry record.
const (
	HeaderDue             = "delay-due"
	HeaderFired           = "delay-fired"
	HeaderSourceTopic     = "delay-source-topic"
	HeaderSourcePartition = "delay-source-partition"
	HeaderSourceOffset    = "delay-source-offset"
	HeaderSourceTimestamp = "delay-source-timestamp"
	HeaderAttempt         = "delay-attempt"
	HeaderHops            = "delay-hops" // reserved for delay topics in a chain
)

// Names of the internal headers: what duewheel writes to a delay topic for
// itself. The package comment lists their bytes.
const (
	HeaderOrigin  = "delay-origin"
	HeaderResolve = "delay-resolve"
	HeaderSeq     = "delay-seq"  // of a carried copy
	HeaderFrom    = "delay-from" // of a carried copy
)

// HeaderPrefix begins every name that belongs to duewheel. A name that begins
// so and is not in the tables of the package comment is refused, so that a
// typing error cannot change what a record asks for.
const HeaderPrefix = "delay-"

// IsRequestHeader tells whether a header is left out of the delivered record:
// request headers, internal ones, and emitted ones that came in from outside,
// which would otherwise forge where the record comes from.
func IsRequestHeader(name string) bool { return strings.HasPrefix(name, HeaderPrefix) }

// field numbers the headers that Parse looks at.
type field uint8

const (
	other field = iota // not ours
	fieldUntil
	fieldFor
	fieldTopic
	fieldKey
	fieldPartition
	fieldAttempt
	fieldOrigin
	fieldResolve
	fieldIgnored  // known, and without a meaning in a request
	fieldUnknown  // begins with our prefix, and we do not know it
	fieldReserved // the first of the names that are not supported yet
)

// reserved holds the names that are known and not supported yet. A record
// that has one is refused: to ignore it would deliver what was meant to be
// cancelled, or once what was meant to recur.
var reserved = [...]string{
	"delay-id",
	"delay-cancel",
	"delay-expires",
	"delay-every",
	"delay-cron",
	"delay-zone",
	"delay-count",
	"delay-target-key-null",
}

const fields = int(fieldReserved) + len(reserved)

// fieldOf sorts a header name. It is called for every header of every record.
func fieldOf(name string) field {
	if len(name) < len(HeaderPrefix) || name[0] != 'd' || name[:len(HeaderPrefix)] != HeaderPrefix {
		return other
	}
	switch name {
	case HeaderUntil:
		return fieldUntil
	case HeaderFor:
		return fieldFor
	case HeaderTargetTopic:
		return fieldTopic
	case HeaderTargetKey:
		return fieldKey
	case HeaderTargetPartition:
		return fieldPartition
	case HeaderAttempt:
		return fieldAttempt
	case HeaderOrigin:
		return fieldOrigin
	case HeaderResolve:
		return fieldResolve
	case HeaderDue, HeaderFired, HeaderSourceTopic, HeaderSourcePartition, HeaderSourceOffset,
		HeaderSourceTimestamp, HeaderHops, HeaderSeq, HeaderFrom:
		return fieldIgnored
	}
	for i, r := range reserved {
		if name == r {
			return fieldReserved + field(i)
		}
	}
	return fieldUnknown
}

// requestNames are the names that a misspelt one is compared with.
var requestNames = append([]string{
	HeaderUntil, HeaderFor, HeaderTargetTopic, HeaderTargetKey, HeaderTargetPartition,
}, reserved[:]...)

// nearest returns the request header that name most probably means, or "".
func nearest(name string) string {
	if len(name) > 64 {
		return ""
	}
	best, least := "", 4 // more than three wrong letters is another word
	for _, known := range requestNames {
		if d := distance(name, known); d < least {
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
