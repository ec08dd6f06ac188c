package state

import (
	"runtime"
	"testing"
)

// What has overtaken, or was refused above W (a duplicate of an id, say: its resolve record is noted here as well), is to be forgotten when W has passed it. It is
// forgotten only when W has passed all that was ever noted. Where new ones with a later key keep coming, that never is: what is kept grows with the log.
func TestAtkOvertakersAreForgotten(t *testing.T) {
	const each, delay = 20_000_000, int64(30 * 86_400_000)
	l := NewLedger(0)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	seq, due := int64(0), int64(1_700_000_000_000)
	noted := func() {
		for i := 0; i < each; i++ {
			if l.Overtake(Key{Due: due + delay, Seq: seq}); seq%1000 == 0 {
				due++ // a million records a second
				l.Passed(Key{Due: due, Seq: seq})
			}
			seq++
		}
	}
	was := heap()
	noted()
	first := heap() - was
	due += 2 * delay // all of them were due long ago
	l.Overtake(Key{Due: due + delay, Seq: seq})
	seq++
	l.Passed(Key{Due: due, Seq: seq})
	noted()
	due += 2 * delay
	l.Overtake(Key{Due: due + delay, Seq: seq})
	seq++
	l.Passed(Key{Due: due, Seq: seq}) // W is beyond all but one
	if l.Overtaken(0) {
		t.Errorf("%d are kept, of which W has passed all but one: %d bytes, and after the first half %d", l.overtakers.count, heap()-was, first)
	}
	runtime.KeepAlive(l)
}
