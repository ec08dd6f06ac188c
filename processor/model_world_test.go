package processor

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

func (m *model) openStore() {
	m.l.store = local.New(state.Options{Dir: "state", MemoryBudget: 1 << 20, Logger: m.l.log, FS: errorfs.Wrap(m.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if m.full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && !strings.HasSuffix(op.Path, "LOCK") {
			return syscall.ENOSPC
		}
		return nil
	}))}, "g", &m.l.assigned)
	m.must(m.l.store.Open())
}

// configure draws the configuration of the route.
func (m *model) configure() {
	r := testRoute(rapid.Bool().Draw(m.T, "bills allowed"))
	r.Target = "orders"
	if rapid.IntRange(0, 4).Draw(m.T, "route") == 0 {
		r.Delay = 700 * time.Millisecond
	}
	m.l.routes[testTopic] = mustRoute(r)
}

// flush writes what the store was told to the disk, which may show that it is full.
func (m *model) flush() {
	if s := m.l.store.Opened(); s != nil {
		m.withStore(s.Flush())
	}
}

// disk becomes full, or has room again.
func (m *model) disk(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "disk") == 0 {
		m.full.Store(!m.full.Load())
		m.flush()
	}
}

// withStore takes in how a call of the store ended: when it has failed, the partition goes on
// without, or is read again.
func (m *model) withStore(err error) {
	m.Helper()
	if !errors.Is(err, state.ErrFailed) {
		m.must(err)
		return
	}
	m.l.store.Failed(err)
	if m.p.live() && !m.p.Ordered() {
		m.p.Forgo()
	} else if m.p.HasStore() {
		m.restore()
	}
}

func (m *model) end() int64 { return int64(len(m.log)) }

func (m *model) append(r *kgo.Record) {
	r.Offset = m.end()
	m.log, m.clock[r.Offset] = append(m.log, r), m.now
	if !m.open {
		m.stable = m.end()
	}
}

// produce appends requests of every sort.
func (m *model) produce(t *rapid.T) {
	for range rapid.IntRange(1, 4).Draw(t, "records") {
		r := &kgo.Record{Timestamp: time.UnixMilli(m.now), Key: []byte("k"), Value: make([]byte, rapid.SampledFrom([]int{0, 10, 3000}).Draw(t, "size"))}
		if m.p.Ordered() {
			r.Timestamp = r.Timestamp.Add(rapid.SampledFrom([]time.Duration{0, 0, 900 * time.Millisecond, 5 * time.Second}).Draw(t, "ahead of the clock"))
		}
		header := func(k, v string) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)}) }
		switch rapid.IntRange(0, 9).Draw(t, "sort") {
		case 0: // without a due time: bad, or what a fixed delay asks for
		case 1:
			header(topics.HeaderUntil, "yesterday")
		case 2, 3:
			header(topics.HeaderUntil, strconv.FormatInt(m.due(t), 10))
			header(topics.HeaderTargetTopic, "bills")
		case 4:
			*r = *control(0)
		default:
			header(topics.HeaderUntil, strconv.FormatInt(m.due(t), 10))
		}
		m.append(r)
	}
}

// due is around now, within the window, or far beyond; often the same as another.
func (m *model) due(t *rapid.T) int64 {
	most := rapid.SampledFrom([]int64{0, 2, 8, 40}).Draw(t, "ahead")
	return (m.now/500 + rapid.Int64Range(-4, most).Draw(t, "due")) * 500
}

// marker ends the transactions that are open at the end of the log.
func (m *model) marker(*rapid.T) {
	if m.open {
		m.open = false
		m.append(control(0))
	}
}

// tick lets time pass; the wall clock may be set back.
func (m *model) tick(t *rapid.T) {
	m.now += rapid.SampledFrom([]int64{0, 1, 499, 500, 2000, 9000, -3000}).Draw(t, "ms")
	for offset, least := range m.clock {
		m.clock[offset] = min(least, m.now)
	}
}

// seenSince reports whether a due time is right for a record of a queue whose timestamp is ahead of
// the clock: it counts from a time at which the record was in the log.
func (m *model) seenSince(offset, due, asked int64) bool {
	delay := asked - m.log[offset].Timestamp.UnixMilli()
	return due < asked && due >= m.clock[offset]+delay && m.log[offset].Timestamp.UnixMilli() > m.clock[offset]+1000
}

// crash ends the process.
func (m *model) crash(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "crash") == 0 {
		m.comeBack(t)
	}
}

// comeBack restarts the process with what is left of its store, and maybe with another configuration.
func (m *model) comeBack(t *rapid.T) {
	switch rapid.IntRange(0, 3).Draw(t, "store") {
	case 0: // the partition starts over in the same process
	case 1: // kill -9: the operating system lives on
		m.crashStore(100)
	case 2: // power loss
		m.crashStore(0)
	case 3:
		m.l.store.Close()
		m.fs = vfs.NewCrashableMem()
		m.openStore()
	}
	if m.beside != nil && rapid.Bool().Draw(t, "written all the same") {
		m.write(m.beside.To)
	}
	if m.l.cfg.Guarantee == AtLeastOnce { // what followed the checkpoint comes again, but for what has a resolve record
		was, gone := m.resolved, m.gone()
		m.resolved, m.again = m.replayed(), was
		for offset := range was {
			if gone[offset] {
				m.resolved[offset] = true
			}
		}
	}
	m.configure()
	m.restore()
}

func (m *model) crashStore(unsynced int) {
	fs := m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(1, 2))})
	m.l.store.Close()
	m.fs = fs
	m.openStore()
}
