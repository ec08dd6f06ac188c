package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/duewheel/duewheel/processor/ahead"
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

// What others have written does nothing to a terminal but to be shown: not as JSON, whose strings may hold control characters of eight bits, nor
// where a command repeats what it was asked.
func TestOutputIsVisible(t *testing.T) {
	evil := "a\u009b31m\x1b[2J\x7f\u202eb\u2028\U000e0041日本é"
	var b strings.Builder
	if err := newJSON(&b).Encode(map[string]string{evil: evil}); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got[evil] != evil {
		t.Errorf("decoded as %q, %v", got, err)
	}
	if line := strings.TrimSuffix(b.String(), "\n"); !isShown(line, "") || !strings.Contains(line, "日本é") {
		t.Errorf("JSON that is not to be shown: %q", line)
	}
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	for _, args := range [][]string{
		{"cancel", "-b", addr, "-t", "delays", evil},
		{"produce", "-b", addr, "-t", "delays", "-v", "x", "-H", "delay-cancel=" + evil},
		{"produce", "-b", addr, "-t", "delays", "--to", "orders", "--for", "1h", "-v", "x", "--replace", evil},
		{"explain", "-H", "delay-cancel=" + evil},
		{"explain", "-H", "delay-for=1h", "-H", "delay-" + evil + "=1"},
		{"ls", "-b", addr, "-g", "g", "-t", "delays", "-o", "json"},
		{"get", "-b", addr, "-g", "g", "-t", "delays", evil, "-o", "json"},
	} {
		if out, _ := command(t, "", args...); !isShown(out, "\n\t") {
			t.Errorf("%s: %q", args[0], out)
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
	if got := told(ctx, fmt.Errorf("read delays/0 at offset 5 of 7: %w", context.Cause(ctx))).Error(); got != "ended by signal interrupt" {
		t.Error(got)
	}
	if got := told(ctx, fmt.Errorf("%w; 6 dead letters replayed before that", context.Cause(ctx))).Error(); got != "ended by signal interrupt; 6 dead letters replayed before that" {
		t.Error(got)
	}
	if got := told(ctx, errFull); got != errFull {
		t.Error(got)
	}
}

// Of brokers that were asked together the words of one are said, and not how many there are.
func TestUncounted(t *testing.T) {
	some := &kadm.ShardErrors{Name: "ListGroups", Errs: []kadm.ShardError{{Err: errors.New("connection refused")}}}
	if got := uncounted(fmt.Errorf("list groups: %w", some)); got != "list groups: connection refused" {
		t.Error(got)
	}
}

// Due times may lie further ahead than a duration is long.
func TestFarAhead(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	far := now.AddDate(400, 0, 0) // 146,097 days
	if a, b := relative(far, now), rounded(far, now); a != "in 146097 d" || b != a {
		t.Errorf("400 years ahead is %s, and %s", a, b)
	}
}

// A terminal has room for an id such as programs make, and elsewhere an id is whole.
func TestIDsAreWhole(t *testing.T) {
	const uuid = "123e4567-e89b-12d3-a456-426614174000"
	row := &pendingRow{id: []byte(uuid + strings.Repeat("x", 200)), key: []byte(uuid)}
	v := &view{Looker: &ahead.Looker{Now: lookNow}, partitions: []partitionOf{{}}}
	t.Setenv("LC_ALL", "C.UTF-8")
	for columns, want := range map[int]string{80: "\t" + uuid + "xxx…\t" + uuid + "\t", 0: "\t" + uuid + strings.Repeat("x", 200) + "\t" + uuid + "\t"} {
		if line := string(new(pendingList).table(v, io.Discard, columns).render(row)); !strings.Contains(line, want) {
			t.Errorf("on %d columns: %q", columns, line)
		}
	}
}

// When a record was written is told as it is: by a clock that is ahead, or not at all.
func TestWrittenAt(t *testing.T) {
	for _, test := range []struct {
		at   time.Time
		want string
	}{
		{lookNow.Add(-5 * time.Second), "written " + zoned(lookNow.Add(-5*time.Second)) + ", 5 s ago"},
		{lookNow.Add(55 * time.Minute), "written " + zoned(lookNow.Add(55*time.Minute)) + ", by a clock that is 55 m ahead of this one"},
		{lookNow.Add(20 * time.Millisecond), "written " + zoned(lookNow) + ", now"}, // while it was looked for
		{time.UnixMilli(-1), "without a timestamp"},
	} {
		if got := writtenAt(test.at, lookNow); got != test.want {
			t.Errorf("of %v: %s, want %s", test.at, got, test.want)
		}
	}
}
