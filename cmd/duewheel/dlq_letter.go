package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// letter is one record of a dead letter topic.
type letter struct {
	topics.Letter
	record *kgo.Record
	target string // the topic that it was for; "" where that is not known
	prefix string // of our headers, on the route that it was for; "" where that is not known
}

// read says what a record tells as a dead letter; nil when it is none.
func (b *boxes) read(r *kgo.Record) *letter {
	l, ok := topics.ReadLetter(r.Headers)
	if !ok {
		return nil
	}
	read := &letter{Letter: l, record: r, target: b.target(r, l.Topic)}
	if route := b.routes[l.Topic]; route != nil {
		read.prefix = route.HeaderPrefix()
	}
	return read
}

// target is the topic that a request asks for: as its route understands its headers, or else by the route.
func (b *boxes) target(r *kgo.Record, delay string) string {
	if route := b.routes[delay]; route != nil {
		return route.Names(r)
	}
	return strings.TrimSpace(string(topics.Bare(topics.Last(r.Headers, topics.HeaderTargetTopic))))
}

func (l *letter) place() position {
	return position{l.record.Topic, l.record.Partition, l.record.Offset}
}

// request is where the request was.
func (l *letter) request() string {
	if l.Offset < 0 {
		return fmt.Sprintf("%s/%d", l.Topic, l.Partition)
	}
	return position{l.Topic, l.Partition, l.Offset}.String()
}

// position is where a record lies.
type position struct {
	topic     string // "": the only one there is
	partition int32
	offset    int64
}

func (p position) String() string { return fmt.Sprintf("%s/%d@%d", p.topic, p.partition, p.offset) }

// parsePlace reads what String writes; the topic may be left out.
func parsePlace(text string) (position, error) {
	topic, rest, hasTopic := strings.Cut(text, "/")
	if !hasTopic {
		topic, rest = "", text
	}
	partition, offset, ok := strings.Cut(rest, "@")
	p, err1 := strconv.ParseUint(partition, 10, 31)
	o, err2 := strconv.ParseUint(offset, 10, 63)
	if !ok || err1 != nil || err2 != nil || hasTopic && topic == "" {
		return position{}, fmt.Errorf("%q is not a place: <partition>@<offset> or <topic>/<partition>@<offset>, as `duewheel dlq ls` prints it", text)
	}
	return position{topic, int32(p), int64(o)}, nil
}

// tally counts by a word, mostly a code.
type tally struct {
	by    map[string]int
	total int
}

// mostWords bounds what is kept, since any program may have written the headers that are counted.
const mostWords = 100

func (t *tally) add(word string) {
	if t.by == nil {
		t.by = map[string]int{}
	}
	if _, known := t.by[word]; !known && len(t.by) >= mostWords {
		word = "others"
	}
	t.by[word]++
	t.total++
}

// String lists the most frequent first: 10 unknown_target, 2 no_due.
func (t *tally) String() string {
	words := sorted(t.by)
	slices.SortStableFunc(words, func(a, b string) int { return t.by[b] - t.by[a] })
	var all []string
	for _, w := range words {
		all = append(all, fmt.Sprintf("%d %s", t.by[w], visible(w)))
	}
	return strings.Join(all, ", ")
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func formatMillis(ms int64) string {
	if ms < 0 {
		return "at an unknown time"
	}
	return formatTime(time.UnixMilli(ms))
}

// visible is text that does to a terminal no more than to be shown.
func visible(s string) string {
	if isShown(s, "") {
		return s
	}
	return strconv.QuoteToGraphic(s)
}

// isShown tells whether all of s can be shown as it is; besides what can be printed, also runes of more.
func isShown(s, more string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(more, r) })
}

// brief is a key or a header's value in one short line of at most so many columns.
func brief(b []byte, most int) string { return briefTo(b, most, "…") }

// briefTo is brief, and says by what something is left out.
func briefTo(b []byte, most int, end string) string {
	switch {
	case b == nil:
		return "null"
	case !utf8.Valid(b) || bytes.ContainsFunc(b, unicode.IsControl):
		s := "0x" + hex.EncodeToString(b[:min(len(b), most/2)])
		if len(b) > most/2 {
			s += end
		}
		return s
	}
	return clipped(visible(string(b)), most, end)
}
