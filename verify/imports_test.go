package verify

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// It shares no code with what it judges.
func TestImports(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			if path := strings.Trim(i.Path.Value, `"`); strings.Contains(path, "duewheel/") && path != "github.com/duewheel/duewheel/bench/check" {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}
