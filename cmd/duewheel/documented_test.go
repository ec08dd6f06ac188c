package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var (
	inText = regexp.MustCompile("`(?:\\./)?duewheel ([a-z][^`]*)`")
	onLine = regexp.MustCompile(`(?m)^    (?:\$ )?(?:\./)?duewheel ([a-z].*)$`)
)

// What documents say that duewheel can be asked is there: each command that they name, with the flags that they give it.
func TestDocumentedCommandsAreThere(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range append(pages, "../../README.md", "../../DESIGN.md", "../../CONTRIBUTING.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range append(inText.FindAllStringSubmatch(string(b), -1), onLine.FindAllStringSubmatch(string(b), -1)...) {
			named++
			text, _, _ := strings.Cut(found[1], " #")
			if problem := notThere(newRootCommand(), strings.Fields(strings.ReplaceAll(text, "|", " | "))); problem != "" {
				t.Errorf("%s: duewheel %s: %s", page, text, problem)
			}
		}
	}
	if named < 80 {
		t.Errorf("documents name %d commands", named)
	}
	for _, wrong := range []string{"lst", "ls --limits 5", "dlq list", "verify -z", "topics check create"} {
		if notThere(newRootCommand(), strings.Fields(wrong)) == "" {
			t.Errorf("%s is taken for a command", wrong)
		}
	}
}

// notThere says what of a command line there is not.
func notThere(cmd *cobra.Command, words []string) string {
	for len(words) > 0 && cmd.HasSubCommands() && !strings.HasPrefix(words[0], "-") {
		sub, rest, err := cmd.Find(words)
		if err != nil || sub == cmd {
			return "no command " + words[0]
		}
		cmd = sub
		if words = rest; len(words) > 0 && words[0] == "|" { // others of its parent
			for ; len(words) > 1 && words[0] == "|"; words = words[2:] {
				if _, _, err := cmd.Parent().Find(words[1:2]); err != nil {
					return "no command " + words[1]
				}
			}
		}
	}
	takes := strings.Contains(cmd.Use, " ")
	for i := 0; i < len(words); i++ {
		word, _, hasValue := strings.Cut(words[i], "=")
		if word == "…" || word == "&" || strings.HasPrefix(word, "<") {
			continue
		}
		name, long := strings.CutPrefix(word, "--")
		flag := cmd.Flag(name)
		if short, is := strings.CutPrefix(word, "-"); is && !long && len(short) == 1 {
			if flag = cmd.Flags().ShorthandLookup(short); flag == nil {
				flag = cmd.InheritedFlags().ShorthandLookup(short)
			}
		} else if !long {
			if !takes {
				return "it takes no " + word
			}
			continue
		}
		if flag == nil && name != "help" {
			return "no flag " + word
		}
		if flag != nil && flag.NoOptDefVal == "" && !hasValue {
			i++ // its value
		}
	}
	return ""
}
