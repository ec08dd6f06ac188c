package pending

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// carried has copies appended of what lies at some offsets, as a turn that was committed. They lie below an offset.
func (l *owner) carried(p *Partition, end int64, log ...*kgo.Record) {
	var copies []topics.Copy
	for _, r := range log {
		if _, c, is := (Carrying{p}).Copy(r); is {
			copies = append(copies, c)
		}
	}
	pt := Carrying{p}.Take(slices.Values(copies))
	p.Begin()
	pt.To.Appended = true
	l.happened(pt)
	Carrying{p}.Done(end)
	p.Appended(end)
}

// decided has a turn resolve what was read, and writes a checkpoint.
func (l *owner) decided(t *testing.T, p *Partition) {
	t.Helper()
	must(t, p.Load(testNow, l.room))
	l.happened(p.Take(testNow, nil, 100, anyBytes))
	if pt := p.Checkpoint(); pt != nil {
		l.happened(pt)
	}
	must(t, Check(p))
}

// L stays at or below what copies were made of until O has passed all of them, and not only the first: else a standby would pass over what has cancelled a
// record meanwhile, and take the copy for pending.
func TestLStaysUntilAllCopiesAreRead(t *testing.T) {
	for name, turns := range map[string]int{"of one turn": 1, "of two turns": 2} {
		t.Run(name, func(t *testing.T) {
			log := []*kgo.Record{req(0, ms(farMs), "orders"), req(1, ms(2*farMs), "orders"), cancelling(2, handleOf(1, ms(2*farMs))), copyAt(3, 0, ms(farMs)), copyAt(4, 1, ms(2*farMs))}
			l := testOwner(t)
			p := l.live(t)
			l.read(t, p, testNow, log[:2]...)
			l.happened(p.Checkpoint())
			standby := testOwner(t)
			f := standby.following(t, p.committed, log[:2]...)
			if turns == 1 {
				l.carried(p, 5, log[:2]...)
			} else {
				l.carried(p, 4, log[0])
				l.carried(p, 5, log[1])
			}
			l.read(t, p, testNow, log[2:4]...)
			l.decided(t, p)
			c := p.committed
			equal(t, "O", c.Offset, 4)
			equal(t, "L", c.LowWater <= 1, true)

			readBy(t, f, log[2]) // and not yet the copy behind it, when the owner is gone
			followOn(t, f, c, nil)
			p, err := standby.assign(c, 0, 5, 5)
			must(t, err)
			standby.read(t, p, testNow, log[p.start:]...)
			must(t, p.goLive(standby.room))
			must(t, p.Load(testNow, standby.room))
			must(t, p.Load(ms(3*farMs), standby.room))
			var delivered []int64
			for pt := p.Take(ms(3*farMs), nil, 100, anyBytes); pt != nil; pt = p.Take(ms(3*farMs), nil, 100, anyBytes) {
				for _, it := range pt.Items {
					if it.Effect == EffectNone {
						delivered = append(delivered, it.Key.Seq)
					}
				}
				standby.happened(pt)
				must(t, p.Load(ms(3*farMs), standby.room))
			}
			equals(t, "delivered", delivered, []int64{0})
		})
	}
}

// What says that a copy is stale says what has taken its record away, also where that was committed before the copy was read, and where another owner reads
// it: a group that is new takes no other word for it, nor does who asks what has become of the record.
func TestStaleCopySaysByWhat(t *testing.T) {
	for name, by := range map[string]string{"by its handle": handleOf(0, ms(farMs)), "by its id": "a"} {
		for _, storeless := range []bool{false, true} {
			first := withID(req(0, ms(farMs), "orders"), "a")
			c := withID(req(0, ms(farMs), "orders"), "a")
			c.Offset = 2
			c.Headers, _ = topics.AppendCopy(nil, c.Headers, testMark, topics.Copy{Due: ms(farMs), Timestamp: testNow}, nil)
			log := []*kgo.Record{first, cancelling(1, by), c}
			begin := func(t *testing.T) (*owner, *Partition) {
				l := testOwner(t)
				if storeless {
					l.store = nil
				}
				p := l.live(t)
				l.read(t, p, testNow, log[0])
				l.happened(p.Checkpoint())
				l.carried(p, 3, log[0])
				l.read(t, p, testNow, log[1])
				l.decided(t, p)
				equal(t, "O", p.committed.Offset, 2)
				return l, p
			}
			says := func(t *testing.T, l *owner, p *Partition, by int64) {
				t.Helper()
				must(t, p.Load(testNow, l.room))
				pt := p.Take(testNow, nil, 100, anyBytes)
				equal(t, "it is", pt.Items[0].Effect, EffectStale)
				equal(t, "by", pt.Items[0].By, by)
			}
			t.Run(name, func(t *testing.T) {
				l, p := begin(t)
				l.read(t, p, testNow, log[2])
				says(t, l, p, 1)
			})
			t.Run(name+", when W has passed it", func(t *testing.T) {
				l, p := begin(t)
				p.lateUpTo = state.Key{Due: ms(2 * farMs)}
				l.read(t, p, testNow, log[2])
				says(t, l, p, 1)
			})
			t.Run(name+", in another life", func(t *testing.T) {
				l, p := begin(t)
				says(t, l, l.crashed(t, p.committed, log...), 1)
			})
			t.Run(name+", in another life, after it was delivered before what was due first", func(t *testing.T) {
				l, p := begin(t)
				delivered := append(slices.Clone(log[:2]), resolving(2, 0, ms(farMs)), control(3), c)
				delivered[4].Offset = 4
				o := p.committed
				o.Offset = 4
				says(t, l, l.crashed(t, o, delivered...), 0)
			})
		}
	}
}
