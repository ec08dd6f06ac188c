package brokers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/duewheel/duewheel/integration/brokers/properties"
)

// template is what is prepared once for each version of Kafka and of Java: the jars, a formatted data folder, and an archive
// of the classes that a broker loads while it starts. With the archive a node is ready after 1.0 s instead of 1.8 s.
type template struct {
	classPath string
	dir       string
}

func (t template) data() string    { return filepath.Join(t.dir, "data") }
func (t template) archive() string { return filepath.Join(t.dir, "classes.jsa") }

// useArchive uses the archive where it fits; where it does not, the JVM starts without it.
func (t template) useArchive() []string {
	return []string{"-XX:SharedArchiveFile=" + t.archive(), "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"}
}

func (t template) writeArchive() []string { return []string{"-XX:ArchiveClassesAtExit=" + t.archive()} }

func prepareTemplate(ctx context.Context, o Options) (template, error) {
	libs, err := brokerJars(ctx, o.Version, o.Logf)
	if err != nil {
		return template{}, err
	}
	t := template{}
	if t.classPath, err = classPath(libs); err != nil {
		return t, err
	}
	java, err := exec.CommandContext(ctx, "java", "-version").CombinedOutput()
	if err != nil {
		return t, err
	}
	t.dir, err = cached(keyOf(filepath.Base(libs)+"-template", string(java)), func(dir string) error {
		return t.make(ctx, o, dir)
	})
	return t, err
}

// classPath lists the jars in a fixed order, which the archive needs.
func classPath(libs ...string) (string, error) {
	var all []string
	for _, dir := range libs {
		found, err := filepath.Glob(filepath.Join(dir, "*.jar"))
		if err != nil {
			return "", err
		}
		all = append(all, found...)
	}
	return strings.Join(all, string(os.PathListSeparator)), nil
}

// make formats a data folder and lets a broker run until it answers, to see which classes it loads.
func (t template) make(ctx context.Context, o Options, dir string) error {
	o.Logf("brokers: preparing a data folder and a class archive for Kafka %s", o.Version)
	t.dir = dir
	c, err := newCluster(Options{Version: o.Version, Nodes: 1, Logf: o.Logf}, JVM)
	if err != nil {
		return err
	}
	defer c.Close()
	n := c.nodes[0]
	if err := t.storageTool(ctx, c, n); err != nil {
		return err
	}
	m, err := newJVMMachine(c, n, t, t.writeArchive())
	if err != nil {
		return err
	}
	n.machine = m
	if err := n.Start(ctx); err != nil {
		return err
	}
	return n.Stop(ctx)
}

func (t template) storageTool(ctx context.Context, c *Cluster, n *Node) error {
	config := filepath.Join(c.dir, "format.properties")
	if err := os.WriteFile(config, properties.File(c.properties(n, t.data())), 0o644); err != nil {
		return err
	}
	args := append(javaFlags(false), "kafka.tools.StorageTool", "format", "-t", c.id, "-c", config)
	if out, err := javaCommand(ctx, t.classPath, args).CombinedOutput(); err != nil {
		return fmt.Errorf("format the data folder: %w\n%s", err, out)
	}
	return nil
}

// format gives a node a data folder: a copy with ids of its own.
func (t template) format(data, clusterID string, nodeID int) error {
	if err := os.CopyFS(data, os.DirFS(t.data())); err != nil {
		return err
	}
	meta := map[string]string{
		"version": "1", "cluster.id": clusterID, "node.id": strconv.Itoa(nodeID), "directory.id": newUUID(),
	}
	return os.WriteFile(filepath.Join(data, "meta.properties"), properties.File(meta), 0o644)
}
