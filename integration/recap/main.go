// Command recap runs go test -json, prints what the tests print, and says once more at the end what those that failed have said, without
// the logs that they show. Of a long run often the end alone is kept, so with -keep that is appended to a file as well, to be printed after whatever follows.
//
//	go run ./integration/recap [-keep FILE] go test -json -count=1 ./integration/...
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	keep := flag.String("keep", os.DevNull, "append to this `file` what has failed")
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("usage: recap [-keep FILE] go test -json ...")
	}
	kept, err := os.OpenFile(*keep, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	defer kept.Close()
	cmd := exec.Command(flag.Arg(0), flag.Args()[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		log.Fatal(err)
	}
	err = errors.Join(follow(out, os.Stdout, kept), cmd.Wait())
	if err != nil {
		log.Fatal(err)
	}
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
}

// follow prints what the tests print, and then the recap, which is kept, too.
func follow(from io.Reader, to, kept io.Writer) error {
	var r recap
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				e = event{Output: string(line)} // of the go command itself
			}
			if _, err := io.WriteString(to, e.Output); err != nil {
				return err
			}
			r.take(e)
		}
		if errors.Is(err, io.EOF) {
			_, err = io.WriteString(io.MultiWriter(to, kept), r.String())
			return err
		}
		if err != nil {
			return err
		}
	}
}

const (
	mostSaid  = 12  // messages of a test: the last ones, and the first one from each place in its source
	mostLines = 3   // of a message
	mostBytes = 400 // of a line
)

// recap is what tests have said.
type recap struct {
	said   map[string][]string // by package and test
	more   map[string]int      // how many more lines the last message may have
	begun  []string            // and not ended: in a panic, or for too long
	failed []string
}

// message begins what a test says: with a place in the source, or of a panic.
var message = regexp.MustCompile(`^ *[\w-]+\.go:\d+: |^panic: `)

func (r *recap) take(e event) {
	if r.said == nil {
		r.said, r.more = map[string][]string{}, map[string]int{}
	}
	name := strings.TrimSpace(e.Package + " " + e.Test)
	switch {
	case e.Action == "run":
		r.begun = append(r.begun, name)
		return
	case e.Action == "pass", e.Action == "skip", e.Action == "fail":
		r.ended(name, e.Action == "fail")
		return
	case e.Action != "output":
		return
	case !strings.HasPrefix(e.Output, "    ") && !strings.HasPrefix(e.Output, "panic: "):
		r.more[name] = 0
	case message.MatchString(e.Output):
		r.more[name] = mostLines
		if said := r.said[name]; len(said) >= mostSaid {
			i := spare(said)
			r.said[name] = slices.Delete(said, i, i+1)
		}
		r.said[name] = append(r.said[name], "")
	}
	if r.more[name] == 0 {
		return
	}
	r.more[name]--
	line := strings.TrimRight(e.Output, "\n")
	if len(line) > mostBytes {
		line = strings.ToValidUTF8(line[:mostBytes], "") + " …"
	}
	said := r.said[name]
	said[len(said)-1] += line + "\n"
}

// spare is which message is left out: the oldest one that another one from the same place precedes, or else the oldest one.
func spare(said []string) int {
	seen := map[string]bool{}
	for i, m := range said {
		at := message.FindString(m)
		if seen[at] {
			return i
		}
		seen[at] = true
	}
	return 0
}

// ended takes in that a test has ended, or with its package all that it has begun.
func (r *recap) ended(name string, failed bool) {
	r.begun = slices.DeleteFunc(r.begun, func(begun string) bool {
		over := begun == name || strings.HasPrefix(begun, name+" ")
		if over && failed && begun != name {
			r.failed = append(r.failed, begun)
		}
		return over
	})
	if failed {
		r.failed = append(r.failed, name)
	}
}

// String is empty when nothing has failed. A test of which another part has failed, and which has said nothing itself, is left out.
func (r *recap) String() string {
	var b strings.Builder
	for _, name := range r.failed {
		part := func(other string) bool { return other != name && strings.HasPrefix(other, name) }
		if len(r.said[name]) == 0 && slices.ContainsFunc(r.failed, part) {
			continue
		}
		fmt.Fprintf(&b, "--- failed: %s\n%s", name, strings.Join(r.said[name], ""))
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n=== what has failed, without logs\n" + b.String()
}
