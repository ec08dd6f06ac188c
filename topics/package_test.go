package topics

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// sources are the files of this package that are not tests.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]*ast.File)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := goparser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
	}
	return files
}

// Imports point one way, and what a record means does not hang on a clock.
func TestImportsNoSisterPackageAndNoClock(t *testing.T) {
	files := sources(t)
	if len(files) < 10 {
		t.Fatalf("found %d files", len(files))
	}
	for name, f := range files {
		for _, i := range f.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); strings.HasPrefix(path, "github.com/duewheel/") {
				t.Errorf("%s imports %s", name, path)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && (s.Sel.Name == "Now" || s.Sel.Name == "Since" || s.Sel.Name == "Until") {
					t.Errorf("%s reads the clock", name)
				}
			}
			return true
		})
	}
}

// The package comment is the contract: it names every header.
func TestPackageCommentNamesEveryHeader(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	for word := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return strings.ContainsRune(" \t\n,;:", r) }) {
		documented[word] = true
	}
	found := 0
	for _, file := range []string{"header.go", "deadletter.go"} {
		ast.Inspect(sources(t)[file], func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			name, _ := strconv.Unquote(l.Value)
			field, isError := strings.CutPrefix(name, errorPrefix)
			if name == HeaderPrefix || name == errorPrefix || !isError && !belongs(name, HeaderPrefix) {
				return true
			}
			found++
			// Several of the errors stand on a line with the first.
			if !documented[name] && !(isError && documented["."+field]) {
				t.Errorf("doc.go does not name %s", name)
			}
			return true
		})
	}
	if want := 21 + len(reserved) + 11; found != want {
		t.Errorf("%d names were looked for, want %d", found, want)
	}
}
