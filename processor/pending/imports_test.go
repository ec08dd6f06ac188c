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

// impure are the packages by which something could come in that is not in what a partition is told; of a package with names, only those.
var impure = map[string][]string{
	"context": nil, "log": nil, "log/slog": nil, "sync": nil, "sync/atomic": nil, "os": nil, "net": nil,
	"math/rand": nil, "math/rand/v2": nil, "crypto/rand": nil,
	"hash/maphash": {"MakeSeed", "Hash", "String", "Bytes", "Comparable", "WriteComparable"},
	"time":         {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
}

// pureAllTheSame is what is used of those, and why.
var pureAllTheSame = map[string]string{
	"ids.go: maphash.MakeSeed": "who chooses ids must not choose where their hashes lie in a table. No answer follows from that: hashes of 127 bits stand for the ids themselves",
	"ids.go: maphash.Bytes":    "with those seeds",
}

// A partition is a pure state machine: nothing in here has a goroutine, waits, asks for the time, draws lots, tells of anything, or knows a broker. What it is told twice it
// answers twice in the same way.
func TestPure(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must(t, err)
	used := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, found := range impurities(f) {
			found = file + ": " + found
			used[found] = true
			if pureAllTheSame[found] == "" {
				t.Errorf("what a partition is told does not say what follows from %s", found)
			}
		}
	}
	for found := range pureAllTheSame {
		if !used[found] {
			t.Errorf("nothing is to be said of %s any more", found)
		}
	}
}

// impurities are the goroutines that a file begins, and what it uses of impure packages.
func impurities(f *ast.File) (all []string) {
	names := map[string][]string{} // by what a package is called in the file
	for _, spec := range f.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		some, is := impure[path]
		switch {
		case !is:
		case some == nil || spec.Name != nil:
			all = append(all, path)
		default:
			names[path[strings.LastIndex(path, "/")+1:]] = some
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			all = append(all, "go")
		case *ast.SelectorExpr:
			if x, is := n.X.(*ast.Ident); is && slices.Contains(names[x.Name], n.Sel.Name) {
				all = append(all, x.Name+"."+n.Sel.Name)
			}
		}
		return true
	})
	return all
}

// The test above finds what it is there for.
func TestImpurities(t *testing.T) {
	for body, want := range map[string]string{
		`import "time"; var at = time.Now()`:                           "time.Now",
		`import "time"; func f(t time.Time) any { return time.Since }`: "time.Since",
		`import clock "time"`:                                          "time",
		`import "time"; const second = time.Second`:                    "",
		`import "math/rand/v2"`:                                        "math/rand/v2",
		`import "hash/maphash"; var seed = maphash.MakeSeed()`:         "maphash.MakeSeed",
		`import "hash/maphash"; type at struct { seed maphash.Seed }`:  "",
		`func f() { go f() }`:                                          "go",
		`import "log/slog"`:                                            "log/slog",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "f.go", "package f; "+body, parser.SkipObjectResolution)
		must(t, err)
		equal(t, body, strings.Join(impurities(f), " "), want)
	}
}
