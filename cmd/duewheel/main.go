// Command duewheel holds Kafka records and delivers each to its target topic when it is due.
//
// One file holds one command; config.go turns file, environment and flags into one set of
// settings, and settings.go, with processor.Config, is the list of everything that can be set.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	ctx, stop := untilSignal(context.Background(), signals, os.Exit)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	signal.Stop(signals)
	if err != nil && !errors.Is(err, errShown) && !errors.As(err, new(logged)) {
		fmt.Fprintln(os.Stderr, "duewheel:", uncounted(told(ctx, err)))
	}
	stop()
	if err != nil {
		os.Exit(exitCode(err))
	}
}

// told is an error as people read it: of what a signal has ended, that it has.
func told(ctx context.Context, err error) error {
	why := context.Cause(ctx)
	switch {
	case why == nil:
		return err
	case strings.HasPrefix(err.Error(), why.Error()): // and more, such as where to go on
		return fmt.Errorf("ended by %w", err)
	case errors.Is(err, context.Canceled), errors.Is(err, why):
		return fmt.Errorf("ended by %w", why)
	}
	return err
}

// countOfBrokers is what the client (kadm v1.20) says before what one of several brokers that it has asked says.
var countOfBrokers = regexp.MustCompile(`request \w+ has \d+ separate shard errors, first: `)

// uncounted is an error in words that do not count what the client has asked.
func uncounted(err error) string { return countOfBrokers.ReplaceAllString(err.Error(), "") }

// errShown ends a command with exit code 1, and prints nothing: the command's output has said already what is wrong.
var errShown = errors.New("the output says what is wrong")

// logged is an error that the log has told of already.
type logged struct{ error }

func (l logged) Unwrap() error { return l.error }

// lastWords is the log for what the process says as it ends; nil: that is for people.
var lastWords atomic.Pointer[slog.Logger]

// sayLast says why the process ends at once.
func sayLast(what string) {
	if log := lastWords.Load(); log != nil {
		log.Error(what)
		return
	}
	fmt.Fprintln(os.Stderr, "duewheel:", what)
}

// findings is an error of a command that could look, or do its work, and found that not all is well.
type findings struct{ error }

func (f findings) Unwrap() error { return f.error }

// exitCode is how the process ends after an error: 1 for what was found, and 2 where it could not be told or done, by a mistake in the flags or
// the configuration, by brokers that do not answer, or by a right that is missing. Of several errors one of these is enough: what was not found may be
// where it could not be looked for.
func exitCode(err error) int {
	var found findings
	var several problems
	switch {
	case err == nil:
		return 0
	case errors.As(err, &several):
		return exitCodeOf(several)
	case errors.Is(err, errShown), errors.As(err, &found):
		return 1
	}
	return 2
}

func exitCodeOf(all problems) (code int) {
	for _, err := range all {
		code = max(code, exitCode(err))
	}
	return code
}

// run is the whole program: main less what belongs to the process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	out := &output{w: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil || errors.Is(err, errShown) {
		err = cmp.Or(out.failure(), err)
	}
	return err
}

// oneStop is how long signals count as one: timeout(1) sends its own twice, and Ctrl-C reaches a process
// from the terminal and again from the make or go run that has started it.
const oneStop = time.Second

// untilSignal returns a context that ends with the first signal, which is its cause. A second one calls
// exit at once: a second signal means that the open transaction is not to be waited for.
func untilSignal(parent context.Context, signals chan os.Signal, exit func(code int)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var first time.Time
		for s := range signals {
			switch {
			case first.IsZero():
				first = time.Now()
				cancel(fmt.Errorf("signal %v", s))
			case time.Since(first) >= oneStop:
				sayLast(fmt.Sprintf("signal %v again: ending at once", s))
				exit(130)
				return
			}
		}
	}()
	return ctx, func() {
		close(signals)
		<-done
		cancel(nil)
	}
}
