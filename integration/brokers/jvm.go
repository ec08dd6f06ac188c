package brokers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// jvm runs each node as a child process: the quickest to start, and faults are plain signals.
type jvm struct{}

const jvmAdvice = "install a JDK 17 or newer and Maven (Debian: apt-get install --no-install-recommends openjdk-17-jdk-headless maven)"

func (jvm) available(ctx context.Context, _ Options) error {
	version, err := javaVersion(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s", err, jvmAdvice)
	case version < 17:
		return fmt.Errorf("java is version %d: %s", version, jvmAdvice)
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return fmt.Errorf("%w: %s", err, jvmAdvice)
	}
	return nil
}

var javaVersionLine = regexp.MustCompile(`version "(\d+)`)

func javaVersion(ctx context.Context) (int, error) {
	out, err := exec.CommandContext(ctx, "java", "-version").CombinedOutput()
	if err != nil {
		return 0, err
	}
	m := javaVersionLine.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("java -version prints %q", out)
	}
	return strconv.Atoi(string(m[1]))
}

func (jvm) prepare(ctx context.Context, c *Cluster) error {
	_, err := jars(ctx, c.options.Version, c.options.Logf)
	return err
}

func (jvm) machine(ctx context.Context, c *Cluster, n *Node) (machine, error) {
	libs, err := jars(ctx, c.options.Version, c.options.Logf)
	if err != nil {
		return nil, err
	}
	home := filepath.Join(c.dir, fmt.Sprintf("node-%d", n.id))
	data := filepath.Join(home, "data")
	if err := format(ctx, c, n, libs, data); err != nil {
		return nil, err
	}
	config := filepath.Join(home, "server.properties")
	if err := os.WriteFile(config, writeProperties(c.properties(n, data)), 0o600); err != nil {
		return nil, err
	}
	args := append(javaFlags(c.options.Measure), "-cp", filepath.Join(libs, "*"), "kafka.Kafka", config)
	return &jvmMachine{args: args, logFile: filepath.Join(home, "server.log")}, nil
}

// javaFlags: a test broker lives for seconds, so the quick compiler alone is better than both; a measured one gets both.
func javaFlags(measure bool) []string {
	flags := []string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	if measure {
		flags = []string{"-Xms1g", "-Xmx1g", "-XX:+UseG1GC"}
	}
	return append(flags, "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS", "-Dorg.slf4j.simpleLogger.showShortLogName=true")
}

// jvmMachine is one broker process. Its log is appended to over restarts.
type jvmMachine struct {
	args    []string
	logFile string
	process *process // nil before the first start
}

func (m *jvmMachine) start(context.Context) error {
	log, err := os.OpenFile(m.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command("java", m.args...)
	cmd.Stdout, cmd.Stderr = log, log
	m.process, err = spawn(cmd)
	return err
}

func (m *jvmMachine) stop(ctx context.Context) error { return m.process.stop(ctx) }

func (m *jvmMachine) kill(context.Context) error {
	m.process.kill()
	return nil
}

func (m *jvmMachine) pause(context.Context) error  { return m.process.signal(syscall.SIGSTOP) }
func (m *jvmMachine) resume(context.Context) error { return m.process.signal(syscall.SIGCONT) }

func (m *jvmMachine) remove(context.Context) error {
	if m.process != nil {
		m.process.kill()
	}
	return nil
}

func (m *jvmMachine) died() <-chan struct{} { return m.process.done }

func (m *jvmMachine) log(context.Context) ([]byte, error) { return os.ReadFile(m.logFile) }

// format gives a node its formatted data folder. StorageTool runs once for a version, which takes a second or two; a copy only
// needs ids of its own.
func format(ctx context.Context, c *Cluster, n *Node, libs, data string) error {
	template, err := cached(filepath.Base(libs)+"-formatted", func(dir string) error {
		return storageTool(ctx, c, n, libs, dir)
	})
	if err != nil {
		return err
	}
	if err := os.CopyFS(data, os.DirFS(template)); err != nil {
		return err
	}
	meta := map[string]string{"version": "1", "cluster.id": c.id, "node.id": strconv.Itoa(n.id), "directory.id": newUUID()}
	return os.WriteFile(filepath.Join(data, "meta.properties"), writeProperties(meta), 0o644)
}

func storageTool(ctx context.Context, c *Cluster, n *Node, libs, dir string) error {
	plain := *c
	plain.options.Config, plain.options.Listeners = nil, nil
	properties := maps.Clone(plain.properties(n, dir))
	config := filepath.Join(c.dir, "format.properties")
	if err := os.WriteFile(config, writeProperties(properties), 0o644); err != nil {
		return err
	}
	args := append(javaFlags(false), "-cp", filepath.Join(libs, "*"), "kafka.tools.StorageTool", "format", "-t", c.id, "-c", config)
	out, err := exec.CommandContext(ctx, "java", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("format the data folder: %w\n%s", err, out)
	}
	if !exists(filepath.Join(dir, "bootstrap.checkpoint")) {
		return errors.New("format the data folder: no bootstrap.checkpoint")
	}
	return nil
}
