package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sync/errgroup"
)

// message is a record that a client is to write.
type message struct {
	Topic     string
	Partition *int32 // nil: the client's choice
	Key       string // "": none
	Value     string
	Null      bool // it has no value
	Headers   map[string]string
}

// MarshalJSON has what the programs of testdata read.
func (m message) MarshalJSON() ([]byte, error) {
	wire := struct {
		Topic     string            `json:"topic"`
		Partition *int32            `json:"partition"`
		Key       *string           `json:"key"`
		Value     *string           `json:"value"`
		Headers   map[string]string `json:"headers"`
	}{Topic: m.Topic, Partition: m.Partition, Headers: m.Headers}
	if m.Key != "" {
		wire.Key = &m.Key
	}
	if !m.Null {
		wire.Value = &m.Value
	}
	if m.Headers == nil {
		wire.Headers = map[string]string{}
	}
	return json.Marshal(wire)
}

// place is where a record lies.
type place struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// client writes records, one after the other, and says where each lies.
type client interface {
	name() string
	write(ctx context.Context, where *watch, ms []message) ([]place, error)
	// reconnect has it learn of partitions that were added.
	reconnect(ctx context.Context) error
}

// startClients starts one of each kind. Each has another way to choose partitions than the next one, but for the last two of murmur2.
func startClients(ctx context.Context, t *testing.T, broker string) []client {
	t.Helper()
	all := []client{
		&kcatClient{broker: broker, dir: t.TempDir(), kcat: installed(t, kcatAdvice, "kcat")},
		startChild(ctx, t, broker, "kafka-python", pythonWith(ctx, t, "ask_kafkapython.py", kafkaPython)),
		startChild(ctx, t, broker, "confluent-kafka", pythonWith(ctx, t, "ask_confluent.py", confluentKafka)),
		startChild(ctx, t, broker, "kafkajs", node(ctx, t, "ask_kafkajs.js")),
		startChild(ctx, t, broker, "Java", javaWith(ctx, t, "Ask.java")),
	}
	return all
}

// childClient is a program that reads what it is to write from its standard input.
type childClient struct {
	called string
	in     io.WriteCloser
	out    *bufio.Scanner
	failed *bytes.Buffer
}

func startChild(ctx context.Context, t *testing.T, broker, called string, p program) *childClient {
	t.Helper()
	cmd := p.command(ctx, broker)
	c := &childClient{called: called, failed: new(bytes.Buffer)}
	cmd.Stderr = c.failed
	var err error
	if c.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.in.Close()
		if err := cmd.Wait(); err != nil && ctx.Err() == nil {
			t.Errorf("%s: %v\n%s", called, err, c.failed)
		}
	})
	return c
}

func (c *childClient) name() string { return c.called }

func (c *childClient) write(_ context.Context, _ *watch, ms []message) ([]place, error) {
	var lines []any
	for _, m := range ms {
		lines = append(lines, m)
	}
	return c.tell(lines)
}

func (c *childClient) reconnect(context.Context) error {
	_, err := c.tell([]any{nil})
	return err
}

// tell writes lines, and reads an answer to each.
func (c *childClient) tell(lines []any) (places []place, err error) {
	var group errgroup.Group
	group.Go(func() error {
		in := json.NewEncoder(c.in)
		for _, l := range lines {
			if err := in.Encode(l); err != nil {
				return err
			}
		}
		return nil
	})
	defer group.Wait()
	for range lines {
		if !c.out.Scan() {
			return nil, fmt.Errorf("it ended: %v", c.out.Err())
		}
		var p place
		if err := json.Unmarshal(c.out.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("%q: %w", c.out.Text(), err)
		}
		places = append(places, p)
	}
	return places, nil
}

// kcatClient runs kcat for each record. It does not say where that lies, so the log is read.
type kcatClient struct {
	broker, dir string
	kcat        program
	written     int
}

func (c *kcatClient) name() string { return "kcat" }

func (c *kcatClient) reconnect(context.Context) error { return nil }

func (c *kcatClient) write(ctx context.Context, where *watch, ms []message) ([]place, error) {
	var group errgroup.Group
	group.SetLimit(2)
	for _, m := range ms {
		c.written++
		cmd, err := c.command(ctx, m, filepath.Join(c.dir, strconv.Itoa(c.written)))
		if err != nil {
			return nil, err
		}
		group.Go(func() error {
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	places := make([]place, len(ms))
	for i, m := range ms {
		if m.Null {
			continue // it is not told apart
		}
		r, err := where.find(ctx, m.Topic, m.Value)
		if err != nil {
			return nil, err
		}
		places[i] = place{r[0].Partition, r[0].Offset}
	}
	return places, nil
}

// command is as docs/requests.md says it: a file is one value, and a null value is an empty one behind a key.
func (c *kcatClient) command(ctx context.Context, m message, file string) (*exec.Cmd, error) {
	args := []string{"-P", "-b", c.broker, "-t", m.Topic}
	if m.Partition != nil {
		args = append(args, "-p", strconv.Itoa(int(*m.Partition)))
	}
	for name, value := range m.Headers {
		args = append(args, "-H", name+"="+value)
	}
	if m.Null {
		cmd := c.kcat.command(ctx, append(args, "-Z", "-K:")...)
		cmd.Stdin = bytes.NewBufferString(m.Key + ":")
		return cmd, nil
	}
	if m.Key != "" {
		args = append(args, "-k", m.Key)
	}
	if err := os.WriteFile(file, []byte(m.Value), 0o644); err != nil {
		return nil, err
	}
	return c.kcat.command(ctx, append(args, file)...), nil
}
