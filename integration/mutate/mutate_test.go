package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every mutant is in order, and fits the tree as it stands.
func TestMutantsFit(t *testing.T) {
	root := filepath.Join("..", "..")
	mutants, err := readMutants("rules")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		texts := map[string]string{}
		for _, e := range m.edits {
			text, ok := texts[e.file]
			if !ok {
				b, err := os.ReadFile(filepath.Join(root, e.file))
				if err != nil {
					t.Fatalf("%s: %v", m.name, err)
				}
				text = string(b)
			}
			if texts[e.file], err = e.apply(text); err != nil {
				t.Errorf("%s: %v", m.name, err)
			} else if texts[e.file] == text {
				t.Errorf("%s changes nothing in %s", m.name, e.file)
			}
		}
	}
	if _, err := testFiles(root, mutants); err != nil {
		t.Error(err)
	}
}

func TestEdit(t *testing.T) {
	const text = "a\n\tb {\n\t\tc\n\t}\nd\n\tb {\n"
	for _, c := range []struct{ name, from, to, want, err string }{
		{"spaces around a line do not matter", "b {\n c", "x", "a\nx\n\t}\nd\n\tb {\n", ""},
		{"lines may go", "d", "", "a\n\tb {\n\t\tc\n\t}\n\n\tb {\n", ""},
		{"it must be clear where", "b {", "x", "", "both begin with"},
		{"it must be there", "e", "x", "", "does not have"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := edit{file: "f", from: strings.Split(c.from, "\n"), to: strings.Split(c.to, "\n")}
			got, err := e.apply(text)
			if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestParse(t *testing.T) {
	const text = "# Says.\nrule: 3\nred: ./p TestA TestB/c\ntags: x\nargs: -a -b\n\n--- p/a.go\n<<<<\na\n====\nb\n>>>>\n"
	m, err := parseMutant("m", text)
	if err != nil || m.in != (target{"./p", "x", "-a -b"}) || !slices.Equal(m.red, []string{"TestA", "TestB/c"}) || len(m.edits) != 1 {
		t.Errorf("got %+v, %v", m, err)
	}
	if got, want := pattern(m.red), "^TestA$|^TestB$/^c$"; got != want {
		t.Errorf("the tests are run by %s, want %s", got, want)
	}
	for _, c := range []struct{ name, from, to, err string }{
		{"a word that is no test", "TestA", "A", "not the name of one test"},
		{"no package", "./p TestA TestB/c", "TestA", "not a package and the names"},
		{"no test", "./p TestA TestB/c", "./p", "not a package and the names"},
		{"a command", "red: ./p", "test: go test -run", "names the tests that must go red, not a command"},
		{"no rule", "rule: 3\n", "", "a mutant has"},
		{"no edit", text[strings.Index(text, "---"):], "", "a mutant has"},
		{"half an edit", ">>>>", "", "an edit is"},
	} {
		if _, err := parseMutant("m", strings.Replace(text, c.from, c.to, 1)); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// module is one to be broken: its test is red where broken says so, and in which way.
var module = map[string]string{
	"go.mod": "module m\n",
	"p/p.go": "package p\n\nconst how = \"\"\n",
	"p/p_test.go": `package p

import "testing"

func TestIt(t *testing.T) {
	switch how {
	case "fails":
		t.Error("it has failed")
	case "skips":
		t.Skip()
	case "panics":
		panic("it")
	case "another goroutine panics":
		go panic("it")
		select {}
	case "never ends":
		for {
		}
	}
}

func TestOther(t *testing.T) {
	if how == "another fails" {
		t.Error("it has failed")
	}
}
`,
}

// Only that a test named in it fails makes a mutant red.
func TestVerdict(t *testing.T) {
	tr := &tree{t.TempDir()}
	for name, text := range module {
		if err := tr.write(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		how  string
		want string
		red  string
	}{
		{"const how = \"\" // no difference", green, "TestIt"},
		{`const how = "fails"`, red, "TestIt"},
		{`const how = "fails"`, green, "TestIt TestOther"},
		{`const how = "panics"`, red, "TestIt"},
		{`const how = "another goroutine panics"`, red, "TestIt"},
		{`const how = "another fails"`, green, "TestIt"},
		{`const how = "never ends"`, late, "TestIt"},
		{`const how = "skips"`, unknown, "TestIt"},
		{`const how = 1`, unbuilt, "TestIt"},
		{`const how = "fails"`, unknown, "TestIts"},
	} {
		m := &mutant{red: strings.Fields(c.red), in: target{pkg: "./p"}, edits: []edit{{"p/p.go", []string{`const how = ""`}, []string{c.how}}}}
		if r := tr.try(m, 2*time.Second); r.verdict != c.want {
			t.Errorf("%s is %s for %s, want %s:\n%s", c.how, r.verdict, c.red, c.want, r.why)
		}
	}
	if m := (&mutant{red: []string{"TestIt"}, in: target{pkg: "./p"}, edits: []edit{{"p/p.go", []string{"var"}, []string{"const"}}}}); tr.try(m, time.Second).verdict != unapplied {
		t.Error("what fits nowhere is judged")
	}
	if b, err := os.ReadFile(filepath.Join(tr.dir, "p/p.go")); err != nil || string(b) != module["p/p.go"] {
		t.Errorf("the tree has not been mended: %s, %v", b, err)
	}
}

// Mutants whose rule, test or broken file has changed come first, and of those the ones that have changed themselves.
func TestChoose(t *testing.T) {
	tr := &tree{t.TempDir()}
	write := func(name, text string) {
		if err := tr.write(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) {
		if _, err := git(tr.dir, append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	var mutants []*mutant
	for _, name := range []string{"a", "b", "c", "d"} {
		mutants = append(mutants, &mutant{name: name, red: []string{"Test" + name}, in: target{pkg: "p"}, edits: []edit{{file: "p/" + name + ".go"}}})
		write("p/"+name+".go", "package p\n")
		write("p/"+name+"_test.go", "package p\n\nfunc Test"+name+"(t *testing.T) {}\n")
		write("integration/mutate/rules/"+name+".txt", "\n")
	}
	run("init", "-q")
	run("add", ".")
	run("commit", "-q", "-m", "first")
	run("tag", "v1")
	write("p/c.go", "package p // changed\n")
	run("commit", "-q", "-a", "-m", "second")
	write("p/a_test.go", "package p\n\nfunc Testa(t *testing.T) { t.Error() }\n")
	write("integration/mutate/rules/d.txt", "# not committed\n")

	must, since, err := choose(tr.dir, mutants, "")
	var names []string
	for _, m := range mutants[:must] {
		names = append(names, m.name)
	}
	slices.Sort(names)
	if err != nil || since != "v1" || !slices.Equal(names, []string{"a", "c", "d"}) {
		t.Errorf("since %s: %v, %v", since, names, err)
	}
	if must, _, err := choose(tr.dir, mutants, "HEAD"); err != nil || must != 2 {
		t.Errorf("since the last commit: %d, %v", must, err)
	}
	if mutants[0].name != "d" {
		t.Errorf("first is %s, and it is d that has changed itself", mutants[0].name)
	}
	mutants[0].red = []string{"TestGone"}
	if _, _, err := choose(tr.dir, mutants, ""); err == nil || !strings.Contains(err.Error(), "there is no TestGone") {
		t.Errorf("a test that is not there: %v", err)
	}
}
