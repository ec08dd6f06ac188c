// Command mutate breaks one rule of the design at a time and looks whether a test notices.
//
//	go run ./integration/mutate [-quick] [-within 3m] [-only name] [-list] [-p 2]
//
// Each file in rules is a mutant: the rule that it breaks, the quickest test command that must
// then fail, and the edits that break it. The edits are made in a copy of the tree, one mutant at
// a time, and the command is run there. A mutant must be red. Green is a rule without a test; one
// whose edits fit nowhere, or that does not build, says nothing, so it counts as green. Before
// that every command must be green without a mutant, or its red would mean nothing.
//
// With -quick only the mutants are tried that tests without a broker find within seconds. With -within they are tried in an
// order that changes, and none is begun after that time: every run tries others.
//
// The file of a mutant:
//
//	# What the rule says, and what is broken.
//	rule: 3
//	test: go test -run TestLateArrival ./processor
//	slow: it needs a real Kafka          (only where -quick is to leave it out)
//
//	--- processor/accept.go
//	<<<<
//	the lines to be replaced, of which the spaces around do not count
//	====
//	the lines in their place
//	>>>>
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	quick := flag.Bool("quick", false, "only what is found within seconds, without a broker")
	only := flag.String("only", "", "only mutants whose name matches this regular expression")
	within := flag.Duration("within", 0, "begin no mutant after this time; they come in random order (0: try them all)")
	list := flag.Bool("list", false, "print the mutants and the rules that they break")
	limit := flag.Duration("limit", 5*time.Minute, "how long one command may take")
	workers := flag.Int("p", runtime.NumCPU(), "how many mutants are tried at the same time")
	flag.Parse()
	if err := run(*quick, *only, *list, *within, *limit, max(*workers, 1)); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(quick bool, only string, list bool, within, limit time.Duration, workers int) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	mutants, err := readMutants(filepath.Join(root, "integration", "mutate", "rules"))
	if err != nil {
		return err
	}
	name, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	mutants = slices.DeleteFunc(mutants, func(m *mutant) bool {
		return !name.MatchString(m.name) || quick && m.slow != ""
	})
	if len(mutants) == 0 {
		return fmt.Errorf("no mutant is called %q", only)
	}
	if list {
		for _, m := range mutants {
			fmt.Printf("%-34s %-4s %s\n", m.name, m.rule, m.says)
		}
		return nil
	}
	t, err := copyTree(root)
	if err != nil {
		return err
	}
	defer t.remove()
	began := time.Now()
	if err := sane(t, mutants, limit); err != nil {
		return err
	}
	fmt.Printf("every test is green without a mutant (%.0f s)\n", time.Since(began).Seconds())
	until := began.AddDate(1, 0, 0)
	if within > 0 {
		until = began.Add(within)
		rand.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
	}
	tried, bad, err := tryAll(root, t, mutants, until, limit, workers)
	if err != nil {
		return err
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d of %d mutants are not red: %s", len(bad), tried, strings.Join(bad, ", "))
	}
	fmt.Printf("%d of %d mutants, all red, in %.0f s\n", tried, len(mutants), time.Since(began).Seconds())
	return nil
}

// tryAll tries mutants until it is too late to begin another one, and returns how many, and the
// names of those that are not red. Each worker has a tree of its own; the first has t.
func tryAll(root string, t *tree, mutants []*mutant, until time.Time, limit time.Duration, workers int) (tried int, bad []string, err error) {
	todo := make(chan *mutant)
	var mu sync.Mutex // guards bad, and keeps lines apart
	var g errgroup.Group
	for i := range workers {
		mine := t
		if i > 0 {
			if mine, err = copyTree(root); err != nil {
				return 0, nil, err
			}
			defer mine.remove()
		}
		g.Go(func() error {
			for m := range todo {
				r := mine.try(m, limit)
				mu.Lock()
				fmt.Printf("%-14s %-38s rule %-6s %5.1f s  %s\n", r.verdict, m.name, m.rule, r.took.Seconds(), m.says)
				if r.verdict != red {
					bad = append(bad, m.name)
					fmt.Println(indent(r.why))
				}
				mu.Unlock()
			}
			return nil
		})
	}
	for tried < len(mutants) && time.Now().Before(until) {
		todo <- mutants[tried]
		tried++
	}
	close(todo)
	return tried, bad, g.Wait()
}

// sane runs every command without a mutant, those of one package together.
func sane(t *tree, mutants []*mutant, limit time.Duration) error {
	var all []command
	for _, m := range mutants {
		c := m.test
		i := slices.IndexFunc(all, func(o command) bool {
			return o.tags == c.tags && o.pkg == c.pkg && slices.Equal(o.args, c.args)
		})
		if i < 0 {
			all = append(all, c)
		} else if !slices.Contains(strings.Split(all[i].run, "|"), c.run) {
			all[i].run += "|" + c.run
		}
	}
	for _, c := range all {
		if v := t.test(c, limit); v.verdict != green {
			return fmt.Errorf("%s is %s without a mutant:\n%s", c, v.verdict, indent(v.why))
		}
	}
	return nil
}

// indent shows the end of an output.
func indent(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	if n := len(lines); n > 40 {
		lines = lines[n-40:]
	}
	return "    " + strings.Join(lines, "\n    ")
}
