package brokers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const tailLines = 30

func (n *Node) log() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return n.machine.log(ctx)
}

// logTail is the end of the node's log, for people.
func (n *Node) logTail() string {
	b, err := n.log()
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}

// keepLogs copies the nodes' logs to where they outlive the cluster, and returns their ends and where the copies are.
func (c *Cluster) keepLogs(test string) string {
	dir := filepath.Join(scratch(), "logs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err.Error()
	}
	var say strings.Builder
	for _, n := range c.nodes {
		b, err := n.log()
		if err != nil {
			fmt.Fprintf(&say, "node %d: no log: %v\n", n.id, err)
			continue
		}
		name := fmt.Sprintf("%s-%d-node%d.log", strings.ReplaceAll(test, "/", "_"), os.Getpid(), n.id)
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			path = err.Error()
		}
		fmt.Fprintf(&say, "node %d, whole log in %s; its end:\n%s\n", n.id, path, n.logTail())
	}
	return say.String()
}
