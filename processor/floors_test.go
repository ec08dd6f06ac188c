package processor

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The files of this package stand on each other: none uses, be it by way of others, what is declared in a file that uses it. So it can be read from
// below, file by file. Methods and fields count, too.
func TestFilesStandOnEachOther(t *testing.T) {
	uses := usesOfFiles(t)
	floors := map[string]int{}
	var above []string // files that are being looked at, each of which uses the next
	var floor func(file string) int
	floor = func(file string) int {
		if i := slices.Index(above, file); i >= 0 {
			t.Fatalf("files use each other: %s", strings.Join(append(above[i:], file), " uses "))
		}
		if n, ok := floors[file]; ok {
			return n
		}
		above = append(above, file)
		n := 0
		for _, below := range slices.Sorted(maps.Keys(uses[file])) {
			n = max(n, floor(below)+1)
		}
		above = above[:len(above)-1]
		floors[file] = n
		return n
	}
	for file := range uses {
		floor(file)
	}
	if len(floors) < 30 || floors["lane.go"] == 0 || floors["loop.go"] <= floors["lane.go"] || floors["owned.go"] >= floors["lane.go"] {
		t.Errorf("the floors of files: %v", floors)
	}
	drawn := make([]string, slices.Max(slices.Collect(maps.Values(floors)))+1)
	for _, file := range slices.Sorted(maps.Keys(floors)) {
		line := &drawn[len(drawn)-1-floors[file]]
		*line = strings.TrimSpace(*line + " " + file)
	}
	if len(drawn) > mostFloors {
		t.Errorf("the files stand %d high, and more than %d is too much to climb", len(drawn), mostFloors)
	}
	design, err := os.ReadFile("../DESIGN.md")
	if drawing := "\n\n    " + strings.Join(drawn, "\n    ") + "\n\n"; err != nil || !strings.Contains(string(design), drawing) {
		t.Errorf("DESIGN.md does not draw the files of this package as they stand on each other: %s (%v)", drawing, err)
	}
}

// mostFloors is how high the files stand. A file more that uses the topmost ones, or comes between, may rather go where it is used.
const mostFloors = 15

// usesOfFiles says for each file of this package in which others it uses what is declared there.
func usesOfFiles(t *testing.T) map[string]map[string]bool {
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles", ".")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	exports := map[string]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Export string
			GoFiles            []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath], names = p.Export, p.GoFiles // the package itself comes last
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	pkg, err := config.Check(".", fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	file := func(at token.Pos) string { return filepath.Base(fset.Position(at).Filename) }
	uses := map[string]map[string]bool{}
	for _, name := range names {
		uses[name] = map[string]bool{}
	}
	for id, of := range info.Uses {
		_, method := of.(*types.Func)
		v, _ := of.(*types.Var)
		if of.Pkg() != pkg || !method && (v == nil || !v.IsField()) && of.Parent() != pkg.Scope() {
			continue // of another package, or of a function
		}
		if from, to := file(id.Pos()), file(of.Pos()); from != to {
			uses[from][to] = true
		}
	}
	return uses
}
