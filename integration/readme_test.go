package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/duewheel/duewheel/integration/brokers"
)

// The README's line for kafka-topics.sh makes the target, as a shell runs it with the tool of Kafka's distribution.
func TestReadmeMakesATarget(t *testing.T) {
	c := shared(t)
	if c.Provider() != brokers.JVM {
		t.Skip("without a JVM there is no kafka-topics.sh")
	}
	t.Parallel()
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	line := ""
	for of := range strings.Lines(string(b)) {
		if strings.HasPrefix(of, "    kafka-topics.sh ") {
			line = of
		}
	}
	classes, err := brokers.ToolClasses(t.Context(), brokers.Latest, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := "#!/bin/sh\nexec java -Xmx256m -XX:TieredStopAtLevel=1 -cp '" + classes + "' org.apache.kafka.tools.TopicCommand \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "kafka-topics.sh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(line, "127.0.0.1:9092", c.Addrs()[0]))
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Created topic orders.") {
		t.Errorf("%q: %v\n%s", line, err, out)
	}
}
