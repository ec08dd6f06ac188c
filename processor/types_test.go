package processor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Types and files stay small enough to be read as a whole. In tests a type may be large, since what is in it is told where it is used.
func TestTypesStaySmall(t *testing.T) {
	const mostMethods, mostLines, mostTestLines = 25, 400, 500
	methods, files := map[string]int{}, 0
	for _, dir := range []string{"wheel", "state", "topics", "processor", "bench", "verify", "admin", "cmd", "integration"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				return err
			}
			files++
			most, test := mostLines, strings.HasSuffix(path, "_test.go")
			if test {
				most = mostTestLines
			}
			if n := fset.File(f.Pos()).LineCount(); n > most {
				t.Errorf("%s has %d lines, and %d is the most", path, n, most)
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && !test {
					methods[filepath.Dir(path)+"."+receiver(fn.Recv.List[0].Type)]++
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods, and %d is the most", name, n, mostMethods)
		}
	}
	if lane, checker := methods["../processor.lane"], methods["../bench/check.Checker"]; files < 130 || lane == 0 || checker == 0 {
		t.Errorf("%d files were looked at, %d methods of a lane and %d of a checker", files, lane, checker)
	}
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
