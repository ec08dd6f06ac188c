package brokers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// tailLines of each log are shown; the whole one is kept in a file.
const tailLines = 30

func tail(log []byte, err error) string {
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}

// complaints are the first lines of a log that tell of an error. The end of the log may be about something else: a worker that stops
// because of a connector still answers requests for its status.
func complaints(log []byte, err error) string {
	if err != nil {
		return ""
	}
	var out []string
	for line := range strings.Lines(string(log)) {
		if len(out) < 10 && (strings.Contains(line, " ERROR ") || !strings.HasPrefix(line, "\t") && strings.Contains(line, "Exception:")) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func (n *Node) log() ([]byte, error) {
	if n.machine == nil {
		return nil, errors.New("the node was never made")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return n.machine.log(ctx)
}

// keepLogs copies all logs to where they outlive the cluster, and returns for people what their ends are and where the copies
// lie. Start calls it for a test that failed; name is part of the files' names.
func (c *Cluster) keepLogs(name string) string {
	logs := map[string]func() ([]byte, error){}
	for _, n := range c.nodes {
		logs[fmt.Sprintf("node-%d", n.id)] = n.log
	}
	for _, w := range c.workers {
		logs[w.name] = w.log
	}
	dir := filepath.Join(scratch(), "logs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err.Error()
	}
	var say strings.Builder
	for _, source := range slices.Sorted(maps.Keys(logs)) {
		b, err := logs[source]()
		file := fmt.Sprintf("%s-%d-%s.log", strings.ReplaceAll(name, "/", "_"), os.Getpid(), source)
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			path = err.Error()
		}
		fmt.Fprintf(&say, "%s, whole log in %s; its end:\n%s\n", source, path, tail(b, err))
	}
	return say.String()
}
