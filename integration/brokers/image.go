package brokers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// pullLimit bounds the attempt to get apache/kafka, some 200 MB, from a registry.
const pullLimit = 2 * time.Minute

// image returns the name of an image that is there: apache/kafka if the engine has it or can pull it, else our own, which is
// built from a JDK and the jars without a registry.
func image(ctx context.Context, p *testcontainers.DockerProvider, o Options) (string, error) {
	official := "apache/kafka:" + o.Version
	if hasImage(ctx, p, official) {
		return official, nil
	}
	own, ownErr := newOwnImage(ctx, o)
	if ownErr == nil && hasImage(ctx, p, own.name) {
		return own.name, nil
	}
	pullErr := pull(ctx, p, official, o)
	if pullErr == nil {
		return official, nil
	}
	if ownErr == nil {
		ownErr = own.build(ctx, p, o)
	}
	if ownErr != nil {
		return "", fmt.Errorf("no image: %w", errors.Join(pullErr, ownErr))
	}
	return own.name, nil
}

func hasImage(ctx context.Context, p *testcontainers.DockerProvider, name string) bool {
	_, err := p.Client().ImageInspect(ctx, name)
	return err == nil
}

func pull(ctx context.Context, p *testcontainers.DockerProvider, name string, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	o.Logf("brokers: pulling %s", name)
	answer, err := p.Client().ImagePull(ctx, name, client.ImagePullOptions{})
	if err != nil {
		return fmt.Errorf("pull %s: %w", name, err)
	}
	return answer.Wait(ctx)
}

// ownImage is one layer: a Java runtime with the modules that Kafka needs, the shared libraries that it loads, the jars, and the
// entry point.
type ownImage struct {
	name  string // names the inputs, so that an image of that name is up to date
	libs  string
	entry []byte // the entry point, a static binary
}

const (
	runtimeModules = "java.se,jdk.unsupported,jdk.crypto.ec,jdk.management"
	entryPackage   = "github.com/duewheel/duewheel/integration/brokers/entrypoint"
)

func newOwnImage(ctx context.Context, o Options) (*ownImage, error) {
	libs, err := brokerJars(ctx, o.Version, o.Logf)
	if err != nil {
		return nil, err
	}
	jdk, err := exec.CommandContext(ctx, "jlink", "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("jlink, which is part of a JDK: %w: %s", err, jvmAdvice)
	}
	entry, err := buildEntrypoint(ctx)
	if err != nil {
		return nil, err
	}
	key := keyOf(o.Version, libs, string(jdk), runtimeModules, string(entry))
	return &ownImage{name: "duewheel-kafka:" + key, libs: libs, entry: entry}, nil
}

// buildEntrypoint lets the go command build the static binary, the same bytes from the same source.
func buildEntrypoint(ctx context.Context) ([]byte, error) {
	dir, err := os.MkdirTemp("", "duewheel-entrypoint-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "entrypoint")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", file, entryPackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the entry point: %w\n%s", err, out)
	}
	return os.ReadFile(file)
}

// build streams the layer to the engine.
func (i *ownImage) build(ctx context.Context, p *testcontainers.DockerProvider, o Options) error {
	o.Logf("brokers: building the image %s", i.name)
	work, err := os.MkdirTemp("", "duewheel-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	java := filepath.Join(work, "java")
	link := exec.CommandContext(ctx, "jlink", "--add-modules", runtimeModules, "--strip-java-debug-attributes",
		"--no-header-files", "--no-man-pages", "--output", java)
	if out, err := link.CombinedOutput(); err != nil {
		return fmt.Errorf("jlink: %w\n%s", err, out)
	}
	libraries, err := sharedLibraries(ctx, java)
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(i.writeLayer(w, java, libraries)) }()
	defer r.Close()
	return importLayer(ctx, p, i.name, r)
}

func importLayer(ctx context.Context, p *testcontainers.DockerProvider, name string, layer io.Reader) error {
	source := client.ImageImportSource{Source: layer, SourceName: "-"}
	options := client.ImageImportOptions{Changes: []string{
		`ENTRYPOINT ["/entrypoint"]`,
		"LABEL org.testcontainers=true",
	}}
	answer, err := p.Client().ImageImport(ctx, source, name, options)
	if err != nil {
		return fmt.Errorf("import the image: %w", err)
	}
	defer answer.Close()
	for d := json.NewDecoder(answer); ; {
		var line struct{ Error string }
		switch err := d.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line.Error != "":
			return fmt.Errorf("import the image: %s", line.Error)
		}
	}
}
