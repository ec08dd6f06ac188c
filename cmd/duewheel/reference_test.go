package main

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/duewheel/duewheel/processor/setting"
)

const referenceFile = "../../docs/configuration.md"

// The tables of keys in the reference are what the declarations of the settings say; -rewrite makes them anew.
func TestReference(t *testing.T) {
	b, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	want := rewriteReference(t, string(b))
	if want == string(b) {
		return
	}
	if f := flag.Lookup("rewrite"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("docs/configuration.md is not what the declarations say; go test ./cmd/duewheel -run TestReference -rewrite")
}

// The reference names every property of other clients that is understood.
func TestReferenceNamesProperties(t *testing.T) {
	b, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, java := range slices.Concat(sorted(propertyNames), javaClient) {
		if !strings.Contains(string(b), "`"+java+"`") {
			t.Errorf("docs/configuration.md does not name the property %s", java)
		}
	}
}

// sections are the headings of the reference, with what the keys below each begin with; the processor has what is left.
var sections = map[string][]string{"Kafka": {"kafka."}, "Group": {"group."}, "Processor": nil, "Routes": {"routes."}, "Admin port and log": {"admin.", "log."}}

func sectionOf(key string) string {
	for name, prefixes := range sections {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			return name
		}
	}
	return "Processor"
}

const tableHead = "| key | default | may be | |\n|---|---|---|---|\n"

// rewriteReference puts the tables in the place of those that are there.
func rewriteReference(t *testing.T, text string) string {
	t.Helper()
	d := readDeclarations(t)
	tables := map[string]string{}
	for _, k := range keys {
		tables[sectionOf(k.Key)] += d.row(t, k)
	}
	for name, rows := range tables {
		before, rest, found := strings.Cut(text, "\n## "+name+"\n")
		lead, table, hasTable := strings.Cut(rest, tableHead)
		if !found || !hasTable {
			t.Fatalf("docs/configuration.md has no table below ## %s", name)
		}
		_, after, more := strings.Cut(table, "\n\n")
		if text = before + "\n## " + name + "\n" + lead + tableHead + rows; more {
			text += "\n" + after
		}
	}
	return text
}

// declarations are what the sources say of settings beside their tags.
type declarations struct {
	comments map[string]string // by struct.Field
	links    map[string]string // by Config.Field and by constant: what the reference calls it
}

func readDeclarations(t *testing.T) *declarations {
	t.Helper()
	d := &declarations{map[string]string{}, map[string]string{}}
	for _, k := range keys {
		d.links[k.Struct+"."+k.Field] = k.Key
	}
	for _, path := range []string{"settings.go", "../../processor/group/group.go", "../../processor/config.go", "../../topics/route.go", "../../topics/backoff.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					for _, field := range s.Fields.List {
						for _, name := range field.Names {
							d.comments[n.Name.Name+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
						}
					}
				}
			case *ast.ValueSpec:
				if len(n.Values) != 1 {
					break
				}
				switch value := n.Values[0].(type) {
				case *ast.BasicLit:
					if value.Kind == token.STRING {
						d.links[n.Names[0].Name], _ = strconv.Unquote(value.Value)
					}
				case *ast.SelectorExpr: // a constant of a package that was read before
					d.links[n.Names[0].Name] = d.links[value.Sel.Name]
				}
			}
			return true
		})
	}
	return d
}

var (
	docLink  = regexp.MustCompile(`\[([A-Za-z.]+)\]`)
	docsPage = regexp.MustCompile(`docs/((\w+)\.md(?:#[\w-]+)?)`)
	verb     = regexp.MustCompile(`^(is|are|says|lists) `)
)

// row is one of a table: the comment without the name of the field, and links as the reference has them.
func (d *declarations) row(t *testing.T, k setting.Setting) string {
	t.Helper()
	words, ok := strings.CutPrefix(d.comments[k.Struct+"."+k.Field], k.Field+" ")
	if !ok {
		t.Errorf("the comment of %s.%s does not begin with its name", k.Struct, k.Field)
		return ""
	}
	words = verb.ReplaceAllString(words, "")
	words = docLink.ReplaceAllStringFunc(words, func(link string) string {
		called := d.links[link[1:len(link)-1]]
		if called == "" {
			t.Errorf("%s.%s: nothing is called %s", k.Struct, k.Field, link)
		}
		return "`" + called + "`"
	})
	words = docsPage.ReplaceAllString(words, "[$2]($1)")
	words = strings.ToUpper(words[:1]) + words[1:]
	def := k.Unset
	if k.Default != "" {
		def = "`" + k.Default + "`"
	}
	key := strings.ReplaceAll(shown(k.Key), "[N]", "[]")
	line := "|"
	for _, cell := range []string{"`" + key + "`", def, k.May(), words} {
		line += strings.TrimSuffix(" "+cell, " ") + " |"
	}
	return line + "\n"
}
