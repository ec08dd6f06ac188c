package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/bench/check"
)

const connectFile = "org.apache.kafka.connect.file.FileStream"

// Lines of a file become requests by nothing but the configuration of Kafka Connect, wait, and become lines of another file.
func TestConnect(t *testing.T) {
	s := newStage(t, shared(t), setting{partitions: 1, seed: newSeed(t), check: func(c *check.Config) {
		c.Targets[0].Partitions = 0 // a line has no key
	}})
	p := s.start(s.replica())
	dir := t.TempDir()
	source, sink := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	var lines strings.Builder
	for i := range 100 {
		fmt.Fprintf(&lines, "line %d\n", i)
	}
	began := time.Now()
	if err := os.WriteFile(source, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	const delay = 4 * time.Second
	_, err := s.cluster.Connect(t.Context(), map[string]string{
		"name":                         "source-" + s.name,
		"connector.class":              connectFile + "SourceConnector",
		"file":                         source,
		"topic":                        s.route.Topic,
		"transforms":                   "for,to",
		"transforms.for.type":          "org.apache.kafka.connect.transforms.InsertHeader",
		"transforms.for.header":        "delay-for",
		"transforms.for.value.literal": "PT4S",
		"transforms.to.type":           "org.apache.kafka.connect.transforms.InsertHeader",
		"transforms.to.header":         "delay-target-topic",
		"transforms.to.value.literal":  s.targets[0],
	}, map[string]string{
		"name":            "sink-" + s.name,
		"connector.class": connectFile + "SinkConnector",
		"file":            sink,
		"topics":          s.targets[0],
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		b, _ := os.ReadFile(sink)
		if n := strings.Count(string(b), "\n"); n < 100 {
			return fmt.Sprintf("%d of 100 lines came out", n)
		}
		return ""
	})
	took := time.Since(began)
	p.stop()
	s.judge()
	if out, _ := os.ReadFile(sink); sorted(string(out)) != sorted(lines.String()) || took < delay {
		t.Errorf("after %v came out:\n%s", took, out)
	}
}

func sorted(lines string) string {
	all := strings.Split(lines, "\n")
	slices.Sort(all)
	return strings.Join(all, "\n")
}
