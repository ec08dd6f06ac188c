package topics

// Form is how the value of a header says a due time or a delay.
type Form uint8

// The forms.
const (
	FormMillis Form = iota + 1
	FormSeconds
	FormMicros
	FormNanos
	FormTime
	FormDate
	FormBinary
	FormLittleEndian
	FormDelayMillis
	FormUnits
	FormISO
	FormClock
	FormDelayBinary
	FormDelayLittleEndian
	FormSchema
)

// formNames say it for people. docs/requests.md has a row for each.
var formNames = [...]string{
	FormMillis:            "milliseconds since 1970",
	FormSeconds:           "seconds since 1970",
	FormMicros:            "microseconds since 1970",
	FormNanos:             "nanoseconds since 1970",
	FormTime:              "date and time with an offset",
	FormDate:              "date: midnight UTC",
	FormBinary:            "binary integer, big-endian: seconds or milliseconds since 1970",
	FormLittleEndian:      "binary integer, little-endian: seconds or milliseconds since 1970",
	FormDelayMillis:       "milliseconds",
	FormUnits:             "numbers with units",
	FormISO:               "ISO 8601 duration",
	FormClock:             "hours:minutes:seconds",
	FormDelayBinary:       "binary integer, big-endian: milliseconds",
	FormDelayLittleEndian: "binary integer, little-endian: milliseconds",
	FormSchema:            "number in the unit of its schema",
}

// String is for people.
func (f Form) String() string { return formNames[f] }

// formOf is the form of a number in a unit.
func formOf(u unit) Form {
	switch u {
	case unitSeconds:
		return FormSeconds
	case unitMicros:
		return FormMicros
	case unitNanos:
		return FormNanos
	}
	return FormMillis
}
