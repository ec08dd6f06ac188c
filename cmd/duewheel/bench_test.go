package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// A case is measured on any cluster that -b names, and leaves nothing there.
func TestBench(t *testing.T) {
	_, addr := cluster(t, nil)
	out, err := command(t, "", "bench", "-b", addr, "--case", "writes", "--rate", "500", "--for", "200ms", "--partitions", "2", "--dir", t.TempDir(), "--json")
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

func TestBenchRefuses(t *testing.T) {
	_, addr := cluster(t, nil)
	for want, args := range map[string][]string{
		"kafka.brokers is missing":  {"bench"},
		`no case "speed"`:           {"bench", "-b", addr, "--case", "speed,writes"},
		"bench: rate is -1":         {"bench", "-b", addr, "--rate", "-1"},
		"a lateness case of 1ms":    {"bench", "-b", addr, "--for", "1ms"},
		"unknown flag: --case-name": {"bench", "-b", addr, "--case-name", "x"},
	} {
		if out, err := command(t, "", args...); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%q: printed %q, error %v, want %q", args, out, err, want)
		}
	}
}
