package main

import (
	"strings"
	"testing"
)

// What commands that look at what is pending, or ask for something, are given and cannot mean is refused before any broker is asked. None of it is taken for
// the absence of its flag.
func TestFlagsThatMeanNothing(t *testing.T) {
	for command, all := range map[string][][2]string{
		"ls": {
			{"--limit -1", "--limit -1: at least 1, and 0 for all"}, {"--limit x", `--limit "x": a whole number`}, {"--limit 99999999999999999999", "a whole number"}, {"--limit EMPTY", "a whole number"},
			{"-p -1", "--partition -1: a partition is a number from 0"}, {"-p EMPTY", "whole numbers with commas"}, {"-p 1,,2", "whole numbers with commas"}, {"-p 99999999999999999999", "whole numbers with commas"},
			{"--target EMPTY", "--target is empty"}, {"--target a,,b", `--target "" is not a topic name`}, {"--target börse", `--target "börse" is not a topic name`}, {"-t EMPTY", "--topic is empty"}, {"-t ../x", `--topic "../x" is not a topic name`},
			{"--after EMPTY", "--after is empty"}, {"--before EMPTY", "--before is empty"}, {"--after soon", `--after "soon": a time such as`}, {"--before 12:30", `--before "12:30": a time such as`},
			{"--after 99999999999999999999h", "--after "}, {"--before -99999999999d", "--before "}, {"--after 2h --before 1h", "nothing is due between them"}, {"--after 1h --before 1h", "nothing is due between them"},
			{"--id EMPTY", "--id is empty"}, {"-o yaml", "-o yaml: text or json"}, {"-o EMPTY", "text or json"}, {"more", `ls takes no arguments, and "more" was given`}, {"--liimt 3", "unknown flag: --liimt"},
			{"-g EMPTY", "--group is empty"}, {"-b EMPTY", "--bootstrap-server is empty"}, {"-c EMPTY", "--config is empty"},
		},
		"agenda": {
			{"--by year", "--by year: minute, hour or day"}, {"--by EMPTY", "--by is empty"}, {"-o xml", "-o xml: text or json"}, {"-p -1", "--partition -1"}, {"--after 2h --before 1h", "nothing is due between them"},
			{"--ascii -o json", "--ascii and -o json: give one of them"}, {"--target EMPTY", "--target is empty"}, {"more", "agenda takes no arguments"}, {"--limit 3", "unknown flag: --limit"},
		},
		"get": {
			{"", "which record? Give its handle or its id"}, {"EMPTY", "neither a handle nor an id"}, {"null", `"null" is neither a handle nor an id`}, {"a b", "one handle or id, and 2 were given"}, {strings.Repeat("é", 129), "is no id: one has 256 bytes at most, and this has 258"},
			{"a --patience -1s", "is negative"}, {"a --patience soon", "is not a duration"}, {"a --patience EMPTY", "is not a duration"}, {"a --audit EMPTY", "--audit is empty"}, {"a --audit a/b", `--audit "a/b" is not a topic name`},
			{"a -o json --as hex", "--as and -o json: give one of them"}, {"a --audit told --patience 0", "--audit and --patience 0"}, {"a -o yaml", "-o yaml: text or json"}, {"a -t EMPTY", "--topic is empty"}, {"a -t delays,again", `--topic "delays,again" is not a topic name`},
		},
		"cancel": {
			{"", "which record?"}, {"EMPTY", "neither a handle nor an id"}, {strings.Repeat("x", 257), "an id has 256 bytes at most"}, {"a -t EMPTY", "--topic is empty"}, {"a -o xml", `--output "xml": text or json`}, {"a -p 1", "unknown shorthand flag: 'p'"},
			{"0-0-1767225605123 1-0-1767225605123 -k 17", "--key is that of records that have an id"},
		},
		"reschedule": {
			{"", "which record?"}, {"a", "when? Give --until or --for"}, {"a b --for 1h", "one handle or id, and 2 were given"}, {"a --for 1h --until 2030-01-01", "--for and --until: give one of them"},
			{"a --for EMPTY", "--for is empty"}, {"a --until EMPTY", "--until is empty"}, {"a --until tomorrow", `--until "tomorrow"`}, {"a --until 2030-01-01T09:00", "it has no offset"}, {"a --for 5x", `--for "5x"`},
			{"a --for 293000d", `--for "293000d"`}, {"a --for 1h -o xml", `--output "xml": text or json`},
		},
		"deliver-now": {{"", "which record?"}, {"EMPTY", "neither a handle nor an id"}, {"a b", "one handle or id"}, {"a --for 1h", "unknown flag: --for"}},
		"demo":        {{"--for -1s", "is negative"}, {"--for soon", "is not a duration"}, {"--for EMPTY", "is not a duration"}, {"--kill-at -1s", "is negative"}, {"--rate 0", "--rate 0"}, {"--rate -1", "--rate -1"}, {"more", "demo takes no arguments"}},
	} {
		for _, c := range all {
			args := []string{command}
			for _, arg := range strings.Fields(c[0]) {
				args = append(args, strings.ReplaceAll(arg, "EMPTY", ""))
			}
			given := strings.Join(args, " ")
			if command != "demo" {
				for _, usual := range [][2]string{{"-b", "127.0.0.1:1"}, {"-g", "g"}, {"-t", "delays"}} {
					if !strings.Contains(" "+c[0], " "+usual[0]+" ") {
						args = append(args, usual[0], usual[1])
					}
				}
			}
			out, notes, err := both(t, args...)
			if err == nil || !strings.Contains(err.Error(), c[1]) || strings.Contains(err.Error(), "reach") || out+notes != "" {
				t.Errorf("%q: printed %q, %q, %v; want an error that says %q", given, out, notes, err, c[1])
			}
		}
	}
}
