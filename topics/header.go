package topics

import "strings"

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

// HeaderPrefix begins every name that belongs to duewheel, in whatever case. A
// name that begins so and is not in the tables of the package comment is refused,
// so that a typing error cannot change what a record asks for.
const HeaderPrefix = "delay-"

// LeftOut tells whether a header is left out of the delivered record: request
// headers, internal ones, emitted ones that came in from outside, which would
// otherwise forge where the record comes from, and what an earlier dead letter
// said of itself.
func LeftOut(name string) bool { return belongs(name) || strings.HasPrefix(name, errorPrefix) }

// belongs tells whether a name begins with our prefix, in whatever case.
func belongs(name string) bool {
	const n = len(HeaderPrefix)
	return len(name) >= n && name[0]|0x20 == 'd' && (name[:n] == HeaderPrefix || strings.EqualFold(name[:n], HeaderPrefix))
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

// fieldOf sorts a header name. It is called for every header of every record.
func fieldOf(name string) field {
	if !belongs(name) {
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
	case HeaderExpires:
		return fieldExpires
	case HeaderAttempt:
		return fieldAttempt
	case HeaderID:
		return fieldID
	case HeaderCancel:
		return fieldCancel
	case HeaderReplace:
		return fieldReplace
	case HeaderForwarded:
		return fieldForwarded
	case HeaderRetry:
		return fieldRetry
	case HeaderResolve:
		return fieldResolve
	case HeaderSeq:
		return fieldSeq
	case HeaderDue, HeaderSource, HeaderSourceTimestamp, HeaderFired, HeaderTries, HeaderHops, HeaderFrom:
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
	HeaderUntil, HeaderFor, HeaderTargetTopic, HeaderTargetKey, HeaderTargetPartition, HeaderExpires, HeaderCancel, HeaderReplace, HeaderID,
}, reserved[:]...)

// meant says what a name that begins with our prefix and is unknown should have been.
func meant(name string) string {
	if len(name) > 64 {
		return "this one is unknown"
	}
	low := strings.ToLower(name)
	if low != name && fieldOf(low) != fieldUnknown {
		return "they are lower case: write " + low
	}
	if n := nearest(low); n != "" {
		return "this one is unknown: did you mean " + n + "?"
	}
	return "this one is unknown"
}

// nearest returns the request header that name most probably means, or "".
func nearest(name string) string {
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
