package wheel

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The wheel stands on the standard library alone, and on nothing there that reads a clock, locks or does input and output.
func TestImports(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			root, _, _ := strings.Cut(path, "/")
			if strings.Contains(root, ".") || slices.Contains([]string{"time", "sync", "os", "io", "net", "C"}, root) {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}
