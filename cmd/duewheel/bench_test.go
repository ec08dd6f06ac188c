package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/duewheel/duewheel/bench"
)

// A case is measured on any cluster that -b names, and leaves nothing there.
func TestBench(t *testing.T) {
	_, addr := cluster(t, nil)
	out, err := command(t, "", "bench", "-b", addr, "--case", "writes", "--rate", "500", "--for", "200ms", "--partitions", "2", "--dir", t.TempDir(), "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Brokers int
		Results []struct {
			Case    string
			Met     bool
			Figures map[string]float64
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if got.Brokers != 1 || len(got.Results) != 1 || got.Results[0].Case != "writes" || !got.Results[0].Met || got.Results[0].Figures["records_per_record"] != 2 {
		t.Errorf("printed %s", out)
	}
	topics, err := kadm.NewClient(client(t, addr)).ListTopics(t.Context())
	if err != nil || len(topics) > 0 {
		t.Errorf("left behind: %v, %v", topics.Names(), err)
	}
}

// What requests may ask for besides a delay has a command of its own.
func TestBenchAsk(t *testing.T) {
	_, addr := cluster(t, nil)
	out, err := command(t, "", "bench", "ask", "-b", addr, "--case", "cancels", "--records", "500", "--rounds", "1", "--partitions", "2", "--dir", t.TempDir())
	if err != nil || !strings.Contains(out, "500 records: each cancelled once") {
		t.Errorf("%v: %s", err, out)
	}
}

// A replica of bench failover is this program, told how to reach the same cluster.
func TestBenchReplicaIsToldTheCluster(t *testing.T) {
	f := flags{file: "duewheel.yaml", brokers: []string{"a:1", "b:2"}, x: []string{"security.protocol=SSL"}, commandConfig: "client.properties", group: "none of its business"}
	want := []string{"bench", "replica", "--config=duewheel.yaml", "--bootstrap-server=a:1", "--bootstrap-server=b:2", "--property=security.protocol=SSL", "--command-config=client.properties"}
	if got := f.benchReplica().Args[1:]; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (&flags{}).benchReplica().Args[1:]; !slices.Equal(got, want[:2]) {
		t.Errorf("got %q, want %q", got, want[:2])
	}
}

func TestBenchReplicaRefuses(t *testing.T) {
	_, addr := cluster(t, nil)
	for stdin, want := range map[string]string{
		"":        "read what the replica is to do: EOF",
		"what?\n": "read what the replica is to do: invalid character",
		"{}\n":    "group.id is empty",
	} {
		if _, err := command(t, stdin, "bench", "replica", "-b", addr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("told %q: error %v, want %q", stdin, err, want)
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	_, addr := cluster(t, nil)
	for want, args := range map[string][]string{
		"kafka.brokers is missing": {"bench"},
		`no case "speed"`:          {"bench", "-b", addr, "--case", "speed,writes"},
		"bench: rate is -1":        {"bench", "-b", addr, "--rate", "-1"},
		"a lateness case of 1ms":   {"bench", "-b", addr, "--for", "1ms"},
		"-X routes[0].delay: a benchmark measures the defaults": {"bench", "-b", addr, "-X", "lanes=2", "-X", "routes[0].delay=1s"},
		"-X near_window: a benchmark":                           {"bench", "size", "-b", addr, "-X", " near_window=1s", "-X", "memory.budget=64MiB"},
		"unknown flag: --case-name":                             {"bench", "-b", addr, "--case-name", "x"},
		`no case "writes"`:                                      {"bench", "failover", "-b", addr, "--case", "writes"},
		"bench: pending is -5":                                  {"bench", "failover", "-b", addr, "--pending", "-5"},
	} {
		if out, err := command(t, "", args...); exitCode(err) != 2 || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%q: exit code %d, printed %q, error %v, want %q", args, exitCode(err), out, err, want)
		}
	}
}

// What many pending records cost is measured without a cluster.
func TestBenchScale(t *testing.T) {
	out, err := commandWithin(t, 4*patience, "", "bench", "scale", "--pending", "5000", "--rounds", "1", "--partitions", "2", "--dir", t.TempDir(), "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Results []struct {
			Case    string
			Checked string
			Figures map[string]float64
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	var names []string
	for _, r := range got.Results {
		names = append(names, r.Case)
		if strings.Contains(r.Checked, "want") {
			t.Errorf("%s: %s", r.Case, r.Checked)
		}
	}
	if !slices.Equal(names, bench.ScaleCases()) {
		t.Errorf("measured %v", names)
	}
}
