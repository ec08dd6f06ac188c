package topics

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// requestsPage is what the author of a producer reads.
func requestsPage(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../docs/requests.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// table returns the rows of the table below a heading row, as cells.
func table(t *testing.T, page, heading string) (rows [][]string) {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n"+heading+"\n")
	if !found {
		t.Fatalf("no table begins with %s", heading)
	}
	for i, line := range strings.Split(rest, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if i > 0 {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for j := range cells {
				cells[j] = strings.TrimSpace(cells[j])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// column is one column of a table, without its backquotes.
func column(rows [][]string, n int) (cells []string) {
	for _, row := range rows {
		cells = append(cells, strings.Trim(row[n], "`"))
	}
	return cells
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// The tables of the reference say what the code does: the headers, what comes out, and the reasons of dead letters.
func TestReferenceOfHeaders(t *testing.T) {
	page := requestsPage(t)
	equal(t, sorted(column(table(t, page, "| header | says |"), 0)), sorted(requestNames[:len(requestNames)-len(reserved)]))
	out, _ := AppendDelivered(nil, nil, &Delivered{Emit: EmitAll, Attempt: 1, Round: 1}, nil)
	var emitted []string
	for _, h := range out {
		emitted = append(emitted, h.Key)
	}
	equal(t, sorted(column(table(t, page, "| header | says | with `headers.emit` |"), 0)), sorted(emitted))
	var codes []string
	for _, c := range Codes {
		codes = append(codes, string(c))
	}
	equal(t, column(table(t, page, "| code | because |"), 0), codes)
	equal(t, sorted(codes), sorted(declaredCodes(t)))
}

// declaredCodes are all constants that are a Code.
func declaredCodes(t *testing.T) (codes []string) {
	t.Helper()
	f, err := goparser.ParseFile(token.NewFileSet(), "refusal.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "Code" {
				code, _ := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				codes = append(codes, code)
			}
		}
		return true
	})
	return codes
}

// Each emitted header is there with those values of headers.emit that the reference says.
func TestReferenceOfEmit(t *testing.T) {
	for _, row := range table(t, requestsPage(t), "| header | says | with `headers.emit` |") {
		var with []string
		for e, name := range emitNames {
			out, _ := AppendDelivered(nil, nil, &Delivered{Emit: Emit(e), Attempt: 1, Round: 1}, nil)
			if slices.ContainsFunc(out, func(h kgo.RecordHeader) bool { return "`"+h.Key+"`" == row[0] }) {
				with = append(with, "`"+name+"`")
			}
		}
		if got := strings.Join(with, ", "); got != row[2] {
			t.Errorf("%s is there with %s, and the reference says %s", row[0], got, row[2])
		}
	}
}

// The table of events of the audit topic has each, and with what is said of all each field, and no other.
func TestReferenceOfAudit(t *testing.T) {
	page := requestsPage(t)
	rows := table(t, page, "| event | says | fields besides |")
	equal(t, slices.Compact(sorted(column(rows, 0))), sorted(auditWords[:]))
	_, rest, _ := strings.Cut(page, "| event | says | fields besides |")
	_, rest, _ = strings.Cut(rest, "\nAll have ")
	common, _, _ := strings.Cut(rest, ", in this order")
	documented := map[string]bool{"id": strings.Contains(rest, "has an id is its `id`")}
	said := common
	for _, row := range rows {
		said += row[2]
	}
	for _, e := range example.FindAllStringSubmatch(said, -1) {
		documented[e[2]] = true
	}
	fields := map[string]bool{}
	for e := range AuditEvents {
		a := Audit{Event: AuditEvent(e), Of: Handle{Due: 7}, ID: []byte("id"), HasBy: true, Refusal: &Refusal{Code: CodeExpired}, Target: "orders", In: AppendAuditIn(nil, "requests", "g", 1)}
		b, _ := a.Append(nil)
		var all map[string]any
		if err := json.Unmarshal(AppendPlace(b, Place{}), &all); err != nil {
			t.Fatal(err)
		}
		for name := range all {
			fields[name] = true
		}
	}
	for name := range fields {
		if !documented[name] {
			t.Errorf("the reference does not say that %q is a field", name)
		}
	}
	for name := range documented {
		if !fields[name] && name != AuditDelivered.String() { // "as delivered"
			t.Errorf("the reference says that %q is a field", name)
		}
	}
}

// What becomes of a second request with an id is told by the names that a configuration has, the default first.
func TestReferenceOfDuplicates(t *testing.T) {
	_, rest, _ := strings.Cut(requestsPage(t), "\nWhat becomes of a second one while the first is pending")
	var got []string
	for i, cell := range column(table(t, rest, "| | |"), 0) {
		name, is := strings.CutSuffix(cell, "` (default)")
		if is != (i == 0) {
			t.Errorf("%s: the default is %s", cell, onDuplicateNames[0])
		}
		got = append(got, name)
	}
	equal(t, got, onDuplicateNames[:])
}

var example = regexp.MustCompile("(hex )?`([^`]+)`")

// Each example of a form is read in that form, and there is none without an example.
func TestReferenceOfForms(t *testing.T) {
	found := map[Form]bool{}
	page := requestsPage(t)
	for _, part := range []struct {
		after string
		read  func(content) (int64, Form, fault)
	}{
		{"`delay-until` and `delay-expires` say an instant:\n", parseUntil},
		{"`delay-for` counts from the record's timestamp:\n", func(c content) (int64, Form, fault) { return parseFor(c, T) }},
	} {
		_, rest, _ := strings.Cut(page, part.after)
		for _, row := range table(t, rest, "| form | like | who writes it |") {
			examples := example.FindAllStringSubmatch(row[1], -1)
			if len(examples) == 0 {
				t.Errorf("%s has no example", row[0])
			}
			for _, e := range examples {
				raw := []byte(e[2])
				if e[1] != "" {
					raw, _ = hex.DecodeString(e[2])
				}
				_, form, f := part.read(open(raw))
				if f.code != "" || form.String() != row[0] {
					t.Errorf("%s is %q, %s, and the reference says %s", e[2], formNames[form], f.why, row[0])
				}
				found[form] = true
			}
		}
	}
	for f := FormMillis; int(f) < len(formNames); f++ {
		if !found[f] {
			t.Errorf("the reference has no example of %s", f)
		}
	}
}

// Each example of what is refused is, and its dead letter names the header and says what to write instead.
func TestReferenceOfRefused(t *testing.T) {
	advice := map[string]string{
		"2026-01-01T00:00:05": "write Z behind it for UTC, or an offset", "2026-01-01T00:00[Europe/Paris]": "or an offset like +01:00, before the name",
		"20454": "a delay belongs in delay-for; in days it is 2026-01-01", "12:30": "write 0:12:30 or 12m30s",
		"05:00:500":                                  "milliseconds behind a point, like 0:05:00.500",
		"Thu Jan 01 00:00:05 UTC 2026":               "how Java and JavaScript print a date: use their ISO form or epoch milliseconds",
		"2026-01-01 00:00:05.123 +0000 UTC m=+0.012": "write UnixMilli(), or Round(0) before String()",
		"AAABm3bavAM=":                               "base64, which Connect makes of bytes: give it text or a number", "5 minutes": "like 5m",
		"300.000000000": "write whole milliseconds, as toMillis() has them, or toString()", "300.123456789": "write whole milliseconds, as toMillis() has them, or toString()",
		"4279b76dabc03000": "write an integer, or text", "253402300799999": "due times end in 5138", "253402300799": "due times end in 5138", "6b2b4c45": "write eight bytes", "3330303000": "leave that out", "31356d00": "leave that out",
		"35006d00": "write it in UTF-8", "fffe35006d00": "write it in UTF-8", "feff0035006d": "write it in UTF-8",
	}
	for _, row := range table(t, requestsPage(t), "| like | in | is refused, because |") {
		header := strings.Trim(row[1], "`")
		for _, e := range example.FindAllStringSubmatch(row[0], -1) {
			raw := []byte(e[2])
			if e[1] != "" {
				raw, _ = hex.DecodeString(e[2])
			}
			_, err := parser(t, "p1").Parse([]kgo.RecordHeader{{Key: header, Value: raw}}, Stamp{Millis: T}, 42, ours)
			r, is := err.(*Refusal)
			if !is || r.Code != CodeUnparsableDue && r.Code != CodeDueOutOfRange || r.Header != header || advice[e[2]] == "" || !strings.Contains(r.Message, advice[e[2]]) {
				t.Errorf("%s in %s: %v; want it refused with the advice %q", e[0], header, err, advice[e[2]])
			}
			delete(advice, e[2])
		}
	}
	if len(advice) > 0 {
		t.Errorf("the page has no examples of %v", advice)
	}
	// What it says of those that are not refused.
	for _, read := range []struct {
		value []byte
		wait  time.Duration
	}{
		{[]byte{0x40, 0x97, 0x70, 0, 0, 0, 0, 0}, 2*time.Hour + 2*time.Minute + 58*time.Second + 752*time.Millisecond},
		{[]byte("100000.123456789"), 100_001 * time.Millisecond},
	} {
		if q, err := parser(t, "p1").Parse(headers(HeaderFor, string(read.value)), Stamp{Millis: T}, 42, ours); err != nil || q.Due != T+read.wait.Milliseconds() {
			t.Errorf("%x waits for %d ms, %v, want %v", read.value, q.Due-T, err, read.wait)
		}
	}
}

// The table of presets is that of the code.
func TestReferenceOfPresets(t *testing.T) {
	var want []string
	for _, a := range Aliases() {
		stands := ""
		if a.For != "" {
			stands = "`" + a.For + "`"
		}
		want = append(want, fmt.Sprintf("| `%s` | `%s` | %s | %s |", a.Preset, a.Name, stands, a.Means))
	}
	_, rest, _ := strings.Cut(requestsPage(t), "| preset | header | stands for | |\n|---|---|---|---|\n")
	got, _, _ := strings.Cut(rest, "\n\n")
	if got != strings.Join(want, "\n") {
		t.Errorf("the table of presets is not\n%s", strings.Join(want, "\n"))
	}
	var usual, sources []string
	for p := NoPreset + 1; p < presets; p++ {
		switch {
		case usualAliases.has(p):
			usual = append(usual, "`"+p.String()+"`")
		case p.dlq():
			sources = append(sources, p.String())
		}
	}
	last := len(usual) - 1
	says := fmt.Sprintf("%s and %s are on where records say when they are due; the last four on a retry route with `retry.target: from_headers`.", strings.Join(usual[:last], ", "), usual[last])
	if !strings.Contains(rest, says) || len(sources) != 4 {
		t.Errorf("the reference does not say: %s", says)
	}
}
