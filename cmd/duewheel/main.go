// Command duewheel holds Kafka records and delivers each to its target topic when it is due.
//
// One file holds one command; config.go turns file, environment and flags into one set of
// settings, and keys.go is the list of everything that can be set.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := untilSignal(context.Background(), os.Exit)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, errShown) {
		fmt.Fprintln(os.Stderr, "duewheel:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

// errShown ends a command with exit code 1 whose output has said everything already.
var errShown = errors.New("the output says what is wrong")

// run is the whole program: main less what belongs to the process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

// untilSignal returns a context that ends with the first SIGINT or SIGTERM. The second one calls
// exit at once: a second signal means that the open transaction is not to be waited for. Its cause is the signal.
func untilSignal(parent context.Context, exit func(code int)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := range signals {
			if ctx.Err() != nil {
				exit(130)
				return
			}
			cancel(fmt.Errorf("signal %v", s))
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		<-done
		cancel(nil)
	}
}
