package pending

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Whoever may write the topic may write what looks like a copy: one that says to come from where another record lies, or that has another payload. It alters
// what it names, as that producer might have done anyway, and nothing else: all else is delivered, what is pending is counted as what it is, and
// L rises.
func TestForgedCopies(t *testing.T) {
	forged := func(offset, of, from, due int64, value string) *kgo.Record {
		r := req(of, due, "orders")
		r.Offset, r.Value = offset, []byte(value)
		r.Headers, _ = topics.AppendCopy(nil, r.Headers, testMark, topics.Copy{Seq: of, Due: due, Timestamp: testNow, From: from}, nil)
		return r
	}
	long := "what is much longer than the record that it stands for"
	for name, copies := range map[string][]*kgo.Record{
		"of another place":            {forged(3, 0, 1, ms(farMs), "0")},
		"of another place, and again": {forged(3, 0, 1, ms(farMs), "0"), forged(4, 0, 2, ms(farMs), "0"), forged(5, 0, 1, ms(farMs), "0")},
		"of the place of a copy":      {copyAt(3, 0, ms(farMs)), forged(4, 1, 3, ms(2*farMs), "0")},
		"with another payload":        {forged(3, 1, 1, ms(2*farMs), long)},
		"of all of them":              {forged(3, 0, 2, ms(farMs), long), forged(4, 1, 2, ms(2*farMs), long), forged(5, 2, 3, ms(3*farMs), long)},
		"of what was never there":     {forged(3, 0, 0, ms(2*farMs), "0"), forged(4, 2, 2, ms(farMs), "0"), resolving(5, 0, ms(2*farMs)), resolving(6, 2, ms(farMs))},
	} {
		log := append([]*kgo.Record{req(0, ms(farMs), "orders"), req(1, ms(2*farMs), "orders"), req(2, ms(3*farMs), "orders")}, copies...)
		end := int64(len(log))
		for how, begin := range map[string]func(t *testing.T, l *owner) *Partition{
			"read by its owner": func(t *testing.T, l *owner) *Partition {
				p := l.live(t)
				l.read(t, p, testNow, log...)
				return p
			},
			"read again": func(t *testing.T, l *owner) *Partition {
				return l.crashed(t, checkpointAt(end, 0, state.Key{}, state.ParserEpoch{Spec: l.route.Spec()}), log...)
			},
			"read by a standby": func(t *testing.T, l *owner) *Partition {
				c := checkpointAt(end, 0, state.Key{}, state.ParserEpoch{Spec: l.route.Spec()})
				f := l.following(t, c, log[:3]...)
				followOn(t, f, c, nil)
				for _, r := range log[3:] {
					readBy(t, f, r)
				}
				followOn(t, f, c, nil)
				p := l.handedOver(t, f, c)
				must(t, p.goLive(l.room))
				return p
			},
			"read by its owner, and again with its store": func(t *testing.T, l *owner) *Partition {
				p := l.live(t)
				l.read(t, p, testNow, log...)
				must(t, p.Flush())
				return l.crashed(t, checkpointAt(end, 0, state.Key{}, state.ParserEpoch{Spec: l.route.Spec()}), log...)
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				l := testOwner(t)
				p := begin(t, l)
				must(t, Check(p))
				must(t, p.Load(ms(4*farMs), l.room))
				var delivered []int64
				for pt := p.Take(ms(4*farMs), nil, 1, anyBytes); pt != nil; pt = p.Take(ms(4*farMs), nil, 1, anyBytes) {
					for _, it := range pt.Items {
						if !it.Resolve {
							delivered = append(delivered, it.Key.Seq)
						}
					}
					l.happened(pt)
					must(t, p.Load(ms(4*farMs), l.room))
					must(t, Check(p))
				}
				equals(t, "delivered", delivered, []int64{0, 1, 2})
				f := p.Figures(ms(4 * farMs))
				equal(t, "pending when all is delivered", f.Pending, 0)
				equal(t, "bytes", f.Bytes, 0)
				equal(t, "low water", p.order.low(end), end)
			})
		}
	}
}
