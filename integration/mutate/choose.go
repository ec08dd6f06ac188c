package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// choose puts the mutants whose files have changed since base first, beginning with those that have changed themselves, and tells how many they are. Without a base it is the last
// release, and before there is one, the last commit but one.
func choose(root string, mutants []*mutant, base string) (must int, since string, err error) {
	if base == "" {
		base = lastRelease(root)
	}
	files, err := changed(root, base)
	if err != nil {
		return 0, "", err
	}
	tests, err := testFiles(root, mutants)
	if err != nil {
		return 0, "", err
	}
	const itself, others, none = 0, 1, 2
	concern := func(m *mutant) int {
		edited := slices.ContainsFunc(m.edits, func(e edit) bool { return files[e.file] })
		switch {
		case files[filepath.Join("integration", "mutate", "rules", m.name+".txt")]:
			return itself
		case edited || slices.ContainsFunc(tests[m], func(name string) bool { return files[name] }):
			return others
		}
		return none
	}
	rand.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
	of := make(map[*mutant]int)
	for _, m := range mutants {
		if of[m] = concern(m); of[m] != none {
			must++
		}
	}
	slices.SortStableFunc(mutants, func(a, b *mutant) int { return cmp.Compare(of[a], of[b]) })
	return must, base, nil
}

func lastRelease(root string) string {
	if out, err := git(root, "describe", "--tags", "--abbrev=0"); err == nil {
		return strings.TrimSpace(out)
	}
	return "HEAD^"
}

// changed are the files that differ from a commit, or are not in it.
func changed(root, base string) (map[string]bool, error) {
	differ, err := git(root, "diff", "--name-only", "-z", base)
	if err != nil {
		return nil, err
	}
	others, err := git(root, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	files := make(map[string]bool)
	for _, name := range strings.Split(differ+others, "\x00") {
		files[name] = true
	}
	return files, nil
}

// testFiles are the files in which each mutant's tests are; it is an error if there is none.
func testFiles(root string, mutants []*mutant) (map[*mutant][]string, error) {
	defined := make(map[string]map[string]string) // file by test, by package
	tests := make(map[*mutant][]string)
	for _, m := range mutants {
		if defined[m.in.pkg] == nil {
			var err error
			if defined[m.in.pkg], err = testsOf(root, m.in.pkg); err != nil {
				return nil, err
			}
		}
		for _, name := range m.red {
			name, _, _ = strings.Cut(name, "/")
			file := defined[m.in.pkg][name]
			if file == "" {
				return nil, fmt.Errorf("%s: there is no %s in %s", m.name, name, m.in.pkg)
			}
			tests[m] = append(tests[m], file)
		}
	}
	return tests, nil
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\(`)

// testsOf finds the file of each test of a package.
func testsOf(root, pkg string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		return nil, err
	}
	defined := make(map[string]string)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, found := range testFunc.FindAllSubmatch(b, -1) {
			defined[string(found[1])] = filepath.Join(pkg, filepath.Base(file))
		}
	}
	return defined, nil
}

func git(root string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = root
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}
