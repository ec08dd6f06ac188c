package verify

import (
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
)

// checkpoint is as much of one as says what a group is done with.
type checkpoint struct {
	known    bool   // one is there, of this topic, and could be read
	foreign  bool   // one is there, and could not be read
	given    string // the group that was given it: this one does not go on from it
	offset   int64
	due, seq int64  // the watermark
	low      int64  // the first offset of what is pending
	identity string // by what name the group goes, where that is not its own
	givenUp  int64  // what lies below this offset was given up; 0: nothing
}

// readCheckpoint reads a committed offset with its metadata: "dw1 t=<topic id> w=<due>:<seq> l=<low water> g=<given up> …".
func readCheckpoint(offset int64, metadata string, topicID [16]byte) checkpoint {
	words := strings.Split(metadata, " ")
	c := checkpoint{offset: offset, foreign: true}
	if words[0] != "dw1" {
		return c
	}
	seen := make(map[string]string)
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		seen[name] = value
	}
	due, seq, _ := strings.Cut(seen["w"], ":")
	if to, err := url.PathUnescape(seen["m"]); err == nil && to != "" {
		return checkpoint{given: to}
	}
	for _, number := range []struct {
		to   *int64
		text string
	}{{&c.due, due}, {&c.seq, seq}, {&c.low, seen["l"]}} {
		n, err := strconv.ParseInt(number.text, 10, 64)
		if err != nil {
			return c
		}
		*number.to = n
	}
	if n, err := strconv.ParseInt(seen["g"], 10, 64); err == nil {
		c.givenUp = n
	}
	identity, escape := url.PathUnescape(seen["n"])
	id, err := hex.DecodeString(seen["t"])
	if err != nil || escape != nil || len(id) != 4 {
		return c
	}
	if [4]byte(id) != [4]byte(topicID[:4]) {
		return checkpoint{} // the topic was made anew since, and its new group begins from nothing
	}
	c.known, c.foreign, c.identity = true, false, identity
	return c
}

// resolves tells whether a record is accepted, and its key at or below the watermark. A route with a fixed delay has no order but its log's.
func (c checkpoint) resolves(offset, due, seq int64, fixed bool) bool {
	if !c.known || max(offset, seq) >= c.offset {
		return false
	}
	return fixed || due < c.due || due == c.due && seq <= c.seq
}
