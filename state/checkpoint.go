package state

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// These errors can be returned when reading or writing a checkpoint.
var (
	// ErrNotOurs: the commit metadata is empty, or not of duewheel. The offset was set by a tool, or mirrored.
	ErrNotOurs = errors.New("state: commit metadata is not ours")
	// ErrUnknownVersion: the metadata is ours, but this release does not read it, as a newer one wrote it. Never a guess.
	ErrUnknownVersion = errors.New("state: unknown version of commit metadata")
	// ErrCorrupt: the metadata is of our version, and wrong; or bytes in the store are.
	ErrCorrupt = errors.New("state: corrupt value")
	// ErrMetadataTooLong: the checkpoint does not fit into MaxMetadata, or would not when it has grown.
	ErrMetadataTooLong = errors.New("state: commit metadata is too long")
)

// MaxMetadata is what a broker accepts by default (offset.metadata.max.bytes).
const MaxMetadata = 4096

// MaxWriter is what a writer's name may take, escaped. Every checkpoint has room for it, so that any lane that takes a
// partition over can claim it.
const MaxWriter = 768

// maxDigits are those of the largest number.
const maxDigits = 19

// version is a form of the metadata: its first word, and the fields that it may have.
type version struct{ name, fields string }

// versions are those that this release reads, oldest first. What is new is read by one release and written from the next
// on, so that neighbouring releases always understand each other; doc.go has the rule.
var versions = []version{
	{"dw1", "twlxagcnm"},
}

// written is the one of them that this release writes.
const written = "dw1"

// Versions says in words which versions of the metadata this release reads and writes.
func Versions() string { return "reads " + reads() + ", writes " + written }

func reads() string {
	var names []string
	for _, v := range versions {
		names = append(names, v.name)
	}
	return strings.Join(names, ", ")
}

// unknown says what a person can do about something that a newer release has written.
func unknown(what, name string) error {
	return fmt.Errorf("%w: %s, and this release reads %s; a newer one wrote it: run one that reads %s (see `duewheel version`), "+
		"and the partition goes on where it is assigned to one; a rollout must not skip a release", ErrUnknownVersion, what, reads(), name)
}

// Checkpoint is what must survive of one partition of a delay topic. Offset is the committed offset itself, the rest
// travels as text in the metadata of the same commit; doc.go shows the form.
type Checkpoint struct {
	TopicID   [4]byte // the first bytes of the topic id: another id means that the topic was made anew
	Offset    int64   // every record below it has been accepted
	Epoch     int32   // a leader epoch (KIP-320) of the log when it had been read up to there, or NoEpoch; it is committed beside Offset, not in the metadata
	Watermark Key     // every accepted record at or below it is resolved
	LowWater  int64   // no pending record lies below this offset. Invariant: LowWater <= Offset
	Writer    string  // what lane may have an open transaction on the partition; empty when none may
	Appended  bool    // records of ours may lie at or above Offset
	GivenUp   int64   // what lies below this offset is lost, or was given up, and copies of it that lie at or above Offset stand for it; 0: nothing
	// Parsers tells from which offset on which parser configuration holds, in rising order of From.
	Parsers []ParserEpoch
	// Identity is the name by which the group knows what it has written into the topic for itself; empty where that is the name of the group.
	Identity string

	given string // the group that has it now; see GivenTo
}

// NoEpoch says that it is not known of which epoch a log was.
const NoEpoch = -1

// ParserEpoch is the parser configuration that holds from an offset on, until the next one's.
type ParserEpoch struct {
	From int64
	Spec string // printable ASCII without ';', ':' and space
}

// Metadata is the checkpoint less its offset, as text. What cannot be read back is not written: that is ErrCorrupt. What
// is written can be written again when its numbers, its writer's name and its marks have grown as far as they can, or it is
// ErrMetadataTooLong: a partition must not find out in the middle of its work.
func (c Checkpoint) Metadata() (string, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	b := make([]byte, 0, 128)
	b = append(b, written+" t="...)
	b = hex.AppendEncode(b, c.TopicID[:])
	b = append(b, " w="...)
	b = c.Watermark.appendText(b)
	b = fmt.Appendf(b, " l=%d", c.LowWater)
	if c.Writer != "" {
		b = append(b, " x="...)
		b = appendEscaped(b, c.Writer)
	}
	if c.Appended {
		b = append(b, " a=1"...)
	}
	if c.GivenUp > 0 {
		b = fmt.Appendf(b, " g=%d", c.GivenUp)
	}
	if len(c.Parsers) > 0 {
		b = append(b, " c="...)
		b = append(b, ParserList(c.Parsers)...)
	}
	if c.Identity != "" {
		b = append(b, " n="...)
		b = appendEscaped(b, c.Identity)
	}
	if c.given != "" {
		b = append(b, " m="...)
		b = appendEscaped(b, c.given)
	}
	if most := len(b) + c.growth(); most > MaxMetadata {
		return "", fmt.Errorf("%w: it may grow to %d bytes, at most %d; it names %d parser configurations", ErrMetadataTooLong, most, MaxMetadata, len(c.Parsers))
	}
	return string(b), nil
}

// growth is how much longer the text may become while the parsers stay.
func (c Checkpoint) growth() int {
	grows := len(" x=") + MaxWriter
	if c.Writer != "" {
		grows = MaxWriter - escapedLen(c.Writer)
		if grows < 0 {
			return MaxMetadata
		}
	}
	if !c.Appended {
		grows += len(" a=1")
	}
	if c.GivenUp == 0 {
		grows += len(" g=0")
	}
	for _, n := range []int64{c.GivenUp, c.Watermark.Due, c.Watermark.Seq, c.LowWater} {
		grows += maxDigits - len(strconv.FormatInt(n, 10))
	}
	return grows
}

// escapedLen is what a writer's name takes in the text.
func escapedLen(name string) int { return len(appendEscaped(nil, name)) }

// ParseCheckpoint reads what was committed: an offset, the leader epoch beside it, and metadata. Its errors are ErrNotOurs, ErrUnknownVersion, ErrCorrupt, and
// a GivenError where another group has it now.
func ParseCheckpoint(offset int64, epoch int32, metadata string) (Checkpoint, error) {
	words := strings.Split(metadata, " ")
	v, err := versionOf(words[0])
	if err != nil {
		return Checkpoint{}, err
	}
	if len(metadata) > MaxMetadata {
		return Checkpoint{}, fmt.Errorf("%w: metadata of %d bytes, at most %d", ErrCorrupt, len(metadata), MaxMetadata)
	}
	c := Checkpoint{Offset: offset, Epoch: epoch}
	seen := ""
	for _, word := range words[1:] {
		name, value, ok := strings.Cut(word, "=")
		if !ok || len(name) != 1 || name[0] < 'a' || name[0] > 'z' {
			return Checkpoint{}, fmt.Errorf("%w: metadata has %q where a field is expected", ErrCorrupt, word)
		}
		if strings.Contains(seen, name) {
			return Checkpoint{}, fmt.Errorf("%w: metadata has field %s twice", ErrCorrupt, name)
		}
		seen += name
		if !strings.Contains(v.fields, name) {
			return Checkpoint{}, unknown("it has a field "+name, v.name+" with "+name)
		}
		if err := c.set(name, value); err != nil {
			return Checkpoint{}, err
		}
	}
	for _, name := range []string{"t", "w", "l"} {
		if !strings.Contains(seen, name) {
			return Checkpoint{}, fmt.Errorf("%w: metadata has no field %s", ErrCorrupt, name)
		}
	}
	if err := c.check(); err != nil {
		return Checkpoint{}, err
	}
	if c.given != "" {
		return Checkpoint{}, &GivenError{To: c.given}
	}
	return c, nil
}

// versionOf judges the first word: "dw" and a number is ours.
func versionOf(word string) (version, error) {
	digits, ours := strings.CutPrefix(word, "dw")
	if !ours || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return version{}, ErrNotOurs
	}
	for _, v := range versions {
		if v.name == word {
			return v, nil
		}
	}
	return version{}, unknown("it is "+word, word)
}

func (c *Checkpoint) set(name, value string) (err error) {
	switch name {
	case "t":
		err = parseTopicID(&c.TopicID, value)
	case "w":
		c.Watermark, err = parseKey(value)
	case "l":
		c.LowWater, err = parseCount(value)
	case "x":
		c.Writer, err = unescape(value)
	case "a":
		c.Appended = true
		if value != "1" {
			err = fmt.Errorf("%q is not 1", value)
		}
	case "g":
		if c.GivenUp, err = parseCount(value); err == nil && c.GivenUp == 0 {
			err = errors.New("it is 0")
		}
	case "c":
		c.Parsers, err = parseParsers(value)
	case "n":
		if c.Identity, err = unescape(value); err == nil && c.Identity == "" {
			err = errors.New("it is empty")
		}
	case "m":
		c.given, err = unescape(value)
	default:
		panic("state: BUG: nothing reads field " + name)
	}
	if err != nil {
		return fmt.Errorf("%w: metadata field %s: %w", ErrCorrupt, name, err)
	}
	return nil
}

// check holds for what is written and for what is read.
func (c *Checkpoint) check() error {
	switch {
	case c.Offset < 0 || c.LowWater < 0 || c.GivenUp < 0 || c.Watermark.Due < 0 || c.Watermark.Seq < 0:
		return fmt.Errorf("%w: a negative number in %+v", ErrCorrupt, *c)
	case c.LowWater > c.Offset:
		return fmt.Errorf("%w: low water %d is above offset %d", ErrCorrupt, c.LowWater, c.Offset)
	}
	return checkParsers(c.Parsers)
}

func checkParsers(parsers []ParserEpoch) error {
	last := int64(-1)
	for _, p := range parsers {
		if p.From <= last {
			return fmt.Errorf("%w: parser configurations are not in rising order of offset: %d after %d", ErrCorrupt, p.From, last)
		}
		if !validSpec(p.Spec) {
			return fmt.Errorf("%w: %q is not a parser configuration", ErrCorrupt, p.Spec)
		}
		last = p.From
	}
	return nil
}

// DropParsersBelow forgets the configurations that hold only for offsets below the low water: no replay reads there.
func (c *Checkpoint) DropParsersBelow(lowWater int64) {
	n := 0
	for n+1 < len(c.Parsers) && c.Parsers[n+1].From <= lowWater {
		n++
	}
	c.Parsers = c.Parsers[n:]
}

func parseTopicID(id *[4]byte, value string) error {
	if b, err := hex.DecodeString(value); err != nil || len(b) != len(id) || strings.ToLower(value) != value {
		return fmt.Errorf("%q is not 8 digits of lower case hex", value)
	} else {
		copy(id[:], b)
	}
	return nil
}

// ParserList is the text of parser configurations, as metadata and positions have it; "" for none.
func ParserList(parsers []ParserEpoch) string {
	var b []byte
	for i, p := range parsers {
		if i > 0 {
			b = append(b, ';')
		}
		b = fmt.Appendf(b, "%d:%s", p.From, p.Spec)
	}
	return string(b)
}

// ParseParserList reads what ParserList has made. Its error is ErrCorrupt.
func ParseParserList(text string) ([]ParserEpoch, error) {
	if text == "" {
		return nil, nil
	}
	parsers, err := parseParsers(text)
	if err != nil {
		return nil, fmt.Errorf("%w: parser configurations %q: %w", ErrCorrupt, text, err)
	}
	return parsers, checkParsers(parsers)
}

func parseParsers(value string) ([]ParserEpoch, error) {
	var out []ParserEpoch
	for entry := range strings.SplitSeq(value, ";") {
		from, spec, ok := strings.Cut(entry, ":")
		if !ok {
			return nil, fmt.Errorf("%q is not from:spec", entry)
		}
		n, err := parseCount(from)
		if err != nil {
			return nil, err
		}
		out = append(out, ParserEpoch{From: n, Spec: spec})
	}
	return out, nil
}

func validSpec(spec string) bool {
	for i := range len(spec) {
		if b := spec[i]; b <= ' ' || b > '~' || b == ';' || b == ':' {
			return false
		}
	}
	return spec != ""
}

const upperHex = "0123456789ABCDEF"

// plain tells whether a byte of a writer's name stands for itself.
func plain(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '.' || b == '_' || b == '-'
}

// appendEscaped writes the bytes of a name that are not plain as %XX, since group names may hold anything.
func appendEscaped(dst []byte, name string) []byte {
	for i := range len(name) {
		if b := name[i]; plain(b) {
			dst = append(dst, b)
		} else {
			dst = append(dst, '%', upperHex[b>>4], upperHex[b&15])
		}
	}
	return dst
}

// unescape accepts only what appendEscaped writes.
func unescape(text string) (string, error) {
	name := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		b := text[i]
		if b == '%' {
			if i+2 >= len(text) {
				return "", fmt.Errorf("%q ends within an escape", text)
			}
			hi, lo := strings.IndexByte(upperHex, text[i+1]), strings.IndexByte(upperHex, text[i+2])
			if hi < 0 || lo < 0 || plain(byte(hi<<4|lo)) {
				return "", fmt.Errorf("%q has a wrong escape", text)
			}
			b = byte(hi<<4 | lo)
			i += 2
		} else if !plain(b) {
			return "", fmt.Errorf("%q has a byte that must be escaped", text)
		}
		name = append(name, b)
	}
	if len(name) == 0 {
		return "", errors.New("an empty name")
	}
	return string(name), nil
}
