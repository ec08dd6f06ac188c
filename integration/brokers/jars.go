package brokers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
		fmt.Fprintf(&b, "    <dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n",
			part[0], part[1], part[2])
	}
	b.WriteString("  </dependencies>\n</project>\n")
	return b.String()
}

// mavenGoal is pinned: without a version Maven takes whatever its own release names.
const mavenGoal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// cacheDir holds what is worth keeping between runs.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "duewheel", "brokers")
}

// cached returns the cache folder of this key and makes it with fill when it is not there. fill gets an empty folder that is
// renamed when it succeeds: what is half made is never used. A lock file lets parallel processes wait for each other.
func cached(key string, fill func(dir string) error) (string, error) {
	dir := filepath.Join(cacheDir(), key)
	if exists(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(cacheDir(), 0o755); err != nil {
		return "", err
	}
	lock, err := lockFile(dir+".lock", true)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if exists(dir) {
		return dir, nil
	}
	tmp, err := os.MkdirTemp(cacheDir(), "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := fill(tmp); err != nil {
		return "", err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", err
	}
	return dir, os.Rename(tmp, dir)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func keyOf(kind string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return kind + "-" + hex.EncodeToString(sum[:8])
}

// brokerJars returns the folder with what kafka.Kafka needs.
func brokerJars(ctx context.Context, version string, logf func(string, ...any)) (string, error) {
	return jars(ctx, "kafka-"+version, logf, "org.apache.kafka:kafka_2.13:"+version)
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

// resolve lets Maven copy what a POM names into dir.
func resolve(ctx context.Context, pom, dir string) error {
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
