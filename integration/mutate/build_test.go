package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// listed is what the go command says of a package.
type listed struct {
	Dir, ImportPath, Export string
	GoFiles                 []string
	Standard                bool
}

// listPackages lists those of this module and all that they need, with what the compiler has written of each.
func listPackages(t *testing.T) (ours, all map[string]listed) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles,Standard", "./...")
	cmd.Dir, cmd.Stderr = filepath.Join("..", ".."), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(cmd.Dir)
	if err != nil {
		t.Fatal(err)
	}
	ours, all = map[string]listed{}, map[string]listed{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return ours, all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
		if dir, err := filepath.Rel(root, p.Dir); err == nil && !strings.HasPrefix(dir, "..") {
			ours[dir] = p
		}
	}
}

// Every mutant builds: one that does not says nothing, and that shows only when it is tried.
func TestMutantsBuild(t *testing.T) {
	mutants, err := readMutants("rules")
	if err != nil {
		t.Fatal(err)
	}
	ours, all := listPackages(t)
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(all[path].Export) })
	built := 0
	for _, m := range mutants {
		texts, dirs := map[string]string{}, map[string]bool{}
		for _, e := range m.edits {
			text, ok := texts[e.file]
			if !ok {
				b, err := os.ReadFile(filepath.Join("..", "..", e.file))
				if err != nil {
					t.Fatalf("%s: %v", m.name, err)
				}
				text = string(b)
			}
			if texts[e.file], err = e.apply(text); err != nil {
				t.Fatalf("%s: %v", m.name, err)
			}
			dirs[filepath.Dir(e.file)] = true
		}
		if len(dirs) > 1 {
			continue // the second would be built against the first as it was
		}
		for dir := range dirs {
			if err := build(fset, imports, ours[dir], dir, texts); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
			built++
		}
	}
	if built < len(mutants)*9/10 {
		t.Errorf("%d of %d mutants were built", built, len(mutants))
	}
}

// build checks the types of a package of which some files are changed.
func build(fset *token.FileSet, imports types.Importer, p listed, dir string, texts map[string]string) error {
	var files []*ast.File
	for _, name := range p.GoFiles {
		var src any
		if text, ok := texts[filepath.Join(dir, name)]; ok {
			src = text
		}
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	_, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, files, nil)
	return err
}
