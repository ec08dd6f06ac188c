package brokers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"

	"github.com/duewheel/duewheel/integration/brokers/properties"
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

func (jvm) prepare(ctx context.Context, o Options) (maker, error) {
	t, err := prepareTemplate(ctx, o)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, c *Cluster, n *Node) (machine, error) {
		return newJVMMachine(c, n, t, t.useArchive())
	}, nil
}

// newJVMMachine lays out the folder of one node: formatted data, properties, and a log to come.
func newJVMMachine(c *Cluster, n *Node, t template, archive []string) (*jvmMachine, error) {
	home := filepath.Join(c.dir, fmt.Sprintf("node-%d", n.id))
	data := filepath.Join(home, "data")
	if err := t.format(data, c.id, n.id); err != nil {
		return nil, err
	}
	config := filepath.Join(home, "server.properties")
	if err := os.WriteFile(config, properties.File(c.properties(n, data)), 0o600); err != nil {
		return nil, err
	}
	args := append(javaFlags(c.options.Measure), archive...)
	return &jvmMachine{
		args:      append(args, "kafka.Kafka", config),
		classPath: t.classPath,
		logFile:   filepath.Join(home, "server.log"),
	}, nil
}

// javaFlags: a test broker lives for seconds, so the quick compiler alone is better than both; a measured one gets both.
func javaFlags(measure bool) []string {
	flags := []string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	if measure {
		flags = []string{"-Xms1g", "-Xmx1g", "-XX:+UseG1GC"}
	}
	return append(append(flags, "-Djava.awt.headless=true"), logFlags...)
}

// logFlags leave out the lists of all settings, which are most of a broker's log.
var logFlags = []string{
	"-Dorg.slf4j.simpleLogger.showDateTime=true",
	"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	"-Dorg.slf4j.simpleLogger.showShortLogName=true",
	"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
	"-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn",
}

// javaCommand names the class path in the environment, where it does not drown the arguments in `ps`.
func javaCommand(ctx context.Context, classPath string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "java", args...)
	cmd.Env = append(os.Environ(), "CLASSPATH="+classPath)
	return cmd
}

// spawnJava starts a Java program that writes to the end of a log file.
func spawnJava(classPath string, args []string, logFile string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	cmd := javaCommand(context.Background(), classPath, args)
	cmd.Stdout, cmd.Stderr = log, log
	return spawn(cmd)
}

// jvmMachine is one broker process. Its log is appended to over restarts.
type jvmMachine struct {
	args      []string
	classPath string
	logFile   string
	process   *process // nil before the first start
}

func (m *jvmMachine) start(context.Context) (err error) {
	m.process, err = spawnJava(m.classPath, m.args, m.logFile)
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
