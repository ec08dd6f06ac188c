package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/duewheel/duewheel/topics"
)

// What explain says, with half a second past midnight of 2026 in UTC for now, and less than a millisecond more, an hour later here.
func TestExplain(t *testing.T) {
	now := time.Date(2026, 1, 1, 1, 0, 0, 5e8+7e5, time.FixedZone("CET", 3600))
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

// Each header of another tool is told by its preset, with what it stands for and what comes of that, where the preset is on; and is a header of users where it
// is off.
func TestExplainEveryAlias(t *testing.T) {
	now := time.UnixMilli(1767225600500).UTC()
	files := map[string]string{
		"on":  "{topic: delays, targets: {allow: [orders]}, headers: {aliases: [%s]}}",
		"dlq": "{topic: delays, targets: {allow: [orders]}, retry: {target: from_headers, max_attempts: 3, backoff: {initial: 10s, jitter: 0}}, headers: {aliases: [%s]}}",
		"off": "{topic: delays, targets: {allow: [orders]}, headers: {aliases: none}}",
	}
	explain := func(route string, headers ...string) string {
		f := flags{}
		if route != "" {
			f.file = writeFile(t, "duewheel.yaml", "kafka: {brokers: ['127.0.0.1:1']}\ngroup: {id: g}\nroutes:\n  - "+route+"\n")
		}
		var out strings.Builder
		cmd := explainCommand(&f, func() time.Time { return now })
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetOut(&out)
		var args []string
		for _, h := range headers {
			args = append(args, "-H", h)
		}
		cmd.SetArgs(args)
		if err := cmd.Execute(); err != nil {
			fmt.Fprintln(&out, err)
		}
		return out.String()
	}
	values := map[string][2]string{ // by what a header stands for: a value, and what comes of it
		topics.HeaderUntil:              {"1767225605", "due        2026-01-01T00:00:05.000Z"},
		topics.HeaderFor:                {"5m", "due        2026-01-01T00:05:00.500Z"},
		topics.HeaderTargetTopic:        {"orders", "target     orders"},
		topics.HeaderTargetKey:          {"k9", "key        k9"},
		topics.HeaderTargetPartition:    {"3", ", partition 3"},
		topics.HeaderExpires:            {"2026-02-01", "expires    2026-02-01T00:00:00.000Z"},
		"schedule_source_type":          {"schedule", "due        2026-01-01T00:00:05.000Z"},
		"schedule_schema_version":       {"1", "due        2026-01-01T00:00:05.000Z"},
		"schedule_target_partition_key": {"x", "it would be dead-lettered: unsupported_header: header schedule_target_partition_key: this version does not support it"},
	}
	all := topics.Aliases()
	seen := map[string]bool{}
	for _, a := range all {
		preset, stands := a.Preset.String(), ""
		seen[preset] = true
		name := a.For
		if a.For == "" {
			name = a.Name
		} else {
			stands = ", stands for " + a.For
		}
		with := values[name]
		headers := []string{a.Name + "=" + with[0]}
		kind := "on"
		for _, other := range all { // its preset counts by its time, and a partition is shown behind its target
			if other.Preset == a.Preset && other.For != a.For && (other.For == topics.HeaderUntil && a.For != topics.HeaderFor || other.For == topics.HeaderTargetTopic) {
				headers = append(headers, other.Name+"="+values[other.For][0])
			}
		}
		if a.For == topics.HeaderTargetTopic && len(headers) == 1 {
			kind = "dlq"
		}
		line := fmt.Sprintf("header     %s=%s   of the preset %s%s", a.Name, with[0], preset, stands)
		off := files["off"]
		if kind == "dlq" {
			off = fmt.Sprintf(files["dlq"], "none")
		}
		got := explain(fmt.Sprintf(files[kind], preset), headers...)
		if !strings.Contains(got, line) || !strings.Contains(got, with[1]) {
			t.Errorf("%s of %s: it does not say %q and %q:\n%s", a.Name, preset, line, with[1], got)
		}
		if got := explain(off, headers...); strings.Contains(got, "of the preset") || !strings.Contains(got, "it would be dead-lettered: ") {
			t.Errorf("%s, and %s is off:\n%s", a.Name, preset, got)
		}
		usual := preset == "plain" || preset == "etf1" || preset == "karafka" || preset == "cloudevents"
		if got := explain("", headers...); strings.Contains(got, line) != usual {
			t.Errorf("%s without a configuration, which has %s on (%v):\n%s", a.Name, preset, usual, got)
		}
	}
	for _, preset := range topics.Presets() {
		if !seen[preset] {
			t.Errorf("nothing of %s was explained", preset)
		}
	}
}

// What no record can have is refused, and not explained.
func TestExplainRefuses(t *testing.T) {
	for args, says := range map[string]string{
		"-p -1":              "--partition -1: a partition is a number from 0",
		"-p 99999999999":     `--partition "99999999999": a whole number`,
		"--offset -1":        "--offset -1: an offset is a number from 0",
		"--offset x":         `--offset "x": a whole number`,
		"-t a/b":             `--topic "a/b" is not a topic name`,
		"--hex =00":          "it is name=, and two hexadecimal digits",
		"--hex delay-for=5m": "it is name=, and two hexadecimal digits",
		"extra":              `explain takes no arguments, and "extra" was given`,
	} {
		if out, err := command(t, "", append([]string{"explain", "-H", "delay-for=5s"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), says) || out != "" {
			t.Errorf("%s: printed %q, %v; want %q", args, out, err, says)
		}
	}
}
