package brokers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pom names the jars of one purpose. They are resolved once into a folder named after the POM's hash: a changed POM is another
// folder, so nothing there is ever stale. slf4j-simple writes to standard error, which is the log file of a node.
func pom(artifacts ...string) string {
	var b strings.Builder
	b.WriteString(`<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>com.github.duewheel</groupId>
  <artifactId>test-broker</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
`)
	for _, a := range append(artifacts, "org.slf4j:slf4j-simple:1.7.36") {
		part := strings.Split(a, ":")
		alone := ""
		if len(part) > 3 {
			alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
		}
		fmt.Fprintf(&b, "    <dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version>%s</dependency>\n",
			part[0], part[1], part[2], alone)
	}
	b.WriteString("  </dependencies>\n</project>\n")
	return b.String()
}

// mavenGoal is pinned: without a version Maven takes whatever its own release names.
const mavenGoal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// brokerJars returns the folder with what kafka.Kafka needs.
func brokerJars(ctx context.Context, version string, logf func(string, ...any)) (string, error) {
	return jars(ctx, "kafka-"+version, logf, "org.apache.kafka:kafka_2.13:"+version)
}

// ToolClasses returns the class path of what kafka-topics.sh runs: it needs little that a broker does not.
func ToolClasses(ctx context.Context, version string, logf func(string, ...any)) (string, error) {
	broker, err := brokerJars(ctx, version, logf)
	if err != nil {
		return "", err
	}
	tools, err := jars(ctx, "tools-"+version, logf, "org.apache.kafka:kafka-tools:"+version+":alone")
	return tools + "/*:" + broker + "/*", err
}

// connectJars returns the folder with what a Connect worker needs, the file connectors among it.
func connectJars(ctx context.Context, version string, logf func(string, ...any)) (string, error) {
	return jars(ctx, "connect-"+version, logf,
		"org.apache.kafka:connect-runtime:"+version, "org.apache.kafka:connect-file:"+version)
}

func jars(ctx context.Context, name string, logf func(string, ...any), artifacts ...string) (string, error) {
	text := pom(artifacts...)
	return cached(keyOf(name, text, mavenGoal), func(dir string) error {
		logf("brokers: fetching the jars of %s with Maven", name)
		return resolve(ctx, text, dir)
	})
}

// resolve lets Maven copy what a POM names into dir. One Maven at a time: its local repository stands no second one.
func resolve(ctx context.Context, pom, dir string) error {
	lock, err := lockFile(filepath.Join(cacheDir(), "maven.lock"), true)
	if err != nil {
		return err
	}
	defer lock.Close()
	project, err := os.MkdirTemp("", "duewheel-pom-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(project)
	file := filepath.Join(project, "pom.xml")
	if err := os.WriteFile(file, []byte(pom), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mvn", "--batch-mode", "--quiet", "-f", file, mavenGoal, "-DoutputDirectory="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("brokers: fetch jars with Maven: %w\n%s", err, out)
	}
	return nil
}

// Jars returns a folder with artifacts, group:name:version, and what they need. Maven fetches them once.
func Jars(ctx context.Context, name string, logf func(string, ...any), artifacts ...string) (string, error) {
	return jars(ctx, name, logf, artifacts...)
}
