// Command mutate breaks one rule of the design at a time and looks whether the test that guards it notices.
//
//	go run ./integration/mutate [-quick] [-within 3m [-base v1.0.0] [-most 40]] [-only name] [-list] [-p 2]
//
// Each file in rules is a mutant: the rule that it breaks, the tests that must then fail, and the edits that break it. The edits
// are made in a copy of the tree, and the tests are run there. To build is what takes time, so mutants that change the bodies of
// functions are built together, each of them turned on by itself when its tests are run (weave.go); those that are not red then, and all
// others, are built one at a time. A mutant must be red: each of its tests has
// failed. Green is a rule without a test. A mutant that fits nowhere or does not build, a test that is not there, one that does not
// end and the failure of another test say nothing, so they are as bad as green. The tests must also be green without a mutant, or
// their red would mean nothing.
//
// With -within, mutants are tried whose files, tests or rules have changed since a commit (-base; the last release unless it is
// given), however long that takes; then others, in an order that changes, and none is begun after that time. With -most only so
// many of the former are tried however long that takes, those first that have changed themselves, and the names of those that
// were left out are printed. With -quick only those are tried that tests without a broker find within seconds.
//
// The file of a mutant:
//
//	# What the rule says, and what is broken.
//	rule: 3                              (of DESIGN.md, or a word for what is broken)
//	red: ./processor TestLateArrival TestLateList/capped
//	tags: synctests                      (only where the test needs it)
//	args: -rapid.seed=1                  (only for a test that takes some)
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

// options are what the flags say.
type options struct {
	quick, list bool
	only        *regexp.Regexp
	within      time.Duration // 0: all
	base        string
	most        int // of those whose files have changed; 0: all
	limit       time.Duration
	workers     int
}

func main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "only what is found within seconds, without a broker")
	only := flag.String("only", "", "only mutants whose name matches this regular expression")
	flag.DurationVar(&o.within, "within", 0, "begin no mutant after this time, but for those whose files have changed (0: try them all)")
	flag.StringVar(&o.base, "base", "", "the commit since which files have changed (default: the last release, or the last commit but one)")
	flag.IntVar(&o.most, "most", 0, "how many mutants whose files have changed are tried in any case (0: all of them)")
	flag.BoolVar(&o.list, "list", false, "print the mutants and the rules that they break")
	flag.DurationVar(&o.limit, "limit", 5*time.Minute, "how long one test may take")
	flag.IntVar(&o.workers, "p", runtime.NumCPU(), "how many mutants are tried at the same time")
	flag.Parse()
	var err error
	if flag.NArg() > 0 {
		err = fmt.Errorf("what is %q? -only chooses mutants", flag.Arg(0))
	} else if o.only, err = regexp.Compile(*only); err == nil {
		err = run(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	mutants, err := readMutants(filepath.Join(root, "integration", "mutate", "rules"))
	if err != nil {
		return err
	}
	mutants = slices.DeleteFunc(mutants, func(m *mutant) bool {
		return !o.only.MatchString(m.name) || o.quick && m.slow != ""
	})
	if len(mutants) == 0 {
		return fmt.Errorf("no mutant is called %q", o.only)
	}
	if o.list {
		for _, m := range mutants {
			fmt.Printf("%-34s %-4s %-50s %s\n", m.name, m.rule, strings.Join(m.red, " "), m.says)
		}
		return nil
	}
	began := time.Now()
	changed, must, until := len(mutants), len(mutants), began
	if o.within > 0 {
		var since string
		if changed, since, err = choose(root, mutants, o.base); err != nil {
			return err
		}
		must, until = changed, began.Add(o.within)
		if o.most > 0 {
			must = min(changed, o.most)
		}
		fmt.Printf("%d of %d mutants are of files that have changed since %s\n", changed, len(mutants), since)
	}
	trees, err := copyTrees(root, o.workers)
	if err != nil {
		return err
	}
	defer trees.remove()
	w, err := weaveTogether(root, mutants[:must]) // the others are few, if there is a time to keep
	if err != nil {
		return err
	}
	defer w.remove()
	tried, alone, bad, err := tryAll(trees, w, mutants, must, until, o)
	if err != nil {
		return err
	}
	if tried < changed {
		fmt.Printf("%d of those whose files have changed were left out: %s\n", changed-tried, names(mutants[tried:changed]))
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d of %d mutants are not red: %s", len(bad), tried, strings.Join(bad, ", "))
	}
	if err := sane(trees[0], alone, o); err != nil {
		return err
	}
	fmt.Printf("%d of %d mutants, all red, %d of them built by themselves, and their tests green without them, in %.0f s\n",
		tried, len(mutants), len(alone), time.Since(began).Seconds())
	return nil
}

// names are those of mutants, in a line.
func names(mutants []*mutant) string {
	var all []string
	for _, m := range mutants {
		all = append(all, m.name)
	}
	return strings.Join(all, ", ")
}

// tryAll tries those mutants that it must, and others until it is too late to begin another one. It returns how many, those that were built
// by themselves, and the names of those that are not red. Each worker has a tree of its own.
func tryAll(trees trees, w *together, mutants []*mutant, must int, until time.Time, o options) (tried int, alone []*mutant, bad []string, err error) {
	todo := make(chan *mutant)
	var mu sync.Mutex // guards what is returned, and keeps lines apart
	var g errgroup.Group
	for _, t := range trees {
		g.Go(func() error {
			for m := range todo {
				r, ok := w.try(m, t, o.limit)
				built := ""
				if !ok {
					r, built = t.try(m, o.limit), ", built by itself"
				}
				mu.Lock()
				fmt.Printf("%-14s %-38s rule %-6s %5.1f s%s  %s\n", r.verdict, m.name, m.rule, r.took.Seconds(), built, m.says)
				if !ok {
					alone = append(alone, m)
				}
				if r.verdict != red {
					bad = append(bad, m.name)
					fmt.Println(indent(r.why))
				}
				mu.Unlock()
			}
			return nil
		})
	}
	for tried < len(mutants) && (tried < must || time.Now().Before(until)) {
		todo <- mutants[tried]
		tried++
	}
	close(todo)
	err = g.Wait()
	return tried, alone, bad, err
}

// sane runs the tests of mutants on a tree that has been mended, of which most is built, those of one package together.
func sane(t *tree, mutants []*mutant, o options) error {
	tests := make(map[target][]string)
	for _, m := range mutants {
		tests[m.in] = append(tests[m.in], m.red...)
	}
	for in, names := range tests {
		slices.Sort(names)
		names = slices.Compact(names)
		for i, r := range t.test(in, names, max(o.limit, 10*time.Minute)) {
			if r.verdict != green {
				return fmt.Errorf("%s of %s is %s without a mutant:\n%s", names[i], in.pkg, r.verdict, indent(r.why))
			}
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
