package main

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// What explain says, with half a second past midnight of 2026 in UTC for now, an hour later here.
func TestExplain(t *testing.T) {
	now := time.Date(2026, 1, 1, 1, 0, 0, 5e8, time.FixedZone("CET", 3600))
	datadriven.Walk(t, "testdata/explain", func(t *testing.T, path string) {
		var f flags
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "config":
				f.file = writeFile(t, "duewheel.yaml", d.Input)
				return ""
			case "explain":
				var out strings.Builder
				cmd := explainCommand(&f, func() time.Time { return now })
				cmd.SilenceErrors, cmd.SilenceUsage = true, true
				cmd.SetArgs(strings.FieldsFunc(d.Input, func(c rune) bool { return c == '\n' }))
				cmd.SetOut(&out)
				if err := cmd.Execute(); err != nil {
					out.WriteString("error: " + err.Error() + "\n")
				}
				return out.String()
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}
