package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/setting"
)

// Serve is the whole of a child: a processor, as `duewheel run` would run it. Its order comes from in, and complete adds what does not
// travel: how to reach the cluster. It ends in order with ctx, and at once with an error when in ends, since then the parent has.
func Serve(ctx context.Context, in io.Reader, out, log io.Writer, complete func(*Order) error) error {
	reader := bufio.NewReader(in)
	line, err := reader.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what the replica is to do: %w", err)
	}
	var o Order
	if err := json.Unmarshal(line, &o); err != nil {
		return fmt.Errorf("read what the replica is to do: %w", err)
	}
	s := speaker{to: json.NewEncoder(out)}
	s.tell(Message{Heeds: true})
	o.Events = func(e processor.Event) { s.tell(Message{Event: &e}) }
	o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: o.Level, ReplaceAttr: plainErrors})).With("replica", o.Instance)
	if err := complete(&o); err != nil {
		return err
	}
	setting.Fill(&o.Config)
	if os.Getenv("GOMEMLIMIT") == "" { // as duewheel run does
		debug.SetMemoryLimit(processor.HeapLimit(o.MemoryBudget))
	}
	processor.Parallelize()
	p, err := processor.New(o.Config)
	if err != nil {
		return err
	}
	if o.Admin != "" {
		s.tell(Message{Admin: o.Admin})
	}
	if o.Presence != "" {
		listener, err := net.Listen("tcp", o.Presence)
		if err != nil {
			return err
		}
		mux := http.NewServeMux()
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			return err
		}
		mux.Handle("GET "+processor.PresencePath, p.Presence(":"+port)) // as of one that listens on every interface
		server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
		defer server.Close()
		go func() { _ = server.Serve(listener) }() // until it is closed
	}
	if o.Beside != nil {
		var beside sync.WaitGroup
		defer beside.Wait()
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		beside.Go(func() { o.Beside(running, p) })
	}
	return s.run(ctx, p, reader, o.CountEvery)
}

// run returns when the processor has ended, or the parent.
func (s *speaker) run(ctx context.Context, p *processor.Processor, parent io.Reader, countEvery time.Duration) error {
	orphaned := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, parent)
		close(orphaned)
	}()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	var count <-chan time.Time // never, unless asked for
	if countEvery > 0 {
		tick := time.NewTicker(countEvery)
		defer tick.Stop()
		count = tick.C
	}
	for {
		select {
		case err := <-ended:
			return err
		case <-orphaned:
			return errors.New("the process that started this replica has ended")
		case <-count:
			s.tell(Message{Counts: countsOf(p.Stats())})
		}
	}
}

// speaker tells the parent, one thing at a time.
type speaker struct {
	mu sync.Mutex
	to *json.Encoder
}

// tell ignores errors: a parent that is gone is noticed by its end of the standard input.
func (s *speaker) tell(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.to.Encode(m)
}

// plainErrors keeps stack traces out of the log.
func plainErrors(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}
