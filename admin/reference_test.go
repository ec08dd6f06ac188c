package admin

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	referenceFile = "../docs/metrics.md"
	tableHead     = "| metric | | |\n|---|---|---|\n"
)

var rewrite = flag.Bool("rewrite", false, "write docs/metrics.md anew")

// The table of metrics in docs/metrics.md is what a process exports; -rewrite makes it anew.
func TestReference(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(collect(distinct()), NewBuildInfo("v1", "abc", "go1"))
	countOnce(NewClientMetrics(r))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, f := range families {
		name := f.GetName()
		if all := f.Metric[0].Label; len(all) > 0 {
			names := make([]string, len(all))
			for i, l := range all {
				names[i] = l.GetName()
			}
			name += "{" + strings.Join(names, ",") + "}"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", name, strings.ToLower(f.GetType().String()), f.GetHelp())
	}
	was, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	lead, table, found := strings.Cut(string(was), tableHead)
	if !found {
		t.Fatalf("%s has no table", referenceFile)
	}
	want := lead + tableHead + rows.String()
	if _, after, more := strings.Cut(table, "\n\n"); more {
		want += "\n" + after
	}
	if want == string(was) {
		return
	}
	if *rewrite {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("docs/metrics.md is not what is exported; go test ./admin -run TestReference -rewrite")
}

// What the documentation says of metrics, in queries, too, is of those that there are, with labels that they have.
func TestDocsNameMetrics(t *testing.T) {
	reference, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string][]string{} // labels by name
	for _, row := range regexp.MustCompile("(?m)^\\| `(duewheel_\\w+)(?:\\{(.*)\\})?` \\| (\\w+)").FindAllStringSubmatch(string(reference), -1) {
		labels := strings.Split(row[2], ",")
		known[row[1]] = labels
		if row[3] == "histogram" {
			known[row[1]+"_sum"], known[row[1]+"_count"], known[row[1]+"_bucket"] = labels, labels, append(labels, "le")
		}
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`(duewheel_\w*[a-z])\b(?:\{([^}]*)\})?`)
	for _, page := range append(pages, "../README.md", "../DESIGN.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range said.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[1], "duewheel_verify_") {
				continue // of another command, which looks after them
			}
			labels, ok := known[m[1]]
			if !ok {
				t.Errorf("%s: there is no %s", page, m[1])
			}
			for l := range strings.SplitSeq(m[2], ",") {
				if l, _, _ = strings.Cut(strings.TrimSpace(l), "="); ok && l != "" && !slices.Contains(labels, l) {
					t.Errorf("%s: %s has no label %s", page, m[1], l)
				}
			}
		}
	}
}

// countOnce has each metric of the clients count something.
func countOnce(m *ClientMetrics) {
	of, failed := kgo.BrokerMetadata{NodeID: 1}, fmt.Errorf("failed")
	m.OnBrokerConnect(of, 0, nil, nil)
	m.OnBrokerConnect(of, 0, nil, failed)
	m.OnBrokerDisconnect(of, nil)
	for _, e := range []kgo.BrokerE2E{{}, {WriteErr: failed}, {ReadErr: failed}} {
		m.OnBrokerE2E(of, 0, e)
	}
	m.OnBrokerThrottle(of, time.Second, false)
	m.OnProduceBatchWritten(of, "t", 0, kgo.ProduceBatchMetrics{})
	m.OnFetchBatchRead(of, "t", 0, kgo.FetchBatchMetrics{})
}
