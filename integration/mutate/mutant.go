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
	slow  string // why -quick leaves it out
	test  command
	edits []edit
}

// command is a call of go test, taken apart so that the test can be built once.
type command struct {
	tags string
	run  string
	pkg  string
	args []string // for the test itself
}

func (c command) String() string {
	s := "go test"
	if c.tags != "" {
		s += " -tags " + c.tags
	}
	return strings.Join(append([]string{s, "-run", c.run, c.pkg}, c.args...), " ")
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
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, "#"):
			if m.says == "" {
				m.says = strings.TrimSpace(line[1:])
			}
		case strings.HasPrefix(line, "--- "):
			file = strings.TrimSpace(line[4:])
		case line == "<<<<":
			e := edit{file: file}
			middle := slices.Index(lines[i:], "====")
			end := slices.Index(lines[i:], ">>>>")
			if file == "" || middle < 0 || end < middle {
				return nil, fmt.Errorf("line %d: an edit is --- file, <<<<, ====, >>>>", i+1)
			}
			e.from, e.to = lines[i+1:i+middle], lines[i+middle+1:i+end]
			m.edits = append(m.edits, e)
			i += end
		case key == "rule":
			m.rule = value
		case key == "slow":
			m.slow = value
		case key == "test":
			var err error
			if m.test, err = parseCommand(value); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		default:
			return nil, fmt.Errorf("line %d: %q is neither a field nor an edit", i+1, line)
		}
	}
	if m.says == "" || m.rule == "" || m.test.pkg == "" || len(m.edits) == 0 {
		return nil, errors.New("a mutant has a comment, a rule, a test and an edit")
	}
	return m, nil
}

func parseCommand(s string) (command, error) {
	words := strings.Fields(s)
	var c command
	if len(words) < 2 || words[0] != "go" || words[1] != "test" {
		return c, fmt.Errorf("%q does not begin with go test", s)
	}
	for i := 2; i < len(words); i++ {
		switch w := words[i]; {
		case (w == "-tags" || w == "-run") && i+1 < len(words):
			i++
			if value := strings.Trim(words[i], "'"); w == "-tags" {
				c.tags = value
			} else {
				c.run = value
			}
		case strings.HasPrefix(w, "./") && c.pkg == "":
			c.pkg = w
		case c.pkg != "":
			c.args = append(c.args, w)
		default:
			return c, fmt.Errorf("%q in a test command", w)
		}
	}
	if c.run == "" || c.pkg == "" {
		return c, fmt.Errorf("%q names no test (-run) or no package", s)
	}
	return c, nil
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
