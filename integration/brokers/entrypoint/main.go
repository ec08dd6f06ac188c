// Command entrypoint is process 1 of the local Kafka image. It keeps the contract of the apache/kafka image: settings come by
// the environment, and the storage is formatted at the first start.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/duewheel/duewheel/integration/brokers/properties"
)

const (
	java      = "/opt/java/bin/java"
	classPath = "/opt/kafka/libs/*"
	config    = "/opt/kafka/config/server.properties"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "entrypoint:", err)
		os.Exit(1)
	}
}

func run() error {
	settings := properties.FromEnv(os.Environ())
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(config, properties.File(settings), 0o600); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(settings["log.dirs"], "meta.properties")); err != nil {
		if err := format(); err != nil {
			return err
		}
	}
	// Java takes over the process, so that signals reach it and its end is the container's.
	return syscall.Exec(java, append([]string{java}, command("kafka.Kafka", config)...), os.Environ())
}

func format() error {
	cmd := exec.Command(java, command("kafka.tools.StorageTool", "format", "-t", os.Getenv("CLUSTER_ID"), "-c", config)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func command(program string, args ...string) []string {
	c := strings.Fields(os.Getenv("KAFKA_HEAP_OPTS") + " " + os.Getenv("KAFKA_JVM_PERFORMANCE_OPTS") + " " + os.Getenv("KAFKA_OPTS"))
	return append(append(c, "-cp", classPath, program), args...)
}
