package clients

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// docBroker is what the documents call a broker.
const docBroker = "127.0.0.1:9092"

// document is what a page of docs has to be run.
type document struct {
	blocks map[string][]string // the code of each language, in order
	lines  []string            // for a shell: what stands indented by four
}

func readDocument(t *testing.T, name string) document {
	t.Helper()
	b, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	d := document{blocks: map[string][]string{}}
	language, block := "", ""
	for line := range strings.Lines(string(b)) {
		fence, is := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case is && language == "":
			language, block = "no language "+fence, ""
			if fence != "" {
				language = fence
			}
		case is:
			d.blocks[language] = append(d.blocks[language], block)
			language = ""
		case language != "":
			block += line
		case strings.HasPrefix(line, "    "):
			d.lines = append(d.lines, strings.TrimSpace(line))
		}
	}
	return d
}

// block is one of a document, and says so if there is none.
func (d document) block(t *testing.T, language string, n int) string {
	t.Helper()
	if n >= len(d.blocks[language]) {
		t.Fatalf("the document has %d blocks of %s", len(d.blocks[language]), language)
	}
	return d.blocks[language][n]
}

// docLanguages are how a program is made of code of a document.
var docLanguages = []struct {
	name, file string
	run        func(ctx context.Context, t *testing.T, file string) program
}{
	{"java", "Doc.java", javaWith},
	{"python", "doc.py", func(ctx context.Context, t *testing.T, file string) program {
		return pythonWith(ctx, t, file, confluentKafka)
	}},
	{"js", "doc.js", node},
	{"go", "doc.go", goWith},
}

// goWith is a program with the modules of this one.
func goWith(_ context.Context, t *testing.T, file string) program {
	return installed(t, "install Go", "go", "run", "testdata/"+file)
}

// programOf puts code of a document into the program that testdata has around it, where that says BLOCK and a number.
func programOf(ctx context.Context, t *testing.T, d document, kind string, n int) program {
	t.Helper()
	l := docLanguages[n]
	around, err := os.ReadFile(filepath.Join("testdata", "docs", kind+"_"+l.file+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := string(around)
	for i, block := range d.blocks[l.name] {
		all = strings.ReplaceAll(all, fmt.Sprint("BLOCK", i), strings.TrimRight(block, "\n"))
	}
	file := filepath.Join(t.TempDir(), l.file)
	if err := os.WriteFile(file, []byte(all), 0o644); err != nil {
		t.Fatal(err)
	}
	p := l.run(ctx, t, l.file)
	p.args[len(p.args)-1] = file
	return p
}

func fakeWith(t *testing.T, names ...string) (broker string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, names...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

// output runs a program to its end, and returns what it says.
func output(ctx context.Context, t *testing.T, p program, args ...string) string {
	t.Helper()
	cmd := p.command(ctx, args...)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, &failed)
	}
	return strings.TrimSpace(string(out))
}

// parsed is what a request of a document means.
func parsed(t *testing.T, spec string, r *kgo.Record) topics.Request {
	t.Helper()
	parser, err := topics.ParserFor(spec)
	if err != nil {
		t.Fatal(err)
	}
	q, err := parser.Parse(r.Headers, topics.StampOf(r), r.Offset, topics.NewMark([4]byte{}, "g", r.Partition))
	if err != nil {
		t.Errorf("%s with %v: %v", r.Key, r.Headers, err)
		return topics.Request{}
	}
	return q
}

// What docs/requests.md has for each language asks for what it says that it asks for: a delay, a delay by a handle that it works out, and one with an id.
func TestCodeOfRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what fetches clients of other languages")
	}
	d := readDocument(t, "requests.md")
	for n, l := range docLanguages {
		t.Run(l.name, func(t *testing.T) {
			if got := len(d.blocks[l.name]); got != 3 {
				t.Fatalf("the document has %d blocks, want 3: which ask, work out a handle, and have an id", got)
			}
			ctx, cancel := context.WithTimeout(t.Context(), ready)
			defer cancel()
			broker := fakeWith(t, "delay-requests")
			handle := output(ctx, t, programOf(ctx, t, d, "requests", n), broker)
			asked, ofHandle, withID := 0, 0, 0
			for _, r := range written(ctx, t, broker, "delay-requests") {
				q := parsed(t, topics.Spec(0), r)
				if string(q.Target) != "orders" {
					t.Errorf("%v asks for the target %q", r.Headers, q.Target)
				}
				switch at := (topics.Handle{Partition: r.Partition, Offset: r.Offset, Due: q.Due}).String(); {
				case at == handle:
					ofHandle++
				case string(q.ID) == "reminder-17" && string(r.Key) == "17" && q.Due == r.Timestamp.Add(48*time.Hour).UnixMilli():
					withID++
				case string(r.Key) == "17" && q.Due == r.Timestamp.Add(5*time.Minute).UnixMilli():
					asked++
				default:
					t.Errorf("%s with %v lies at %s", r.Key, r.Headers, at)
				}
			}
			if asked != 1 || ofHandle != 1 || withID != 1 {
				t.Errorf("%d ask, %d have the handle %q, %d have an id; want one each", asked, ofHandle, handle, withID)
			}
		})
	}
}

// inShell runs a line of a document, on a broker.
func inShell(ctx context.Context, t *testing.T, dir, line, broker string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(line, docBroker, broker))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// built is a directory that has duewheel.
func built(ctx context.Context, t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := fetch(ctx, "install Go", "go", "build", "-o", dir+"/duewheel", "../../cmd/duewheel"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What docs/requests.md has for a shell, as written, asks for what it says that it asks for.
func TestLinesOfRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs clients of other languages")
	}
	installed(t, kcatAdvice, "kcat")
	ctx, cancel := context.WithTimeout(t.Context(), ready)
	defer cancel()
	broker, dir := fakeWith(t, "delay-requests", "orders"), built(ctx, t)
	told := map[string]int{}
	for _, line := range readDocument(t, "requests.md").lines {
		if !strings.Contains(line, docBroker) {
			continue
		}
		inShell(ctx, t, dir, line, broker)
		tool := "duewheel"
		if strings.Contains(line, "kcat") {
			tool = "kcat"
		}
		told[tool+" wrote"]++
	}
	for _, r := range written(ctx, t, broker, "delay-requests") {
		told[meant(t, r)]++
	}
	for what, want := range map[string]int{
		"kcat wrote": 6, "duewheel wrote": 5,
		"a delay of 5m": 2, "with an id": 2, "a null value": 1, "cancels a handle": 2, "cancels an id": 2, "replaces a handle": 2,
	} {
		if told[what] != want {
			t.Errorf("%s: %d, want %d", what, told[what], want)
		}
		delete(told, what)
	}
	if len(told) > 0 {
		t.Errorf("besides %v", told)
	}
}

// What the README has for go build and kcat does as written what it says: the program is built, and a delay of 5 s is asked for.
func TestLinesOfReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs clients of other languages")
	}
	installed(t, kcatAdvice, "kcat")
	ctx, cancel := context.WithTimeout(t.Context(), ready)
	defer cancel()
	dir, broker, lines := t.TempDir(), fakeWith(t, "delay-requests"), map[string]int{}
	for _, line := range readDocument(t, "../README.md").lines {
		in, what := dir, ""
		switch {
		case strings.HasPrefix(line, "go build "): // at the root of the project, where it would leave the program
			in, what, line = "../..", "go build", "GOFLAGS=-o="+dir+"/duewheel "+line
		case strings.Contains(line, "kcat "):
			what = "kcat"
		default:
			continue
		}
		inShell(ctx, t, in, line, broker)
		lines[what]++
	}
	if want := map[string]int{"go build": 1, "kcat": 1}; !maps.Equal(lines, want) {
		t.Fatalf("the README has %v, want %v", lines, want)
	}
	if said := inShell(ctx, t, dir, "./duewheel version", broker); !strings.Contains(said, "duewheel ") {
		t.Errorf("what was built says %q", said)
	}
	all := written(ctx, t, broker, "delay-requests")
	if len(all) != 1 {
		t.Fatalf("%d records were written, want 1", len(all))
	}
	if q := parsed(t, topics.Spec(0), all[0]); string(q.Target) != "orders" || string(all[0].Value) != "value" || q.Due != all[0].Timestamp.Add(5*time.Second).UnixMilli() {
		t.Errorf("%s with %v", all[0].Value, all[0].Headers)
	}
}

// meant says what a request of docs/requests.md asks for.
func meant(t *testing.T, r *kgo.Record) string {
	t.Helper()
	if len(r.Headers) == 0 && r.Value == nil && string(r.Key) == "17" {
		return "a null value"
	}
	q := parsed(t, topics.Spec(0), r)
	named := q.Handle == topics.Handle{Partition: 3, Offset: 8812, Due: T}
	wait := time.Duration(q.Due-r.Timestamp.UnixMilli()) * time.Millisecond
	byMurmur := partitionBy(topics.PartitionerMurmur2, r) == r.Partition
	switch {
	case q.Kind == topics.KindCancel && named:
		return "cancels a handle"
	case q.Kind == topics.KindCancel && string(q.NamedID) == "reminder-17" && byMurmur:
		return "cancels an id"
	case q.Replaces && named && r.Partition == 3 && wait == time.Hour && string(r.Value) == "new":
		return "replaces a handle"
	case string(q.ID) == "reminder-17" && wait == 48*time.Hour && string(r.Value) == "pay!" && byMurmur:
		return "with an id"
	case q.ID == nil && wait == 5*time.Minute && string(r.Value) == `{"order": 17}` && string(q.Target) == "orders":
		return "a delay of 5m"
	}
	return fmt.Sprintf("%s=%s in %d with %v", r.Key, r.Value, r.Partition, r.Headers)
}
