package state

import "testing"

// What has overtaken is forgotten some time after W has passed it, whatever is noted meanwhile: with long delays something with a greater key always is.
func TestOvertakersAreForgotten(t *testing.T) {
	const delay, steps, each = 1000, 10, 500
	l, noted, most := NewLedger(0), int64(0), 0
	note := func(due int64) int64 {
		seq := noted
		l.Overtake(Key{Due: due, Seq: seq})
		noted++
		return seq
	}
	for now := int64(0); now < steps*delay; now += delay / each {
		seq := note(now + delay)
		for _, back := range []int64{0, 1, each - 1} {
			if old := seq - back; old >= 0 && !l.Overtaken(old) {
				t.Fatalf("at %d what was noted %d before is forgotten, and W has not passed it", now, back)
			}
		}
		l.Passed(Key{Due: now, Seq: seq})
		most = max(most, l.overtakers.count+l.overtook.count)
		if old := seq - 3*each; old >= 0 && l.Overtaken(old) {
			t.Fatalf("at %d what W has passed two delays ago is kept", now)
		}
	}
	if most > 2*each+2 || most < each {
		t.Errorf("%d are kept, of %d that W has not passed", most, each)
	}
	l.Passed(Key{Due: (steps + 1) * delay, Seq: noted})
	if n := l.overtakers.count + l.overtook.count; n != 0 || l.Overtaken(noted-1) {
		t.Errorf("W has passed all of them, and %d are kept", n)
	}
}

// One that is noted once more with a greater key is kept until W has passed that.
func TestOvertakerIsNotedAgain(t *testing.T) {
	l := NewLedger(0)
	l.Overtake(Key{Due: 10, Seq: 1})
	l.Passed(Key{Due: 5, Seq: 9}) // it is of the older generation
	l.Overtake(Key{Due: 20, Seq: 1})
	if l.Passed(Key{Due: 10, Seq: 9}); !l.Overtaken(1) {
		t.Error("it is forgotten, and W has not passed it")
	}
	if l.Passed(Key{Due: 20, Seq: 1}); l.Overtaken(1) {
		t.Error("W has passed it, and it is kept")
	}
}
