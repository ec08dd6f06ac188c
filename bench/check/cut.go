package check

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A dead letter that its topic does not take as it is loses the end of its value, then that of its key, then all headers that the request had, and
// says how large it was.

// extent is what is remembered of a key or a value of which a dead letter may hold only the beginning.
type extent struct {
	length int
	head   uint64 // hash of the first headBytes; 0 where there are fewer
}

const headBytes = 1 << 10

func (x hasher) extent(b []byte) extent {
	if len(b) < headBytes {
		return extent{length: len(b)}
	}
	return extent{len(b), x.bytes(b[:headBytes])}
}

// large is a request that may be cut down: its key and value together have headBytes at least.
type large struct{ key, value extent }

// forgetExtents forgets of a request what was noted so that what is cut down of it can be compared.
func forgetExtents(s *source, offset int64) {
	delete(s.large, offset)
	delete(s.cut, offset)
}

// cut is what a dead letter says that it was, and of which parts it has not all.
type cut struct {
	large                     // lengths of before, heads of what is left
	ofKey, ofValue, ofHeaders bool
	unreadable                bool // or what it says cannot be
}

// cutDown reads what a dead letter says of what it had to leave out, "key=1 value=2 headers=3 size=4", or returns nil.
func (x hasher) cutDown(r *kgo.Record, p provenance) *cut {
	if p.cut == nil {
		return nil
	}
	var was struct{ key, value, headers int }
	if _, err := fmt.Sscanf(string(p.cut), "key=%d value=%d headers=%d", &was.key, &was.value, &was.headers); err != nil {
		return &cut{unreadable: true}
	}
	c := &cut{large: large{x.extent(r.Key), x.extent(r.Value)}}
	c.ofKey, c.ofValue = was.key != len(r.Key), was.value != len(r.Value)
	c.key.length, c.value.length = was.key, was.value
	theirs := 0
	for _, h := range r.Headers {
		if !strings.HasPrefix(h.Key, errorPrefix) {
			theirs++
		}
	}
	said := len(r.Headers) - 1 // without the one that says it
	c.ofHeaders = said != was.headers
	switch {
	case was.key < len(r.Key), was.value < len(r.Value), was.headers < said,
		!c.ofValue && (was.value > 0 || !c.ofKey && !c.ofHeaders), // there is nothing before it to be cut
		c.ofKey && len(r.Value) > 0, c.ofHeaders && len(r.Key)+len(r.Value)+theirs > 0:
		c.unreadable = true
	}
	// The key of the delivered record, with which a dead letter may be compared, may be one of the headers.
	c.ofKey = c.ofKey || c.ofHeaders
	return c
}

// cutWrong is what cannot be of what a dead letter says of the request at an offset.
func (c judging) cutWrong(src *source, offset int64, was cut) (wrong []string) {
	whole, known := src.large[offset]
	if was.unreadable {
		return []string{"cut in another way than it says"}
	}
	if !known {
		if was.key.length+was.value.length >= headBytes && c.config.Survey == nil {
			wrong = append(wrong, fmt.Sprintf("cut from a key of %d bytes and a value of %d, and the request had less than %d", was.key.length, was.value.length, headBytes))
		}
		return wrong
	}
	for _, part := range []struct {
		name     string
		was, had extent
	}{{"key", was.key, whole.key}, {"value", was.value, whole.value}} {
		if part.was.length != part.had.length || part.was.head != 0 && part.was.head != part.had.head {
			wrong = append(wrong, fmt.Sprintf("cut from a %s of %d bytes, not %d, or another beginning", part.name, part.was.length, part.had.length))
		}
	}
	return wrong
}
