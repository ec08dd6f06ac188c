package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one way to break a rule.
type mutant struct {
	name  string
	says  string // the first line of its comment
	rule  string
	slow  string   // why -quick leaves it out
	red   []string // the tests that must go red, each of them
	in    target
	edits []edit
}

// target is where tests are, and how they are run.
type target struct {
	pkg  string
	tags string
	args string // for the tests themselves, with spaces between
}

// edit replaces some lines of a file.
type edit struct {
	file     string
	from, to []string
}

func readMutants(dir string) ([]*mutant, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var out []*mutant
	var errs []error
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		m, err := parseMutant(strings.TrimSuffix(filepath.Base(name), ".txt"), string(b))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Base(name), err))
			continue
		}
		out = append(out, m)
	}
	return out, errors.Join(errs...)
}

func parseMutant(name, text string) (*mutant, error) {
	m := &mutant{name: name}
	file := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, "#"):
			if m.says == "" {
				m.says = strings.TrimSpace(line[1:])
			}
		case strings.HasPrefix(line, "--- "):
			file = strings.TrimSpace(line[4:])
		case line == "<<<<":
			e, n, err := parseEdit(file, lines[i:])
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			m.edits = append(m.edits, e)
			i += n
		default:
			if err := m.field(line); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		}
	}
	if m.says == "" || m.rule == "" || len(m.red) == 0 || len(m.edits) == 0 {
		return nil, errors.New("a mutant has a comment, a rule, tests that must go red, and an edit")
	}
	return m, nil
}

// parseEdit takes an edit from its first line on, and tells how many lines follow that one.
func parseEdit(file string, lines []string) (edit, int, error) {
	middle, end := slices.Index(lines, "===="), slices.Index(lines, ">>>>")
	if file == "" || middle < 0 || end < middle {
		return edit{}, 0, errors.New("an edit is --- file, <<<<, ====, >>>>")
	}
	return edit{file, lines[1:middle], lines[middle+1 : end]}, end, nil
}

func (m *mutant) field(line string) error {
	key, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch key {
	case "rule":
		m.rule = value
	case "slow":
		m.slow = value
	case "tags":
		m.in.tags = value
	case "args":
		m.in.args = value
	case "red":
		words := strings.Fields(value)
		if len(words) < 2 || !strings.HasPrefix(words[0], "./") {
			return fmt.Errorf("%q is not a package and the names of tests: red: ./processor TestLateArrival", line)
		}
		m.in.pkg, m.red = words[0], words[1:]
		for _, name := range m.red {
			if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") {
				return fmt.Errorf("%q is not the name of one test; each test has a word of its own", name)
			}
		}
	case "test":
		return errors.New("a mutant names the tests that must go red, not a command: red: ./processor TestLateArrival, and where they need it, " +
			"tags: synctests and args: -rapid.seed=1")
	default:
		return fmt.Errorf("%q is neither a field nor an edit", line)
	}
	return nil
}

// apply returns text with the edit made. The lines are looked for without the spaces around
// them, so that a change of indentation does not matter, and must be there exactly once.
func (e edit) apply(text string) (string, error) {
	lines := strings.Split(text, "\n")
	at := -1
	for i := 0; i+len(e.from) <= len(lines); i++ {
		if !e.fits(lines[i:]) {
			continue
		}
		if at >= 0 {
			return "", fmt.Errorf("lines %d and %d of %s both begin with:\n%s", at+1, i+1, e.file, strings.Join(e.from, "\n"))
		}
		at = i
	}
	if at < 0 || len(e.from) == 0 {
		return "", fmt.Errorf("%s does not have:\n%s", e.file, strings.Join(e.from, "\n"))
	}
	return strings.Join(slices.Concat(lines[:at], e.to, lines[at+len(e.from):]), "\n"), nil
}

func (e edit) fits(lines []string) bool {
	for i, want := range e.from {
		if strings.TrimSpace(lines[i]) != strings.TrimSpace(want) {
			return false
		}
	}
	return true
}
