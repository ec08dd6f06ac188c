package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// switchVar is the environment variable that turns one of the mutants on that are built together, by its number. It is none of the product's: that refuses those that it does
// not know.
const switchVar = "MUTATE_TURNS_ON"

// variant is what a mutant makes of a function.
type variant struct {
	mutant int
	text   string // the function as the mutant has it, under a name of its own
	call   string // a statement that calls it instead, and returns
}

// weave builds mutants together into a tree, as far as all that they change is the bodies of functions: each such function is there as every mutant has it, under a name
// of its own, and calls that instead of going on when the mutant is turned on. So a package is built once, and not once for each mutant. It
// returns the numbers of those that are woven in; the others have to be tried one by one.
func (t *tree) weave(mutants []*mutant) (map[*mutant]int, error) {
	numbers := map[*mutant]int{}
	files := map[string]map[int][]variant{} // by file, and by place of the function in it
	texts := map[string]string{}
	for _, m := range mutants {
		if m.slow != "" {
			continue // what it costs is not its build
		}
		n := len(numbers) + 1
		found, err := t.variants(m, n, texts)
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue
		}
		numbers[m] = n
		for file, of := range found {
			if files[file] == nil {
				files[file] = map[int][]variant{}
			}
			for i, v := range of {
				files[file][i] = append(files[file][i], v)
			}
		}
	}
	packages := map[string]string{}
	for file, of := range files {
		text, pkg, err := woven(texts[file], of)
		if err == nil {
			err = t.write(file, []byte(text))
		}
		if err != nil {
			return nil, fmt.Errorf("weave %s: %w", file, err)
		}
		packages[filepath.Dir(file)] = pkg
	}
	for dir, pkg := range packages {
		text := fmt.Sprintf("package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar mutant__, _ = strconv.Atoi(os.Getenv(%q))\n", pkg, switchVar)
		if err := t.write(filepath.Join(dir, "mutant__.go"), []byte(text)); err != nil {
			return nil, err
		}
	}
	return numbers, nil
}

// variants are the functions that a mutant changes, by file and place; nil: it changes something else.
func (t *tree) variants(m *mutant, n int, texts map[string]string) (map[string]map[int]variant, error) {
	broken := map[string]string{}
	for _, e := range m.edits {
		if !strings.HasSuffix(e.file, ".go") || strings.HasSuffix(e.file, "_test.go") {
			return nil, nil
		}
		if _, is := texts[e.file]; !is {
			b, err := os.ReadFile(filepath.Join(t.dir, e.file))
			if err != nil {
				return nil, nil // it fits nowhere, and trying it says so
			}
			texts[e.file] = string(b)
		}
		if _, is := broken[e.file]; !is {
			broken[e.file] = texts[e.file]
		}
		text, err := e.apply(broken[e.file])
		if err != nil {
			return nil, nil
		}
		broken[e.file] = text
	}
	found := map[string]map[int]variant{}
	for file, text := range broken {
		of := bodies(texts[file], text, n)
		if of == nil {
			return nil, nil
		}
		found[file] = of
	}
	return found, nil
}

// bodies are the functions of a file of which another text of it has other bodies; nil: more differs, or one cannot be called under another name.
func bodies(was, is string, n int) map[int]variant {
	fset := token.NewFileSet()
	old, err := parser.ParseFile(fset, "", was, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	broken, err := parser.ParseFile(fset, "", is, parser.SkipObjectResolution)
	if err != nil || len(old.Decls) != len(broken.Decls) {
		return nil
	}
	text := func(of string, from, to token.Pos) string {
		return of[fset.Position(from).Offset:fset.Position(to).Offset]
	}
	out := map[int]variant{}
	for i, a := range old.Decls {
		b := broken.Decls[i]
		if text(was, a.Pos(), a.End()) == text(is, b.Pos(), b.End()) {
			continue
		}
		f, ok := a.(*ast.FuncDecl)
		g, also := b.(*ast.FuncDecl)
		if !ok || !also || f.Body == nil || g.Body == nil || text(was, f.Pos(), f.Body.Lbrace) != text(is, g.Pos(), g.Body.Lbrace) {
			return nil
		}
		name := fmt.Sprintf("%s__%d", g.Name.Name, n)
		call := callOf(f, name)
		if call == "" {
			return nil
		}
		out[i] = variant{n, text(is, g.Pos(), g.Name.Pos()) + name + text(is, g.Name.End(), g.End()), call}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// callOf calls a function with the arguments that another one of its type was given, and returns what that returns; "": that cannot be done for it.
func callOf(f *ast.FuncDecl, name string) string {
	if f.Name.Name == "init" || f.Name.Name == "_" || f.Type.TypeParams != nil || recovers(f.Body) {
		return ""
	}
	if f.Recv != nil {
		names := f.Recv.List[0].Names
		if len(names) == 0 || names[0].Name == "_" {
			return ""
		}
		name = names[0].Name + "." + name
	}
	var args []string
	for _, field := range f.Type.Params.List {
		if len(field.Names) == 0 {
			return ""
		}
		for _, id := range field.Names {
			if id.Name == "_" {
				return ""
			}
			arg := id.Name
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	call := name + "(" + strings.Join(args, ", ") + ")"
	if f.Type.Results == nil {
		return call + "; return"
	}
	return "return " + call
}

// recovers reports whether a function recovers, which works only where the deferred call is of itself.
func recovers(body *ast.BlockStmt) (yes bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if _, literal := n.(*ast.FuncLit); literal {
			return false
		}
		id, ok := n.(*ast.Ident)
		yes = yes || ok && id.Name == "recover"
		return true
	})
	return yes
}

// woven is the text of a file with variants of its functions, and the name of its package. No line of it moves.
func woven(text string, variants map[int][]variant) (string, string, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution)
	if err != nil {
		return "", "", err
	}
	var tail strings.Builder
	for i, d := range slices.Backward(f.Decls) {
		if len(variants[i]) == 0 {
			continue
		}
		at := fset.Position(d.(*ast.FuncDecl).Body.Lbrace).Offset + 1
		var turns strings.Builder
		turns.WriteString(" switch mutant__ {")
		for _, v := range variants[i] {
			fmt.Fprintf(&turns, " case %d: %s;", v.mutant, v.call)
			tail.WriteString("\n\n" + v.text)
		}
		turns.WriteString(" }; ")
		text = text[:at] + turns.String() + text[at:]
	}
	return text + tail.String() + "\n", f.Name.Name, nil
}
