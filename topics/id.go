package topics

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// MostID is how many bytes an id has at most.
const MostID = 256

// OnDuplicate is what becomes of a record whose id another one has that is pending in its partition.
type OnDuplicate uint8

const (
	DuplicateRejected OnDuplicate = iota // it is dead-lettered
	DuplicateReplaces                    // it takes the place of the other one
	DuplicateIgnored                     // it is left out, and counted
)

var onDuplicateNames = [...]string{"reject", "replace", "ignore"}

// String returns what UnmarshalText reads: reject, replace or ignore.
func (d OnDuplicate) String() string { return onDuplicateNames[d] }

// MarshalText is the inverse of UnmarshalText.
func (d OnDuplicate) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText sets d by its name, in whatever case.
func (d *OnDuplicate) UnmarshalText(text []byte) error {
	for i, name := range onDuplicateNames {
		if strings.EqualFold(string(text), name) {
			*d = OnDuplicate(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not one of %s", text, strings.Join(onDuplicateNames[:], ", "))
}

// LeastRemember is for how long the id of a delivered record is remembered at least: less is within what clocks of producers differ by.
const LeastRemember = time.Second

// idsSpec is what a parser's spec says of ids: nothing where a header has them, a second one is rejected, and none is remembered.
func (p *Parser) idsSpec() string {
	said := [...]string{"", "r", "i"}[p.onDuplicate]
	if p.keyed {
		said = "k" + said
	}
	if p.remember > 0 {
		said += "m" + strconv.FormatInt(p.remember, 10)
	}
	if said == "" {
		return ""
	}
	return "/" + said
}

// Remember is for how long an id is remembered once its record is due, in ms; 0: it is not.
func (p *Parser) Remember() int64 { return p.remember }

// parserOfIDs is the parser of a spec whose records have due times of their own: p1, with a jitter, and with what it says of ids.
func parserOfIDs(spec string) (*Parser, bool) {
	p := &Parser{}
	rest, is := strings.CutPrefix(spec, "p1")
	if !is {
		return nil, false
	}
	before, ids, has := strings.Cut(rest, "/")
	if has {
		p.readIDs(ids)
	}
	if digits, is := strings.CutPrefix(before, "~"); is {
		p.jitter, _ = parseCount([]byte(digits))
	}
	if p.jitter > maxDelayMillis || p.remember > maxDelayMillis {
		return nil, false
	}
	return p, specWithIDs(p) == spec
}

// specWithIDs is the inverse of parserOfIDs.
func specWithIDs(p *Parser) string {
	spec := "p1"
	if p.jitter > 0 {
		spec += "~" + strconv.FormatInt(p.jitter, 10)
	}
	return spec + p.idsSpec()
}

// NamingAs is what a spec says, but that records have their ids where a former one says, and do what that says where the id is taken. It is spec itself where that is the
// same, and where one of both has no ids.
func NamingAs(former, spec string) string {
	was, err := ParserFor(former)
	p, failed := ParserFor(spec)
	hasIDs := func(p *Parser) bool { return p.delay == 0 && !p.retries() }
	if err != nil || failed != nil || !hasIDs(was) || !hasIDs(p) ||
		p.keyed == was.keyed && p.onDuplicate == was.onDuplicate {
		return spec
	}
	usual := usualAliasesOf(spec)
	p.keyed, p.onDuplicate = was.keyed, was.onDuplicate
	if p.onDuplicate == DuplicateReplaces {
		p.remember = 0
	}
	return specWithIDs(p) + aliasSpec(usual, p.aliases, p.prefix)
}

// readIDs reads what a spec says of ids. Whether it says that in the one way there is, is for the caller to see.
func (p *Parser) readIDs(said string) {
	said, millis, _ := strings.Cut(said, "m")
	p.remember, _ = parseCount([]byte(millis))
	switch said, p.keyed = strings.CutPrefix(said, "k"); said {
	case "r":
		p.onDuplicate = DuplicateReplaces
	case "i":
		p.onDuplicate = DuplicateIgnored
	}
}

// LikelyIDs gives for some records, by their places, what Parse is likely to read as their ids, for less than it costs to parse them.
func LikelyIDs(p *Parser, rs []*kgo.Record) iter.Seq2[int, []byte] {
	name := p.Name(HeaderID)
	return func(yield func(int, []byte) bool) {
		if p.retries() {
			return // what is tried again has none
		}
		for i, r := range rs {
			id := r.Key
			if !p.keyed {
				id = bare(Last(r.Headers, name))
			}
			if len(id) > 0 && len(id) <= MostID && !yield(i, id) {
				return
			}
		}
	}
}

// identify reads the id of a request.
func (p *Parser) identify(q *Request, n *headerMap, header, key []byte) *Refusal {
	header = bare(header)
	name, raw := HeaderID, header
	switch {
	case q.Retry || p.retries():
		return nil // it has become another record
	case p.delay > 0 && len(header) > 0:
		return refuse(CodeUnsupportedHeader, StageParse, HeaderID, header, "the delay of this topic is fixed by its route: records wait in the order of the log, and have no ids")
	case p.keyed && len(header) > 0:
		return refuse(CodeInvalidID, StageParse, HeaderID, header, "the id of a record of this topic is its key")
	case p.keyed && q.Replaces && q.NamedID == nil:
		return refuse(CodeInvalidID, StageParse, "", nil, "the id of a record of this topic is its key, and one that is replaced by its handle would lose it: name the key")
	case p.keyed:
		name, raw = "", key
	case len(header) == 0:
		q.ID, q.OnDuplicate = q.NamedID, p.onDuplicate
		if p.ours() != HeaderPrefix {
			q.IDAt = n.at[fieldReplace]
		}
		return nil
	case q.Replaces && q.NamedID == nil:
		return refuse(CodeInvalidID, StageParse, HeaderID, header, "what replaces a record by its handle has no id: name the id that is to be replaced")
	}
	id, r := p.idOf(name, raw)
	if r == nil && q.NamedID != nil && string(id) != string(q.NamedID) {
		r = refuse(CodeInvalidID, StageParse, name, raw, "what replaces an id has that id, and no other")
	}
	q.ID, q.KeyIsID, q.OnDuplicate = id, p.keyed, p.onDuplicate
	if p.ours() != HeaderPrefix {
		q.IDAt = n.at[fieldID]
	}
	return r
}

// idOf judges an id that is in a header, or without a name is the key of the record.
func (p *Parser) idOf(name string, raw []byte) ([]byte, *Refusal) {
	_, handle := ParseHandle(trim(bare(raw)))
	switch {
	case len(raw) == 0:
		return nil, refuse(CodeInvalidID, StageParse, name, raw, "the id of a record of this topic is its key, and this one has none")
	case len(raw) > MostID:
		return nil, refuse(CodeInvalidID, StageParse, name, raw, "an id has %d bytes at most, and this has %d", MostID, len(raw))
	case handle:
		return nil, refuse(CodeInvalidID, StageParse, name, raw, "an id cannot be written like a handle, <partition>-<offset>-<due in ms since 1970>")
	}
	return raw, nil
}

// Duplicate is the refusal of a record whose id another one has that is pending, or was delivered lately and is remembered.
func Duplicate(id []byte, isKey, remembered bool) *Refusal {
	header, what, is := HeaderID, "id", "is pending"
	if isKey {
		header, what, id = "", "key", nil
	}
	if remembered {
		is = "was delivered lately"
	}
	return refuse(CodeDuplicateID, StageStore, header, id, "a record with this %s %s in this partition", what, is)
}
