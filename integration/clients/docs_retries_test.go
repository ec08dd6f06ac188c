package clients

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/topics"
)

// What docs/retries.md has for each language writes what it has read, as it is, to the retry topic, with the name of the topic that it came from.
func TestCodeOfRetries(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what fetches clients of other languages")
	}
	d := readDocument(t, "retries.md")
	spec := (&topics.Route{Retry: &topics.Retrying{Backoff: topics.Backoff{Initial: time.Second, Factor: 2, Max: time.Minute}, MaxAttempts: 8}}).Spec()
	for n, l := range docLanguages {
		t.Run(l.name, func(t *testing.T) {
			want := map[string]int{"java": 2, "python": 1, "js": 1, "go": 1}[l.name] // Java's other one is Spring's
			if got := len(d.blocks[l.name]); got != want {
				t.Fatalf("the document has %d blocks, want %d", got, want)
			}
			ctx, cancel := context.WithTimeout(t.Context(), ready)
			defer cancel()
			broker := fakeWith(t, "orders", "orders.retry")
			failed := &kgo.Record{Topic: "orders", Key: []byte("17"), Value: []byte("order 17"), Headers: []kgo.RecordHeader{
				{Key: "trace", Value: []byte("a")}, {Key: "delay-target-topic", Value: []byte("of another trip")}, {Key: "trace", Value: []byte("b")},
				{Key: "empty", Value: []byte{}}, {Key: "delay-attempt", Value: []byte("3")}, {Key: "null"},
			}}
			writes(ctx, t, broker, failed)
			output(ctx, t, programOf(ctx, t, d, "retries", n), broker)
			all := written(ctx, t, broker, "orders.retry")
			if len(all) != 1 {
				t.Fatalf("%d records were written", len(all))
			}
			r := all[0]
			q := parsed(t, spec, r)
			if string(q.Target) != "orders" || q.Round != 3 || string(r.Key) != "17" || string(r.Value) != "order 17" {
				t.Errorf("%s=%s with %v goes to %q, with %d attempts", r.Key, r.Value, r.Headers, q.Target, q.Round)
			}
			if got, want := kept(r), kept(failed); !slices.Equal(got, want) {
				t.Errorf("its headers are %q, want %q", got, want)
			}
		})
	}
}

// kept are the headers of a record but for its target, null ones as empty ones, in the order of their names: kafkajs keeps no other.
func kept(r *kgo.Record) (all []string) {
	for _, h := range r.Headers {
		if h.Key != topics.HeaderTargetTopic {
			all = append(all, h.Key+"="+string(h.Value))
		}
	}
	slices.Sort(all)
	return all
}

func writes(ctx context.Context, t *testing.T, broker string, rs ...*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// What docs/retries.md has for a shell, as written but for its broker and a pause that is a tenth, brings a record back twice and parks what has failed too
// often; the commands behind that list it, and ask for it again.
func TestLinesOfRetries(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka, and clients of other languages")
	}
	installed(t, kcatAdvice, "kcat")
	ctx, cancel := context.WithTimeout(t.Context(), ready)
	defer cancel()
	d := readDocument(t, "retries.md")
	broker, dir := brokers.Start(t, brokers.Options{}).Addrs()[0], built(ctx, t)
	config := strings.NewReplacer(docBroker, broker, "initial: 10s", "initial: 1s").Replace(d.block(t, "yaml", 0))
	if err := os.WriteFile(dir+"/retry.yaml", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	asked := 0
	var seen *heard
	for _, line := range d.lines {
		switch line, _, _ := strings.Cut(line, "     #"); {
		case strings.HasPrefix(line, "go build"):
		case strings.HasPrefix(line, "kafka-topics.sh"):
			_, name, _ := strings.Cut(line, "--create --topic ")
			createTopic(ctx, t, broker, name)
			seen = listens(ctx, t, dir, d.lines, broker)
		case strings.HasPrefix(line, "kcat -C"): // it listens already
			seen.await(ctx, t, "17: order 17  ", "delay-attempt=1")
		case strings.HasSuffix(line, "&"):
			starts(ctx, t, dir, strings.TrimSuffix(line, "&"))
		case strings.HasPrefix(line, "echo"):
			if inShell(ctx, t, dir, line, broker); asked == 1 {
				seen.await(ctx, t, "delay-attempt=2")
				inShell(ctx, t, dir, strings.Replace(line, "delay-attempt=1", "delay-attempt=8", 1), broker) // which the text has
			}
			asked++
		case strings.HasPrefix(line, "./duewheel dlq ls"):
			eventually(ctx, t, line, func() bool {
				out := inShell(ctx, t, dir, line, broker)
				return strings.Contains(out, "attempts_exhausted") && strings.Contains(out, "orders.retry")
			})
		case strings.HasPrefix(line, "./duewheel dlq replay"):
			inShell(ctx, t, dir, line+" --yes", broker)
			seen.awaitTimes(ctx, t, 2, "17: order 17  ", "delay-attempt=1") // its attempts begin anew
			asked++
		case strings.HasPrefix(line, "./duewheel topics create"):
			inShell(ctx, t, dir, line, broker)
		default:
			if strings.HasPrefix(line, "./") || strings.Contains(line, "kcat") {
				t.Errorf("a line that is not run: %s", line)
			}
		}
	}
	if asked != 3 {
		t.Errorf("%d lines ask for something, want 3", asked)
	}
}

func createTopic(ctx context.Context, t *testing.T, broker, name string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, strings.TrimSpace(name)); err != nil {
		t.Fatal(err)
	}
}

// starts runs a line until the test ends.
func starts(ctx context.Context, t *testing.T, dir, line string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+strings.TrimSpace(line)+" -X state.dir="+t.TempDir()+" -X admin.listen=off")
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
}

// heard is what a line prints that goes on.
type heard struct {
	mu   sync.Mutex
	said strings.Builder
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.said.Write(b)
}

// await waits until one line has all of that.
func (h *heard) await(ctx context.Context, t *testing.T, has ...string) {
	t.Helper()
	h.awaitTimes(ctx, t, 1, has...)
}

// awaitTimes waits until so many lines have.
func (h *heard) awaitTimes(ctx context.Context, t *testing.T, n int, has ...string) {
	t.Helper()
	eventually(ctx, t, strings.Join(has, " and "), func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		times := 0
		for line := range strings.Lines(h.said.String()) {
			if !slices.ContainsFunc(has, func(what string) bool { return !strings.Contains(line, what) }) {
				times++
			}
		}
		return times >= n
	})
}

// listens runs the line of a document that consumes, from the beginning of a topic that is empty as yet, and without a buffer, as on a terminal.
func listens(ctx context.Context, t *testing.T, dir string, lines []string, broker string) *heard {
	t.Helper()
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "kcat -C") })
	if at < 0 {
		t.Fatal("no line of the document consumes")
	}
	h := &heard{}
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+strings.NewReplacer(docBroker, broker, "-o end", "-o beginning", "kcat -C", "kcat -u -C").Replace(lines[at]))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, h, h
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return h
}

func eventually(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s has not come about", what)
		}
	}
}
