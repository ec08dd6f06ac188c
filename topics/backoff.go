package topics

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Backoff is how long a retry route waits before it delivers a record again: Initial after the first failure, Factor times as long after
// each further one, Max at most, and each pause up to Jitter of it longer or shorter, so that what failed together does not come back
// together. Times are whole milliseconds, Factor and Jitter whole thousandths.
type Backoff struct {
	// Initial is how long a record waits after it has failed for the first time, counted from its arrival.
	Initial time.Duration `key:"initial" default:"10s"`

	// Max is the longest pause. Not above `max_delay`, and not with `factor: 1`.
	Max time.Duration `key:"max" default:"1h"`

	Factor float64 // at least 1
	Jitter float64 // 0 to 1
}

// backoff is the same in whole numbers, so that every machine works out the same due time.
type backoff struct {
	initial, max   int64 // ms; initial is above zero
	factor, jitter int64 // thousandths
}

func (b Backoff) whole() backoff {
	return backoff{
		initial: ceilMillis(b.Initial), max: ceilMillis(b.Max),
		factor: int64(math.Round(b.Factor * thousand)), jitter: int64(math.Round(b.Jitter * thousand)),
	}
}

// longest bounds every pause: a jitter may take one beyond Max.
func (b Backoff) longest() time.Duration { return b.Max + time.Duration(b.Jitter*float64(b.Max)) }

const (
	thousand  = 1000
	maxFactor = 1000 * thousand
	// mostRounds bounds what a record may say of how often it was delivered before.
	mostRounds = 1_000_000
)

// spec names a parser that counts with it.
func (b backoff) spec() string {
	return fmt.Sprintf("%s%d+%d+%d+%d", retrySpec, b.initial, b.factor, b.max, b.jitter)
}

const retrySpec = "r1+"

// backoffOf is the inverse of spec.
func backoffOf(spec string) (b backoff, ok bool) {
	numbers, is := strings.CutPrefix(spec, retrySpec)
	fields := strings.Split(numbers, "+")
	to := []*int64{&b.initial, &b.factor, &b.max, &b.jitter}
	if !is || len(fields) != len(to) {
		return b, false
	}
	for i, f := range fields {
		n, ok := parseCount([]byte(f))
		if !ok {
			return b, false
		}
		*to[i] = n
	}
	return b, len(b.faults()) == 0 && b.spec() == spec
}

// faults say what cannot be.
func (b backoff) faults() (all []string) {
	for _, f := range []struct {
		is   bool
		says string
	}{
		{b.initial < 1, "backoff.initial is below a millisecond"},
		{b.max < b.initial, "backoff.max is below backoff.initial"},
		{b.max > maxDelayMillis/2, "backoff.max is more than 146 years"},
		{b.factor < thousand || b.factor > maxFactor, "backoff.factor is not 1 to " + strconv.Itoa(maxFactor/thousand)},
		{b.jitter < 0 || b.jitter > thousand, "backoff.jitter is not 0 to 1"},
	} {
		if f.is {
			all = append(all, f.says)
		}
	}
	return all
}

// pause is how long to wait after a number of rounds, in ms. Its jitter follows from the record's offset and from the round, so a replay finds
// the same.
func (b backoff) pause(rounds int, offset int64) int64 {
	pause, most, left := b.middle(rounds)
	if most == 0 {
		return pause
	}
	share := spread(uint64(offset)<<20 + uint64(left))
	return max(pause-most+int64(share>>1)%(2*most+1), 1)
}

// bounds are the shortest and the longest pause after a number of rounds, in ms, whatever the offset.
func (b backoff) bounds(rounds int) (least, most int64) {
	pause, jitter, _ := b.middle(rounds)
	return max(pause-jitter, 1), pause + jitter
}

// middle is the pause without its jitter, by how much that makes it longer or shorter at most, and the rounds that are left when it grows no more.
func (b backoff) middle(rounds int) (pause, most int64, left int) {
	pause = b.initial
	for ; rounds > 0 && pause < b.max; rounds-- {
		next := pause * b.factor / thousand // 146 years and maxFactor are no more than half of what there is room for
		if b.factor == thousand {
			break
		}
		pause = max(next, pause+1)
	}
	pause = min(pause, b.max)
	return pause, pause * b.jitter / thousand, rounds
}
