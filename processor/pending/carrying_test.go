package pending

import (
	"slices"
	"testing"

	"github.com/duewheel/duewheel/topics"
)

// What is carried lies below O and is pending: what lies above is read again by the next owner, and of what was taken away nothing is written.
func TestWhatMayBeCarried(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(50), "orders"), req(1, ms(60), "orders"), req(2, ms(70), "orders"))
	l.happened(p.Checkpoint())
	l.read(t, p, testNow, req(3, ms(80), "orders"))
	equals(t, "wanted", Carrying{p}.Wanted(0, 10, 10), []int64{0, 1, 2})
	carried := func() (offsets []int64) {
		for offset := range int64(4) {
			if _, _, is := (Carrying{p}).Copy(req(offset, ms(50+10*offset), "orders")); is {
				offsets = append(offsets, offset)
			}
		}
		return offsets
	}
	equals(t, "carried", carried(), []int64{0, 1, 2})
	l.read(t, p, testNow, cancelOf(4, topics.Handle{Partition: testID.Partition, Offset: 1, Due: ms(60)}))
	must(t, p.Load(testNow, l.room))
	equals(t, "carried when one was cancelled", carried(), []int64{0, 2})
}

// The checkpoint beside copies passes nothing that a turn has.
func TestCopiesBesideATurnKeepO(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(50), "orders"), req(1, ms(60), "orders"))
	l.happened(p.Checkpoint())
	l.read(t, p, testNow, req(2, ms(70), "orders"))
	p.Take(ms(50), nil, 1, anyBytes)
	p.Begin()
	carries := Carrying{p}.Take(slices.Values([]topics.Copy{{Seq: 1, Due: ms(60), From: 1}}))
	equal(t, "O", carries.To.Offset, 2)
}

// What was put back is tried again when the last of it may be, whichever came last.
func TestRepeatsWaitForTheLast(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow, "orders"))
	first, second := p.Take(testNow, nil, 1, anyBytes), p.Take(testNow, nil, 1, anyBytes)
	p.Repeat(second, testNow+500)
	p.Repeat(first, 0)
	p.Trust(testNow)
	due, _ := p.Next()
	equal(t, "it is tried again at", due, testNow+500)
	equal(t, "wanted before", p.Wants(testNow+499), 0)
	equal(t, "wanted then", p.Wants(testNow+500), 1)
}
