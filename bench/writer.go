package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/wait"
)

// writer writes the requests of a stage, to all delay topics in turn, spread evenly over their partitions.
type writer struct {
	s      *stage
	cl     *kgo.Client
	failed atomic.Pointer[error] // the first
}

func (s *stage) newWriter(more ...kgo.Opt) (*writer, error) {
	cl, err := s.r.client(append(more, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(2*time.Millisecond))...)
	if err != nil {
		return nil, err
	}
	return &writer{s: s, cl: cl}, nil
}

// write hands over a request. Acked, if any, is called with the index of its delay topic when it is acknowledged.
func (w *writer) write(ctx context.Context, st stamp, i int, acked func(topic int)) {
	topic := i % len(w.s.delays)
	w.cl.Produce(ctx, w.s.request(st, w.s.delays[topic]), func(_ *kgo.Record, err error) {
		switch {
		case err != nil:
			w.failed.CompareAndSwap(nil, &err)
		case acked != nil:
			acked(topic)
		}
	})
}

// flush waits until everything is acknowledged.
func (w *writer) flush(ctx context.Context) error {
	err := errors.Join(w.cl.Flush(ctx), ctx.Err())
	if first := w.failed.Load(); first != nil {
		return errors.Join(*first, err)
	}
	return err
}

// all writes n requests as fast as the cluster takes them.
func (w *writer) all(ctx context.Context, n int, make func(i int) stamp) error {
	for i := 0; i < n && ctx.Err() == nil && w.failed.Load() == nil; i++ {
		w.write(ctx, make(i), i, nil)
	}
	return w.flush(ctx)
}

// paced writes requests at a rate until there are n or ctx ends, and returns how many. What was handed over is written as long as
// writing lasts, which may be longer than ctx so that everything can be waited for.
func (w *writer) paced(ctx, writing context.Context, rate, n int, make func(i int) stamp, acked func(topic int)) (i int, err error) {
	for start := time.Now(); i < n && wait.For(ctx, time.Millisecond) && w.failed.Load() == nil; {
		for until := min(n, int(time.Since(start)/(time.Second/time.Duration(rate)))+1); i < until; i++ {
			w.write(writing, make(i), i, acked)
		}
	}
	return i, w.flush(writing)
}

// fill is all of a writer that has nothing else to write.
func (s *stage) fill(ctx context.Context, n int, make func(i int) stamp) error {
	w, err := s.newWriter()
	if err != nil {
		return err
	}
	defer w.cl.Close()
	return w.all(ctx, n, make)
}

// holdLimit is how long held requests may stay held; a cluster allows 15 minutes unless that was changed.
const holdLimit = 10 * time.Minute

// hold writes n requests in a transaction, so that no read_committed consumer sees any of them until reveal is called, and
// then all of them at once. Forget ends a hold that may not have been revealed.
func (s *stage) hold(ctx context.Context, n int, make func(i int) stamp) (reveal func(context.Context) error, forget func(), err error) {
	w, err := s.newWriter(kgo.TransactionalID(s.name+".writer"), kgo.TransactionTimeout(holdLimit))
	if err != nil {
		return nil, nil, err
	}
	held := false
	forget = func() {
		if held { // else the broker would wait for the end of holdLimit
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
			defer cancel()
			_ = w.cl.AbortBufferedRecords(ctx)
			_ = w.cl.EndTransaction(ctx, kgo.TryAbort)
		}
		w.cl.Close()
	}
	if err = w.cl.BeginTransaction(); err == nil {
		held = true
		err = w.all(ctx, n, make)
	}
	if err != nil {
		forget()
		return nil, nil, fmt.Errorf("write requests: %w", err)
	}
	var firsts []*kgo.Record // of each delay topic
	for _, topic := range s.delays {
		firsts = append(firsts, &kgo.Record{Topic: topic})
	}
	return func(ctx context.Context) error {
		if err := producer.Stored(ctx, w.cl, slices.Values(firsts)); err != nil {
			return err
		}
		err := w.cl.EndTransaction(ctx, kgo.TryCommit)
		held = err != nil
		return err
	}, forget, nil
}

// stream writes requests at a steady rate until it is ended. Each is due some time after it is written: they do not come in
// the order in which they are due.
type stream struct {
	stop    context.CancelFunc
	done    chan struct{}
	written int // set before done is closed, as err is
	err     error
}

func (s *stage) stream(ctx context.Context, rate int) (*stream, error) {
	w, err := s.newWriter()
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	st := &stream{stop: cancel, done: make(chan struct{})}
	soonest, spread := s.r.o.soonest, uint64(s.r.o.latest-s.r.o.soonest)
	go func() {
		defer close(st.done)
		defer w.cl.Close()
		st.written, st.err = w.paced(running, context.WithoutCancel(ctx), rate, math.MaxInt, func(i int) stamp {
			return stamp{due: time.Now().Add(soonest + time.Duration(noise(uint64(i))%spread)).UnixMilli(), mark: markMeasured, index: uint32(i)}
		}, nil)
	}()
	return st, nil
}

// end ends the stream and returns how many requests it has written. It may be called again.
func (st *stream) end() (int, error) {
	st.stop()
	<-st.done
	if st.err != nil {
		return st.written, errors.Join(errors.New("write requests"), st.err)
	}
	return st.written, nil
}
