package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// fullDisk takes nothing.
type fullDisk struct{}

var errFull = errors.New("no space left on device")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// A command whose output cannot be written has failed, whatever it prints by.
func TestOutputThatCannotBeWritten(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "delays.dead": 1, "orders": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: ['"+addr+"']}\ngroup: {id: look}\nroutes:\n  - {topic: delays, targets: {allow: [orders]}}\n")
	if err := run(t.Context(), strings.Fields("produce -c "+config+" --to orders --for 1h -v x"), strings.NewReader(""), io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"agenda", "agenda -o json", "ls", "ls -o json", "get 0-0-5", "cancel nothing", "topics check", "topics create", "checkpoints", "dlq ls", "verify", "explain -H delay-for=5m -H delay-target-topic=orders",
		"produce --to orders --for 1h -v x", "version", "help", "ls --help",
	} {
		args := strings.Fields(command)
		switch args[0] {
		case "version", "help":
		default:
			args = append(args, "-c", config)
		}
		err := run(t.Context(), args, strings.NewReader(""), fullDisk{}, io.Discard)
		if args[0] == "get" && err != nil {
			continue // there is none
		}
		if !errors.Is(err, errFull) {
			t.Errorf("duewheel %s: %v", command, err)
		}
	}
}

// What a signal has ended says so, and not how it noticed.
func TestToldOfASignal(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	read := fmt.Errorf("read delays/0 at offset 5 of 7: %w", context.Canceled)
	if got := told(ctx, read).Error(); got != read.Error() {
		t.Errorf("before a signal: %s", got)
	}
	cancel(errors.New("signal interrupt"))
	if got := told(ctx, read).Error(); got != "ended by signal interrupt" {
		t.Error(got)
	}
	if got := told(ctx, errFull); got != errFull {
		t.Error(got)
	}
}
