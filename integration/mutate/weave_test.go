package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// loom is a module of which mutants are woven together.
var loom = map[string]string{
	"go.mod": "module m\n\ngo 1.26\n",
	"p/p.go": `package p

type counter struct{ n int }

// add counts.
func (c *counter) add(by ...int) (n int, err error) { // and so on
	for _, b := range by {
		c.n += b
	}
	return c.n, nil
}

func (c *counter) reset() {
	c.n = 0
}

func sum(a, b int) int { return a + b }

func first[T any](all []T) T {
	return all[0]
}

func ignores(_ int) int {
	return 1
}

func caught() (why any) {
	defer catch(&why)
	panic("it")
}

func catch(why *any) {
	*why = recover()
}

const limit = 1
`,
	"p/p_test.go": `package p

import "testing"

func TestAdd(t *testing.T) {
	var c counter
	if n, err := c.add(1, 2); n != 3 || err != nil {
		t.Error(n, err)
	}
}

func TestReset(t *testing.T) {
	c := counter{1}
	if c.reset(); c.n != 0 {
		t.Error(c.n)
	}
}

func TestSum(t *testing.T) {
	if n := sum(1, 2); n != 3 {
		t.Error(n)
	}
}

func TestOthers(t *testing.T) {
	if first([]int{1, 2}) != 1 || ignores(1) != 1 || caught() != "it" || limit != 1 {
		t.Error()
	}
}

func TestNeverGreen(t *testing.T) { t.Error(sum(0, 0)) }
`,
}

// What changes the body of a function is built together with others, and red where its own test is; all else is tried by itself.
func TestWeave(t *testing.T) {
	where := &tree{t.TempDir()}
	for name, text := range loom {
		if err := where.write(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	type change struct{ from, to string }
	changes := map[*mutant]string{}
	var mutants []*mutant
	for _, c := range []struct {
		name, test string
		edits      []change
		want       string // "": it is tried by itself
	}{
		{"a method with results", "TestAdd", []change{{"c.n += b", "c.n -= b"}}, red},
		{"the same one otherwise", "TestAdd", []change{{"return c.n, nil", "return 0, nil"}}, red},
		{"without results", "TestReset", []change{{"c.n = 0", "c.n = 2"}}, red},
		{"two functions", "TestSum", []change{{"c.n = 0", "c.n = 2"}, {"func sum(a, b int) int { return a + b }", "func sum(a, b int) int { return a - b }"}}, red},
		{"another test would be red", "TestReset", []change{{"c.n += b", "c.n -= 2 * b"}}, ""},
		{"its test is not green without it", "TestNeverGreen", []change{{"func sum(a, b int) int { return a + b }", "func sum(a, b int) int { return b }"}}, ""},
		{"a constant", "TestOthers", []change{{"const limit = 1", "const limit = 2"}}, ""},
		{"a signature", "TestSum", []change{{"func sum(a, b int) int { return a + b }", "func sum(b, a int) int { return a - b }"}}, ""},
		{"a type parameter", "TestOthers", []change{{"return all[0]", "return all[1]"}}, ""},
		{"a parameter without a name", "TestOthers", []change{{"return 1", "return 2"}}, ""},
		{"it recovers", "TestOthers", []change{{"*why = recover()", "recover()"}}, ""},
		{"what is not there", "TestOthers", []change{{"return 7", "return 2"}}, ""},
	} {
		m := &mutant{name: c.name, red: []string{c.test}, in: target{pkg: "./p"}}
		for _, e := range c.edits {
			m.edits = append(m.edits, edit{"p/p.go", []string{e.from}, []string{e.to}})
		}
		mutants = append(mutants, m)
		changes[m] = c.want
	}
	w := &together{tree: &tree{t.TempDir()}, bins: map[target]*binary{}, well: map[string]bool{}}
	for name, text := range loom {
		if err := w.tree.write(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.numbers, err = w.tree.weave(mutants); err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		r, ok := w.try(m, where, time.Minute)
		if want := changes[m]; ok != (want != "") || r.verdict != want {
			t.Errorf("%s is %q, %t, want %q", m.name, r.verdict, ok, want)
		}
	}
	if n := len(w.numbers); n != 6 {
		t.Errorf("%d mutants were woven in", n)
	}
	// The lines of what was there before stay where they are.
	text, _, err := woven(loom["p/p.go"], map[int][]variant{1: {{1, "func other() {}", "return c.add__1(by...)"}}})
	was := strings.Split(loom["p/p.go"], "\n")
	if is := strings.Split(text, "\n"); err != nil || len(is) < len(was) || is[len(was)-2] != was[len(was)-2] || !strings.HasPrefix(is[5], strings.TrimSuffix(was[5], " // and so on")) {
		t.Errorf("%v\n%s", err, text)
	}
	// What does not build together is tried by itself, too.
	if err := w.tree.write(filepath.Join("p", "other.go"), []byte("package p\n\nvar x int = \"\"\n")); err != nil {
		t.Fatal(err)
	}
	w.bins = map[target]*binary{}
	if _, ok := w.try(mutants[0], where, time.Minute); ok {
		t.Error("what cannot be built is judged")
	}
}
