package ahead

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// fetchBytes is what one answer has at most, unless a batch is larger. One is under way while another one is decoded.
const fetchBytes = 1 << 20

// answer is one part of a log as its leader has sent it.
type answer struct {
	from int64
	part *kmsg.FetchResponseTopicPartition
	err  error
}

// errNothing: the leader sends nothing where something was committed. It may not know yet that it is, having just become the leader.
var errNothing = errors.New("the leader sends nothing")

// errShort: what was asked for has ended before its end.
var errShort = errors.New("the log ends before that")

// Read calls fn with the committed records of a partition from an offset on, up to, but without, another one, markers of transactions
// included, until fn returns false. It calls passed with the offset that was reached after each part, if that is not nil.
func Read(ctx context.Context, cl *kgo.Client, tp kafka.TopicPartition, id kafka.TopicID, from, to int64, fn func(*kgo.Record) bool, passed func(int64)) error {
	return (&leaders{cl: cl}).read(ctx, tp, id, from, to, fetchBytes, fn, passed, nil)
}

// read is Read with answers of some size. With spares the records are used again when fn has returned.
func (l *leaders) read(ctx context.Context, tp kafka.TopicPartition, id kafka.TopicID, from, to int64, atMost int32, fn func(*kgo.Record) bool, passed func(int64), again *spares) error {
	var pools []kgo.Pool
	if again != nil {
		pools = append(pools, again)
	}
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan answer)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.fetchAll(ctx, tp, id, from, to, atMost, answers)
	}()
	defer func() { <-done }()
	defer cancel()
	for from < to {
		var a answer
		select {
		case a = <-answers:
		case <-done:
			a.err = cmp.Or(ctx.Err(), errShort)
		}
		if a.err != nil {
			return fmt.Errorf("read %s at offset %d of %d: %w", tp, from, to, a.err)
		}
		records, next, err := kafka.Decode(tp, a.from, a.part, pools...)
		if err != nil {
			return fmt.Errorf("read %s at offset %d of %d: %w", tp, from, to, err)
		}
		for _, r := range records {
			if r.Offset >= to {
				break
			}
			if !fn(r) {
				return nil
			}
		}
		for _, r := range records {
			r.Recycle()
		}
		if from = min(max(next, kafka.Beyond(a.from, a.part)), to); passed != nil {
			passed(from)
		}
	}
	return nil
}

// fetchAll asks for one part after the other, one ahead of what is taken.
func (l *leaders) fetchAll(ctx context.Context, tp kafka.TopicPartition, id kafka.TopicID, from, to int64, atMost int32, answers chan<- answer) {
	for from < to {
		a := answer{from: from}
		a.err = l.ask(ctx, tp, func(leader *kgo.Broker) (err error) {
			if a.part, err = kafka.FetchOnce(ctx, leader, tp, id, a.from, atMost); err != nil {
				return err
			}
			if from = kafka.Beyond(a.from, a.part); from == a.from {
				return errNothing
			}
			return nil
		})
		select {
		case answers <- a:
		case <-ctx.Done():
			return
		}
		if a.err != nil {
			return
		}
	}
}

// leaders remembers which broker leads a partition. It may be used by many goroutines.
type leaders struct {
	cl *kgo.Client

	mu      sync.Mutex
	known   map[kafka.TopicPartition]int32
	trouble trouble
}

// of is the leader of a partition, looked up with those of its whole topic where it is not known.
func (l *leaders) of(ctx context.Context, tp kafka.TopicPartition) (*kgo.Broker, error) {
	if leader, has := l.last(tp); has {
		return l.cl.Broker(int(leader)), nil
	}
	// Not under the lock: another goroutine that asks meanwhile must not wait longer than its own context.
	asking, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	md, err := kadm.NewClient(l.cl).Metadata(asking, tp.Topic)
	if err == nil {
		err = md.Topics[tp.Topic].Err
	}
	if err != nil {
		return nil, fmt.Errorf("leader of %s: %w", tp, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[kafka.TopicPartition]int32{}
	}
	for _, p := range md.Topics[tp.Topic].Partitions {
		if p.Leader >= 0 {
			l.known[kafka.TopicPartition{Topic: tp.Topic, Partition: p.Partition}] = p.Leader
		}
	}
	leader, has := l.known[tp]
	if !has {
		return nil, fmt.Errorf("leader of %s: %w", tp, kerr.LeaderNotAvailable)
	}
	return l.cl.Broker(int(leader)), nil
}

// last is the leader of a partition as last looked up.
func (l *leaders) last(tp kafka.TopicPartition) (leader int32, has bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	leader, has = l.known[tp]
	return leader, has
}

// ask has the leader of a partition asked, and once more for some time when that is in vain and may be over soon.
func (l *leaders) ask(ctx context.Context, tp kafka.TopicPartition, do func(*kgo.Broker) error) error {
	for tries := 1; ; tries++ {
		leader, err := l.of(ctx, tp)
		if err == nil {
			err = do(leader)
		}
		if err == nil && tries > 1 {
			l.trouble.over()
		}
		if err == nil || ctx.Err() != nil || !kafka.IsPassing(err) || l.trouble.lasts() && tries > 1 { // first it may have been one from memory
			return err
		}
		l.mu.Lock()
		delete(l.known, tp)
		l.mu.Unlock()
		wait.For(ctx, 100*time.Millisecond)
	}
}

// trouble is with brokers that are asked in vain. It is waited for once that it is over, and not for each partition.
type trouble struct {
	mu           sync.Mutex
	began, again time.Time // the first and the last time in a row
}

// lasts is called when it was in vain once more. It reports whether patience is over.
func (t *trouble) lasts() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.again) > patience {
		t.began = now
	}
	t.again = now
	return now.Sub(t.began) > patience
}

// over is called when it was in vain and then was not: what comes next, as where brokers are restarted one after the other, is waited for anew.
func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.again = time.Time{}
}

// reader reads for one partition.
type reader struct {
	*Looker
	got      *Looked
	until    time.Time // zero: it takes as long as it takes
	enough   func(last Pending, chosen bool) bool
	expected int64 // the offset up to which Progress knows
}

// expect has Progress know how far it is going to be read.
func (r *reader) expect(to int64) {
	if r.expected = max(r.expected, r.got.Position()); to > r.expected && r.Progress != nil {
		r.Progress(0, to-r.expected)
		r.expected = to
	}
}

// read takes in the log up to an offset.
func (r *reader) read(ctx context.Context, to int64) error {
	p := r.got.Partition
	if p.Position() >= to || r.got.Stopped {
		return nil
	}
	at := p.Position()
	return r.leaders().read(ctx, r.got.TopicPartition, r.got.ID, at, to, fetchBytes, func(rec *kgo.Record) bool {
		r.got.Records++
		held := p.n
		p.Accept(rec)
		r.got.Stopped = r.enough != nil && p.Queue() && p.n > held && r.enough(p.last()) || r.got.Records%1024 == 0 && !r.until.IsZero() && time.Now().After(r.until)
		return !r.got.Stopped
	}, func(offset int64) {
		p.Pass(offset)
		if r.Progress != nil {
			r.Progress(offset-at, 0)
		}
		at = offset
	}, &spares{})
}

// spares are the records of answers that have been taken in. It belongs to one goroutine.
type spares struct{ free [][]kgo.Record }

// GetRecords and PutRecords make it a kgo.PoolRecords.
func (s *spares) GetRecords(n int) []kgo.Record {
	for i, rs := range s.free {
		if cap(rs) >= n {
			s.free = slices.Delete(s.free, i, i+1)
			return rs[:0]
		}
	}
	return make([]kgo.Record, 0, n)
}

// mostSpares is how many are kept: an answer has some dozens of batches.
const mostSpares = 100

func (s *spares) PutRecords(rs []kgo.Record) {
	if len(s.free) < mostSpares {
		s.free = append(s.free, rs)
	}
}

const (
	farApart  = 20_000    // offsets: what lies between records that are farther apart is not read
	someBytes = 256 << 10 // of one answer, for a record by itself
)

// Find calls fn with the records at some offsets, which rise, and their places in the list. What is not there any more is left out.
func (l *Looker) Find(ctx context.Context, got *Looked, offsets []int64, fn func(i int, r *kgo.Record)) error {
	for first := 0; first < len(offsets); {
		last := first
		for last+1 < len(offsets) && offsets[last+1]-offsets[last] < farApart {
			last++
		}
		at, atMost := first, int32(fetchBytes)
		if offsets[last]-offsets[first] < 1000 {
			atMost = someBytes
		}
		err := l.leaders().read(ctx, got.TopicPartition, got.ID, offsets[first], offsets[last]+1, atMost, func(r *kgo.Record) bool {
			for at <= last && offsets[at] < r.Offset {
				at++
			}
			if at <= last && offsets[at] == r.Offset {
				fn(at, r)
				at++
			}
			return at <= last
		}, nil, nil)
		gone := 0
		if errors.Is(err, kerr.OffsetOutOfRange) {
			gone, err = l.gone(ctx, got.TopicPartition, offsets[first:last+1])
		}
		switch {
		case err != nil:
			return err
		case gone > 0:
			first += gone // and the others are read
		default:
			first = last + 1
		}
	}
	return nil
}

// gone is how many of some offsets, which rise, lie below the beginning of the log.
func (l *Looker) gone(ctx context.Context, tp kafka.TopicPartition, offsets []int64) (n int, err error) {
	b, err := l.Bounds(ctx, tp)
	n, _ = slices.BinarySearch(offsets, b.Start)
	return n, err
}
