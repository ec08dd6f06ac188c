package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// What the README says of killed replicas stands in the tables that it refers to.
func TestReadmeFiguresAreThoseOfTheBenchmarks(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	measured, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	for row, begins := range map[string]string{
		"a replica killed: its partitions are live elsewhere after": "| standby | live after ",
		"a replica killed and started again: it delivers after":     "| restart, killed | ",
	} {
		figure := regexp.MustCompile(regexp.QuoteMeta("| "+row) + ` \| ([0-9.]+ s) \|`).FindSubmatch(readme)
		if figure == nil || !strings.Contains(string(measured), begins+string(figure[1])+" (") {
			t.Errorf("%s: README.md says %s, and docs/benchmarks.md does not have %q", row, figure, begins+"...")
		}
	}
}
