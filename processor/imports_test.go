package processor

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Imports point one way, and what is below knows nothing of what is above: each package of the core may use those that stand behind it
// here, of ours, and no others. What judges it shares no code with it.
func TestImportsPointOneWay(t *testing.T) {
	may := map[string]string{
		"wheel":               "",
		"state":               "state/internal/malloc",
		"topics":              "",
		"processor/wait":      "",
		"processor/setting":   "",
		"processor/kafka":     "processor/wait",
		"processor/assignor":  "processor/kafka",
		"processor/group":     "processor/kafka processor/wait",
		"processor/clock":     "processor/kafka processor/wait",
		"processor/histogram": "",
		"processor/telling":   "processor/kafka topics",
		"processor/peers":     "processor/telling processor/wait",
		"processor/targets":   "processor/histogram processor/kafka processor/wait",
		"processor/picture":   "processor/kafka",
		"processor/producer":  "processor/kafka processor/wait",
		"processor/retention": "processor/kafka processor/picture processor/wait state topics",
		"processor/pending":   "processor/pending/internal/chunks state topics wheel",
		"processor/local":     "processor/kafka processor/pending processor/picture processor/wait state topics",
		"processor/restore":   "processor/kafka processor/local processor/pending processor/picture processor/producer processor/wait state topics",
		"processor/standby":   "processor/assignor processor/kafka processor/local processor/pending processor/picture processor/telling processor/wait state topics",
		"processor/turn":      "processor/clock processor/kafka processor/pending processor/producer processor/targets state topics",
		"processor/ahead":     "processor/kafka processor/pending processor/wait state topics",
		"processor":           "processor/assignor processor/clock processor/group processor/histogram processor/kafka processor/local processor/peers processor/pending processor/picture processor/producer processor/restore processor/retention processor/setting processor/standby processor/targets processor/telling processor/turn processor/wait state topics",

		"processor/internal/answers":        "", // for tests
		"processor/internal/disk":           "", // the same
		"processor/internal/samples":        "topics",
		"processor/internal/wiretap":        "processor/internal/answers processor/kafka state",
		"processor/pending/internal/chunks": "",
		"state/internal/malloc":             "",

		"bench/check": "",
		"verify":      "bench/check",
	}
	found := map[string]bool{}
	for _, dir := range []string{"wheel", "state", "topics", "processor", "bench/check", "verify"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			pkg, err := filepath.Rel("..", filepath.Dir(path))
			if err != nil {
				return err
			}
			found[pkg] = true
			allowed, listed := may[pkg]
			if !listed {
				t.Errorf("package %s has no line in this test", pkg)
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, spec := range f.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return err
				}
				if of, ours := strings.CutPrefix(name, "github.com/duewheel/duewheel/"); ours && !slices.Contains(strings.Fields(allowed), of) {
					t.Errorf("%s imports %s", path, of)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for pkg := range may {
		if !found[pkg] {
			t.Errorf("there is no package %s any more", pkg)
		}
	}
}
