package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tree is a copy of the project that may be broken.
type tree struct{ dir string }

// moduleRoot is where go.mod lies.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", errors.New("not inside the module")
	}
	return filepath.Dir(mod), nil
}

// copyTree copies what git tracks, as it stands in the working tree.
func copyTree(root string) (*tree, error) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	t := &tree{dir}
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err == nil {
			err = t.write(name, b)
		}
		if err != nil {
			t.remove()
			return nil, err
		}
	}
	return t, nil
}

func (t *tree) remove() { os.RemoveAll(t.dir) }

func (t *tree) write(name string, b []byte) error {
	path := filepath.Join(t.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// The verdicts on a mutant.
const (
	red       = "red"
	green     = "GREEN"
	unapplied = "DOES NOT FIT"
	unbuilt   = "DOES NOT BUILD"
)

type result struct {
	verdict string
	why     string
	took    time.Duration
}

// try breaks the tree, runs the test and mends the tree.
func (t *tree) try(m *mutant, limit time.Duration) result {
	was := map[string][]byte{}
	defer func() {
		for name, b := range was {
			if err := t.write(name, b); err != nil {
				panic(err)
			}
		}
	}()
	for _, e := range m.edits {
		b, err := os.ReadFile(filepath.Join(t.dir, e.file))
		if err != nil {
			return result{verdict: unapplied, why: err.Error()}
		}
		if was[e.file] == nil {
			was[e.file] = b
		}
		broken, err := e.apply(string(b))
		if err == nil {
			err = t.write(e.file, []byte(broken))
		}
		if err != nil {
			return result{verdict: unapplied, why: err.Error()}
		}
	}
	return t.test(m.test, limit)
}

// test builds and runs one test command.
func (t *tree) test(c command, limit time.Duration) (r result) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	binary := filepath.Join(t.dir, "mutant.test")
	out, err := t.exec(5*time.Minute, t.dir, "go", "test", "-c", "-vet=off", "-tags", c.tags, "-o", binary, c.pkg)
	if err != nil {
		return result{verdict: unbuilt, why: out}
	}
	args := append([]string{"-test.run", c.run, "-test.timeout", limit.String(), "-test.failfast"}, c.args...)
	out, err = t.exec(limit+time.Minute, filepath.Join(t.dir, c.pkg), binary, args...)
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(out, "no tests to run"):
		return result{verdict: unbuilt, why: "there is no such test: " + c.run}
	case err == nil:
		return result{verdict: green, why: out}
	case errors.As(err, &exit):
		return result{verdict: red, why: out}
	}
	return result{verdict: unbuilt, why: err.Error()}
}

// exec runs a command and returns what it prints.
func (t *tree) exec(limit time.Duration, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
