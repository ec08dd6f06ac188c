package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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

func TestCommand(t *testing.T) {
	c, err := parseCommand("go test -tags synctests -run 'TestSim.*' ./processor -rapid.seed=1")
	if want := "go test -tags synctests -run TestSim.* ./processor -rapid.seed=1"; err != nil || c.String() != want {
		t.Errorf("got %s, %v", c, err)
	}
	for _, bad := range []string{"go vet ./...", "go test ./processor", "go test -run X", "go test -race -run X ./processor"} {
		if c, err := parseCommand(bad); err == nil {
			t.Errorf("%q is taken for %s", bad, c)
		}
	}
}
