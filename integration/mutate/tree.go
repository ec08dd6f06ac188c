package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// trees are copies of which each may be broken in another way.
type trees []*tree

// copyTrees makes one at least.
func copyTrees(root string, n int) (all trees, err error) {
	for range max(n, 1) {
		t, err := copyTree(root)
		if err != nil {
			all.remove()
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func (all trees) remove() {
	for _, t := range all {
		t.remove()
	}
}

func (t *tree) remove() { os.RemoveAll(t.dir) }

func (t *tree) write(name string, b []byte) error {
	path := filepath.Join(t.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// try breaks the tree, runs the tests that must go red, and mends the tree. What a property that has failed writes for its next run goes with that.
func (t *tree) try(m *mutant, limit time.Duration) (r result) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	was := map[string][]byte{}
	defer func() {
		for name, b := range was {
			if err := t.write(name, b); err != nil {
				panic(err)
			}
		}
		os.RemoveAll(filepath.Join(t.dir, m.in.pkg, "testdata", "rapid"))
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
	for _, name := range m.red {
		if r = t.test(m.in, []string{name}, limit)[0]; r.verdict != red {
			return r
		}
	}
	return r
}

// test runs tests of a package together, and judges each of them.
func (t *tree) test(in target, names []string, limit time.Duration) []result {
	args := []string{"test", "-json", "-count=1", "-vet=off", "-tags", in.tags, "-run", pattern(names), "-timeout", limit.String(), in.pkg}
	ctx, cancel := context.WithTimeout(context.Background(), limit+5*time.Minute) // it is built first
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append(args, strings.Fields(in.args)...)...)
	cmd.Dir, cmd.WaitDelay = t.dir, 10*time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Run() // the verdict is in the events
	return judge(out.Bytes(), names)
}

// pattern is the -run of go test that means these tests and no others.
func pattern(names []string) string {
	var all []string
	for _, name := range names {
		parts := strings.Split(name, "/")
		for i, p := range parts {
			parts[i] = "^" + regexp.QuoteMeta(p) + "$"
		}
		all = append(all, strings.Join(parts, "/"))
	}
	return strings.Join(all, "|")
}
