package pending

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// A record was delivered while a copy of it was on its way, and of the two the log has the copy alone. Its id is remembered all the same, also by what lies before the
// copy, unless something has taken that away.
func TestRemembersWhatWasGivenUp(t *testing.T) {
	later := func(r *kgo.Record) *kgo.Record {
		r.Timestamp = time.UnixMilli(ms(2 * time.Hour.Milliseconds()))
		return r
	}
	for name, test := range map[string]struct {
		log     []*kgo.Record // from offset 1 on, and a copy of 0 behind
		refused topics.Code
		left    int64
	}{
		"before its copy":             {[]*kgo.Record{withID(req(1, ms(farMs), "orders"), "a")}, topics.CodeDuplicateID, 1},
		"another id":                  {[]*kgo.Record{withID(req(1, ms(farMs), "orders"), "b")}, "", 1},
		"cancelled by its id":         {[]*kgo.Record{cancelling(1, "a"), withID(req(2, ms(farMs), "orders"), "a")}, "", 0},
		"cancelled by its handle":     {[]*kgo.Record{cancelling(1, handleOf(0, ms(1000))), withID(req(2, ms(farMs), "orders"), "a")}, "", 0},
		"cancelled behind both":       {[]*kgo.Record{withID(req(1, ms(farMs), "orders"), "a"), cancelling(2, "a")}, topics.CodeDuplicateID, 0},
		"cancelled beside another":    {[]*kgo.Record{later(withID(req(1, ms(2*farMs), "orders"), "a")), later(cancelling(2, "a"))}, "", 0},
		"written when its time is up": {[]*kgo.Record{later(withID(req(1, ms(2*farMs), "orders"), "a"))}, "", 1},
	} {
		for _, storeless := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				l := remembering(t, time.Hour)
				if storeless {
					l.store = nil
				}
				end := int64(len(test.log)) + 2
				first := copyAt(end-1, 0, ms(1000))
				first.Headers, _ = topics.AppendCopy(nil, withID(req(0, ms(1000), "orders"), "a").Headers, testMark, topics.Copy{Due: ms(1000), Timestamp: testNow}, nil)
				p, err := l.assign(state.Checkpoint{Offset: 1, LowWater: 1, GivenUp: 1, Watermark: state.Key{Due: ms(1000)}, Appended: true}, 1, end, end)
				must(t, err)
				l.read(t, p, ms(1000), append(test.log, first)...)
				must(t, p.goLive(l.room))
				must(t, p.Load(ms(1000), l.room))
				must(t, Check(p))
				pt := p.Take(ms(1000), nil, 100, anyBytes)
				refused := topics.Code("")
				for i := range pt.Items {
					if refusal := pt.Items[i].Refusal; refusal != nil {
						refused = refusal.Code
					}
				}
				equal(t, "refused", refused, test.refused)
				equal(t, "remembered", p.Figures(ms(1000)).Remembered, test.left)
			})
		}
	}
}
