package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestGoals(t *testing.T) {
	for _, test := range []struct {
		name    string
		of      string
		figures Figures
		met     bool
	}{
		{"a figure at its limit", "throughput", Figures{"ratio": 0.75}, true},
		{"a figure below what is wanted at least", "throughput", Figures{"ratio": 0.749}, false},
		{"no number", "throughput", Figures{"ratio": math.NaN()}, false},
		{"a figure that is not there", "throughput", Figures{}, false},
		{"through the store half is enough", "store", Figures{"ratio": 0.5, "accepted_ratio": 0.6, "delivered_ratio": 0.85}, true},
		{"less than half", "store", Figures{"ratio": 0.49, "accepted_ratio": 0.6, "delivered_ratio": 0.85}, false},
		{"an intake that is slow", "store", Figures{"ratio": 0.5, "accepted_ratio": 0.59, "delivered_ratio": 0.85}, false},
		{"a delivery that is slow", "store", Figures{"ratio": 0.5, "accepted_ratio": 0.6, "delivered_ratio": 0.84}, false},
		{"a request and a delivery", "writes", Figures{"records_per_record": 2}, true},
		{"something is written twice", "writes", Figures{"records_per_record": 2.01}, false},
		{"both percentiles", "lateness", Figures{"p50_ms": 8, "p99_ms": 30}, true},
		{"only the median", "lateness, live", Figures{"p50_ms": 8, "p99_ms": 30.1}, false},
		{"only the tail", "lateness", Figures{"p50_ms": 8.1, "p99_ms": 30}, false},
		{"without transactions it is stricter", "lateness-alo", Figures{"p50_ms": 8, "p99_ms": 15}, false},
		{"without transactions", "lateness-alo, live", Figures{"p50_ms": 4, "p99_ms": 15}, true},
		{"an instant", "instant", Figures{"last_seen_s": 1, "pause_ms": 100}, true},
		{"a pause that is too long", "instant", Figures{"last_seen_s": 0.5, "pause_ms": 101}, false},
		{"a take-over within a second", "standby", Figures{"live_s": 1, "readers_past_s": 1}, true},
		{"readers that wait longer than that", "standby", Figures{"live_s": 0.5, "readers_past_s": 1.1}, false},
		{"a rebuild", "rebuild", Figures{"log_per_s": 500_000}, true},
		{"a slow rebuild", "cold", Figures{"log_per_s": 499_999}, false},
		{"a restart", "restart", Figures{"first_delivery_s": 1}, true},
		{"a slow restart", "restart, killed", Figures{"first_delivery_s": 1.01}, false},
		{"partitions that stay are disturbed", "rebalance", Figures{"stay_extra_p99_ms": 51, "move_extra_p99_ms": 900}, false},
		{"partitions that move take longer", "rebalance", Figures{"stay_extra_p99_ms": 50, "move_extra_p99_ms": 1001}, false},
		{"a rolling restart", "rolling", Figures{"extra_max_s": 1}, true},
		{"a rolling restart that one record waits for", "rolling, standby", Figures{"extra_max_s": 1.1}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Result{Case: test.of, Figures: test.figures}
			r.judge()
			if r.Met != test.met || r.Goal == "" {
				t.Errorf("met %v, goal %q; want %v", r.Met, r.Goal, test.met)
			}
		})
	}
}

var someResults = []Result{
	{Case: "throughput", What: "A backlog.", Measured: "612,000/s, 0.83 of the copy loop's 737,349/s", Figures: Figures{"ratio": 0.83}, Checked: "3 records: fine"},
	{Case: "instant", What: "An instant.", Measured: "1.20 s; pause 31 ms | worse", Figures: Figures{"last_seen_s": 1.2, "pause_ms": 31}, Checked: "5 records: fine"},
}

func judged() []Result {
	rs := append([]Result(nil), someResults...)
	for i := range rs {
		rs[i].judge()
	}
	return rs
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := WriteTable(&b, judged()); err != nil {
		t.Fatal(err)
	}
	want := `CASE        MEASURED                                      GOAL                     MET
throughput  612,000/s, 0.83 of the copy loop's 737,349/s  ≥ 0.75 of the copy loop  yes
instant     1.20 s; pause 31 ms | worse                   ≤ 1 s; pause ≤ 100 ms    no

throughput: A backlog.
  Checked: 3 records: fine.

instant: An instant.
  Checked: 5 records: fine.
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

var somewhere = Where{Kafka: "v4.3", Brokers: 1, Note: "on the same machine", CPUs: 2, System: "linux/amd64", Go: "go1.26", At: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}

func TestMarkdown(t *testing.T) {
	got := Markdown(somewhere, judged())
	want := `| case | measured | goal | met | others, on two cores |
|---|---|---|---|---|
| throughput | 612,000/s, 0.83 of the copy loop's 737,349/s | ≥ 0.75 of the copy loop | yes | Kafka Streams: 36,000/s |
| instant | 1.20 s; pause 31 ms \| worse | ≤ 1 s; pause ≤ 100 ms | no | Kafka Streams: 0.8 s, pause 0.7 s; NATS: 1.15 s, 1.1 s; RocketMQ: 2.3 s |

Kafka v4.3, one broker on the same machine; 2 CPUs, linux/amd64, go1.26; 2026-11-21. What is measured:

- **throughput**: A backlog. Checked: 3 records: fine.
- **instant**: An instant. Checked: 5 records: fine.
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := WriteJSON(&b, somewhere, judged()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Kafka   string
		At      time.Time
		Results []Result
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Kafka != "v4.3" || !got.At.Equal(somewhere.At) || len(got.Results) != 2 {
		t.Fatalf("got %+v", got)
	}
	if r := got.Results[0]; r.Case != "throughput" || !r.Met || r.Figures["ratio"] != 0.83 || r.Goal != "≥ 0.75 of the copy loop" {
		t.Errorf("got %+v", r)
	}
	b.Reset()
	if err := WriteJSON(&b, somewhere, nil); err != nil || !strings.Contains(b.String(), `"results": []`) {
		t.Errorf("without results: %s, %v", b.String(), err)
	}
}

func TestUpdateDocument(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	write := func(s string) {
		if err := os.WriteFile(path, []byte(s), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	write("# Title\n\n<!-- bench:begin -->\nold\n<!-- bench:end -->\n\nMore.\n")
	for range 2 { // again changes nothing
		if err := UpdateDocument(path, "bench", "| new |\n"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if want := "# Title\n\n<!-- bench:begin -->\n| new |\n<!-- bench:end -->\n\nMore.\n"; err != nil || string(got) != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	for name, document := range map[string]string{
		"no marks":        "# Title\n",
		"only the first":  "<!-- bench:begin -->\nold\n",
		"the wrong order": "<!-- bench:end -->\n<!-- bench:begin -->\n",
		"twice":           strings.Repeat("<!-- bench:begin -->\n<!-- bench:end -->\n", 2),
		"an end too many": "<!-- bench:begin -->\n<!-- bench:end -->\n<!-- bench:end -->\n",
	} {
		write(document)
		if err := UpdateDocument(path, "bench", "new"); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got, _ := os.ReadFile(path); string(got) != document {
			t.Errorf("%s: the document was changed to %q", name, got)
		}
	}
}

// The documents must have a place for each table.
func TestDocumentsHaveMarks(t *testing.T) {
	for path, names := range map[string][]string{
		"../docs/benchmarks.md": {"bench", "bench-ask", "bench-look", "bench-failover"},
		"../docs/sizing.md":     {"bench-scale", "bench-size", "soak"},
	} {
		document, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, err := between(string(document), name, "table"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
