package main

import (
	"reflect"
	"strings"
	"testing"
)

// What looks like a number, a date or a truth value is text where a key is text, as it is written.
func TestTextOfAFileIsTakenAsWritten(t *testing.T) {
	for _, written := range []string{"007", "0123", "1e5", "12345678901234567890123", "0x1F", "1_000", "1.10", "true", "2026-12-01", "no"} {
		file := strings.Replace(smallest, "id: duewheel", "id: "+written, 1)
		file = strings.Replace(file, "  brokers:", "  sasl: {mechanism: PLAIN, username: u, password: "+written+"}\n  brokers:", 1)
		file = strings.Replace(file, "[orders,", "["+written+",", 1)
		s, problems := judge(t, sources{File: writeFile(t, "duewheel.yaml", file)})
		if problems != nil {
			t.Errorf("%s: problems %q", written, problems)
		} else if s.Group != written || s.SASL.Password != written || s.Routes[0].Allow[0] != written {
			t.Errorf("%s: group %q, password %q, target %q", written, s.Group, s.SASL.Password, s.Routes[0].Allow[0])
		}
	}
}

func TestAnchorsOfAFile(t *testing.T) {
	s, problems := judge(t, sources{File: writeFile(t, "duewheel.yaml", smallest+"    max_delay: &d 7d\n  - {topic: t, target: &t 007, max_delay: *d, dead_letter: &x 1e3}\n  - {topic: u, target: *t, dead_letter: *x}\n")})
	if problems != nil || s.Routes[1].MaxDelay != s.Routes[0].MaxDelay || s.Routes[2].Target != "007" || s.Routes[2].DeadLetter != "1e3" {
		t.Errorf("%+v, problems %q", s.Routes, problems)
	}
}

// A file has one set of keys: what stands in a second one would be passed over without a word.
func TestDocumentsOfAFile(t *testing.T) {
	for _, file := range []string{"---" + smallest, smallest + "---\n", "# made by a tool\n---\n---" + smallest + "...\n", smallest + "---\n# no more\n"} {
		if s, problems := judge(t, sources{File: writeFile(t, "duewheel.yaml", file)}); problems != nil || len(s.Routes) != 1 {
			t.Errorf("%q: routes %+v, problems %q", file, s.Routes, problems)
		}
	}
	_, got := judge(t, sources{File: writeFile(t, "duewheel.yaml", smallest+"---\nlanes: 2\n")})
	want := []string{"duewheel.yaml: it holds several documents, with --- between them: only one can have settings"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	_, got = judge(t, sources{File: writeFile(t, "duewheel.yaml", smallest+"---\nlanes: [\n")})
	if len(got) != 1 || !strings.HasPrefix(got[0], "duewheel.yaml: not YAML: ") {
		t.Errorf("got %q", got)
	}
}

// DUEWHEEL_CONFIG names the file where -c does not.
func TestFileOfTheEnvironment(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	file := func(name, topic string) string {
		return writeFile(t, name, "kafka: {brokers: '"+addr+"'}\nroutes:\n  - {topic: "+topic+", target: orders}\n")
	}
	t.Setenv(envFile, file("env.yaml", "delays"))
	produce := []string{"produce", "--for", "1h", "-v", "x", "--no-check"}
	if out, err := command(t, "", produce...); err != nil || !strings.HasPrefix(out, "delays/0@0, ") {
		t.Errorf("printed %q, %v", out, err)
	}
	if _, err := command(t, "", append(produce, "-c", file("flag.yaml", "others"))...); err == nil || !strings.Contains(err.Error(), "others") {
		t.Errorf("-c does not count: %v", err)
	}
	if _, err := command(t, "", append(produce, "-c", "")...); err == nil || err.Error() != "--config is empty" {
		t.Errorf("-c is nothing: %v", err)
	}
}
