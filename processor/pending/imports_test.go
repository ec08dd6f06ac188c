package pending

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A partition is a pure state machine: nothing in here has a goroutine, waits, asks for the time, tells of anything, or knows a broker.
func TestPure(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, spec := range f.Imports {
			if name := strings.Trim(spec.Path.Value, `"`); slices.Contains([]string{"context", "log/slog", "log", "sync", "sync/atomic", "os", "net"}, name) {
				t.Errorf("%s imports %s", file, name)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if _, is := n.(*ast.GoStmt); is {
				t.Errorf("%s begins a goroutine", file)
			}
			return true
		})
	}
}
