package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// together is a tree in which mutants are woven, and what is built of it.
type together struct {
	tree    *tree
	numbers map[*mutant]int

	mu   sync.Mutex
	bins map[target]*binary // by package and tags
	well map[string]bool    // whether a test is green there while no mutant is turned on
}

// binary are the tests of a package.
type binary struct {
	once sync.Once
	path string // empty: they cannot be built
}

// weaveTogether copies the tree and weaves mutants into it.
func weaveTogether(root string, mutants []*mutant) (*together, error) {
	t, err := copyTree(root)
	if err != nil {
		return nil, err
	}
	w := &together{tree: t, bins: map[target]*binary{}, well: map[string]bool{}}
	if w.numbers, err = t.weave(mutants); err != nil {
		t.remove()
		return nil, err
	}
	return w, nil
}

// try turns a mutant on and runs the tests that must go red, where a tree lies that is as it was. Only red counts: what a test builds or
// reads of that tree by itself is not broken there, so any other verdict is for trying the mutant by itself. So it is if a test is not green while
// it is turned off.
func (w *together) try(m *mutant, where *tree, limit time.Duration) (r result, ok bool) {
	n := w.numbers[m]
	bin := w.build(m.in)
	if n == 0 || bin == "" {
		return result{}, false
	}
	began := time.Now()
	defer os.RemoveAll(filepath.Join(where.dir, m.in.pkg, "testdata", "rapid"))
	for _, name := range m.red {
		if !w.isWell(bin, where, m.in, name, limit) {
			return result{}, false
		}
		if r = runBinary(bin, n, where, m.in, name, limit); r.verdict != red {
			return result{}, false
		}
	}
	r.took = time.Since(began)
	return r, true
}

// build builds the tests of a package once, and returns where they are.
func (w *together) build(in target) string {
	in.args = ""
	w.mu.Lock()
	b := w.bins[in]
	if b == nil {
		b = &binary{}
		w.bins[in] = b
	}
	path := filepath.Join(w.tree.dir, fmt.Sprintf("tests-%d", len(w.bins)))
	w.mu.Unlock()
	b.once.Do(func() {
		cmd := exec.Command("go", "test", "-c", "-vet=off", "-tags", in.tags, "-o", path, in.pkg)
		cmd.Dir = w.tree.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Printf("%s cannot be built with all mutants, so they are tried one by one: %v\n%s\n", in.pkg, err, indent(string(out)))
			return
		}
		b.path = path
	})
	return b.path
}

// isWell reports whether a test is green while no mutant is turned on.
func (w *together) isWell(bin string, where *tree, in target, name string, limit time.Duration) bool {
	key := fmt.Sprint(in, name)
	w.mu.Lock()
	well, known := w.well[key]
	w.mu.Unlock()
	if !known {
		well = runBinary(bin, 0, where, in, name, limit).verdict == green
		w.mu.Lock()
		w.well[key] = well
		w.mu.Unlock()
	}
	return well
}

// runBinary runs one test while one mutant is turned on; 0: none is.
func runBinary(bin string, n int, where *tree, in target, name string, limit time.Duration) result {
	args := []string{"tool", "test2json", bin, "-test.v=test2json", "-test.paniconexit0", "-test.run", pattern([]string{name}), "-test.timeout", limit.String()}
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append(args, strings.Fields(in.args)...)...)
	cmd.Dir, cmd.WaitDelay = filepath.Join(where.dir, in.pkg), 10*time.Second
	cmd.Env = append(os.Environ(), switchVar+"="+strconv.Itoa(n))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Run() // the verdict is in the events
	return judge(out.Bytes(), []string{name})[0]
}

func (w *together) remove() { w.tree.remove() }
