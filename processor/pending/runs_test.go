package pending

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Wrong bytes in the store are an error of whatever meets them first, and the store has failed: the partition goes on without it, and the log tells again what
// they were. They do not end the process, and nothing takes them for a record that is not there.
func TestWrongBytesInTheStore(t *testing.T) {
	for name, meet := range map[string]func(p *Partition, l *owner) error{
		"loaded":   func(p *Partition, l *owner) error { return p.Load(ms(farMs), l.room) },
		"resolved": func(p *Partition, l *owner) error { return taken(p, resolving(1, 0, ms(farMs))) },
		"cancelled": func(p *Partition, l *owner) error {
			cancel := &kgo.Record{Offset: 1, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(handleOf(0, ms(farMs)))}}}
			return errors.Join(taken(p, cancel), p.Load(testNow, l.room))
		},
		"carried": func(p *Partition, l *owner) error {
			return errors.Join(taken(p, copyAt(1, 0, ms(farMs)), copyAt(2, 0, ms(farMs))), p.Load(testNow, l.room))
		},
	} {
		for what, wrong := range map[string]func(run []byte) []byte{
			"nothing": func([]byte) []byte { return nil },
			"cut off": func(run []byte) []byte { return run[:len(run)-1] },
			"no end":  func(run []byte) []byte { return append(run, 0) },
		} {
			l := testOwner(t)
			p := l.live(t)
			far := req(0, ms(farMs), "orders")
			l.read(t, p, testNow, far)
			must(t, p.store.Put(state.Key{Due: ms(farMs), Seq: 0}, wrong(AppendRecord(nil, far))))
			must(t, p.Flush())
			if err := meet(p, l); !errors.Is(err, state.ErrFailed) || !errors.Is(err, state.ErrCorrupt) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if err := p.Flush(); !errors.Is(err, state.ErrFailed) {
				t.Errorf("%s, %s: what comes next says %v", name, what, err)
			}
			p.Forgo()
			equal(t, name+", "+what+": pending", p.Pending() > 0, true)
		}
	}
}

// taken has a partition take in some records.
func taken(p *Partition, rs ...*kgo.Record) error {
	for _, r := range rs {
		if _, err := p.Accept(r, testNow); err != nil {
			return err
		}
	}
	return p.Sync()
}

// A store whose wrong bytes are met while it is brought to a checkpoint is emptied, and all is read from the log.
func TestWrongBytesOfWhatIsInherited(t *testing.T) {
	l := testOwner(t)
	p := l.live(t)
	l.read(t, p, testNow, req(0, ms(farMs), "orders"), req(1, ms(farMs), "orders"))
	must(t, p.store.Put(state.Key{Due: ms(farMs), Seq: 1}, nil))
	must(t, p.Flush())
	p, err := l.assign(state.Checkpoint{Offset: 1}, 0, 2, 2) // it was never accepted
	must(t, err)
	equal(t, "start", p.start, 0)
	equal(t, "pending", p.Pending(), 0)
}
