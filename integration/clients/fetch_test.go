package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/brokers"
)

// The versions are pinned: what a client writes is what this test is about.
const (
	confluentKafka = "confluent-kafka==2.16.1"
	kafkaPython    = "kafka-python==3.0.12"
	kafkaJS        = "kafkajs@2.2.4"
)

var javaArtifacts = []string{"org.apache.kafka:kafka-clients:4.3.1", "org.apache.kafka:connect-api:4.3.1", "org.apache.kafka:connect-json:4.3.1", "org.springframework.kafka:spring-kafka:3.3.10",
	"com.fasterxml.jackson.datatype:jackson-datatype-jsr310:2.21.2"}

// ready is how long a client may take, with fetching it for the first time.
const ready = 5 * time.Minute

const (
	kcatAdvice   = "install kcat (Debian: apt-get install kcat)"
	pythonAdvice = "install Python 3 with pip (Debian: apt-get install python3-pip)"
	nodeAdvice   = "install Node.js with npm (Debian: apt-get install nodejs npm)"
	javaAdvice   = "install a JDK 17 or newer and Maven (Debian: apt-get install openjdk-17-jdk-headless maven)"
)

// program is how a client is called, with its package beside it.
type program struct {
	env  []string
	args []string
}

// command is the program with these arguments. It ends when ctx does.
func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.args[0], append(p.args[1:len(p.args):len(p.args)], args...)...)
	cmd.Env = append(os.Environ(), append(p.env, "TZ=UTC")...)
	return cmd
}

// runs runs a program to its end.
func runs(ctx context.Context, t *testing.T, p program, args ...string) {
	t.Helper()
	cmd := p.command(ctx, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
}

// installed is a program that a person has to install.
func installed(t *testing.T, advice string, args ...string) program {
	t.Helper()
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Fatalf("%v: %s", err, advice)
	}
	return program{args: args}
}

// pythonWith is a program of testdata with one package of PyPI.
func pythonWith(ctx context.Context, t *testing.T, file, requirement string) program {
	t.Helper()
	p := installed(t, pythonAdvice, "python3", "testdata/"+file)
	dir, err := brokers.Cached("python", func(dir string) error {
		return fetch(ctx, pythonAdvice, "python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", dir, requirement)
	}, requirement)
	if err != nil {
		t.Fatal(err)
	}
	p.env = []string{"PYTHONPATH=" + dir}
	return p
}

// node is a program of testdata with kafkajs.
func node(ctx context.Context, t *testing.T, file string) program {
	t.Helper()
	p := installed(t, nodeAdvice, "node", "testdata/"+file)
	dir, err := brokers.Cached("node", func(dir string) error {
		return fetch(ctx, nodeAdvice, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, kafkaJS)
	}, kafkaJS)
	if err != nil {
		t.Fatal(err)
	}
	p.env = []string{"NODE_PATH=" + dir + "/node_modules", "KAFKAJS_NO_PARTITIONER_WARNING=1"}
	return p
}

// javaWith is a program of testdata with the Java client.
func javaWith(ctx context.Context, t *testing.T, file string) program {
	t.Helper()
	installed(t, javaAdvice, "mvn")
	dir, err := brokers.Jars(ctx, "clients", t.Logf, javaArtifacts...)
	if err != nil {
		t.Fatal(err)
	}
	return installed(t, javaAdvice, "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", dir+"/*", "testdata/"+file)
}

// fetch lets a package manager install something.
func fetch(ctx context.Context, advice, program string, args ...string) error {
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s\n%s", program, strings.Join(args, " "), err, advice, out)
	}
	return nil
}
