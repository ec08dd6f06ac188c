package brokers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/duewheel/duewheel/integration/brokers/properties"
)

// Worker is a standalone Kafka Connect worker, a child process like a broker of the JVM provider.
type Worker struct {
	// URL is the root of its REST interface.
	URL string

	name    string
	logFile string
	process *process
}

// workerLimit bounds the start of a worker; 3 s were measured on idle cores.
const workerLimit = time.Minute

// Connect starts a worker of Kafka 4.3.1 with these connectors, given by their properties, and returns when all their tasks
// run. The file connectors and the transformations of Connect are there; keys and values are strings. The worker ends with
// the cluster, or earlier by Close. It needs a JVM whatever provider the brokers have.
//
// A source does not create its topic: it must be there before.
func (c *Cluster) Connect(ctx context.Context, connectors ...map[string]string) (*Worker, error) {
	if err := (jvm{}).available(ctx, c.options); err != nil {
		return nil, fmt.Errorf("%w: Connect: %w", ErrNoProvider, err)
	}
	libs, err := connectJars(ctx, Latest, c.options.Logf)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, workerLimit)
	defer cancel()
	began := time.Now()
	w, err := c.startWorker(libs, connectors)
	if err != nil {
		return nil, fmt.Errorf("brokers: start Connect: %w", err)
	}
	c.workers = append(c.workers, w)
	for _, connector := range connectors {
		running := func(ctx context.Context) error { return w.running(ctx, connector["name"]) }
		if err := poll(ctx, w.process.done, running); err != nil {
			return nil, fmt.Errorf("brokers: connector %s: %w\n%s...\n%s", connector["name"], err, complaints(w.log()), tail(w.log()))
		}
	}
	c.options.Logf("brokers: Connect on %s after %s", w.URL, time.Since(began).Round(time.Millisecond))
	return w, nil
}

func (c *Cluster) startWorker(libs string, connectors []map[string]string) (*Worker, error) {
	name := fmt.Sprintf("connect-%d", len(c.workers)+1)
	home := filepath.Join(c.dir, name)
	plugins := filepath.Join(home, "plugins", "file")
	if err := os.MkdirAll(plugins, 0o755); err != nil {
		return nil, err
	}
	classes, err := splitPlugins(libs, plugins)
	if err != nil {
		return nil, err
	}
	port, err := c.ports.take()
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	files := []string{filepath.Join(home, "worker.properties")}
	contents := []map[string]string{{
		"bootstrap.servers":            strings.Join(c.Addrs(), ","),
		"key.converter":                "org.apache.kafka.connect.storage.StringConverter",
		"value.converter":              "org.apache.kafka.connect.storage.StringConverter",
		"offset.storage.file.filename": filepath.Join(home, "offsets"),
		"offset.flush.interval.ms":     "1000",
		"listeners":                    url,
		"plugin.path":                  filepath.Dir(plugins),
		"plugin.discovery":             "service_load", // 3 s to start instead of 8 s with a scan of all classes
	}}
	for _, connector := range connectors {
		files = append(files, filepath.Join(home, connector["name"]+".properties"))
		contents = append(contents, connector)
	}
	for i, file := range files {
		if err := os.WriteFile(file, properties.File(contents[i]), 0o644); err != nil {
			return nil, err
		}
	}
	w := &Worker{URL: url, name: name, logFile: filepath.Join(home, "worker.log")}
	args := append(javaFlags(false), "-Xmx256m", "org.apache.kafka.connect.cli.ConnectStandalone")
	w.process, err = spawnJava(classes, append(args, files...), w.logFile)
	return w, err
}

// splitPlugins links the file connectors into the plugin folder and returns the class path of the rest: on the class path
// itself they would not be found as plugins by service loading in isolation.
func splitPlugins(libs, plugins string) (string, error) {
	all, err := filepath.Glob(filepath.Join(libs, "*.jar"))
	if err != nil {
		return "", err
	}
	var classes []string
	for _, jar := range all {
		if !strings.HasPrefix(filepath.Base(jar), "connect-file-") {
			classes = append(classes, jar)
		} else if err := os.Symlink(jar, filepath.Join(plugins, filepath.Base(jar))); err != nil {
			return "", err
		}
	}
	return strings.Join(classes, string(os.PathListSeparator)), nil
}

// running says nil when the connector and all its tasks run. A task that failed brings its stack trace.
func (w *Worker) running(ctx context.Context, connector string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL+"/connectors/"+connector+"/status", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	type state struct{ State, Trace string }
	var status struct {
		Connector state
		Tasks     []state
	}
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	if len(status.Tasks) == 0 {
		return errors.New("it has no task yet")
	}
	for _, s := range append(status.Tasks, status.Connector) {
		if s.State != "RUNNING" {
			return fmt.Errorf("it is %s %s", s.State, s.Trace)
		}
	}
	return nil
}

// Configure gives a connector other properties, and returns when its tasks run with them.
func (w *Worker) Configure(ctx context.Context, connector map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, workerLimit)
	defer cancel()
	body, err := json.Marshal(connector)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, w.URL+"/connectors/"+connector["name"]+"/config", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("brokers: configure connector %s: %w", connector["name"], err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(response.Body)
		return fmt.Errorf("brokers: configure connector %s: %s: %s", connector["name"], response.Status, why)
	}
	return poll(ctx, w.process.done, func(ctx context.Context) error { return w.running(ctx, connector["name"]) })
}

// Close ends the worker at once. What its sink has not written by then is not written.
func (w *Worker) Close() error {
	w.process.kill()
	return nil
}

// Stop ends the worker in order; offsets of its sources are written.
func (w *Worker) Stop(ctx context.Context) error { return w.process.stop(ctx) }

func (w *Worker) log() ([]byte, error) { return os.ReadFile(w.logFile) }
