package main

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// What a new user is told of settings that are wrong, contradict each other or are extreme. The scripts list it:
//
//	set    settings, one a line, on top of the smallest file
//	file   a whole file
//	env    variables, on top of the smallest file
//
// What `run` would say follows; "fine" is nothing. → is a tab.
func TestSettings(t *testing.T) {
	refused := map[string]bool{}
	datadriven.Walk(t, "testdata/settings", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			src := sources{}
			content := smallest
			switch lines := strings.Split(strings.ReplaceAll(d.Input, "→", "\t"), "\n"); d.Cmd {
			case "set":
				src.X = lines
			case "env":
				src.Env = lines
			case "file":
				content = d.Input
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			src.File = writeFile(t, "duewheel.yaml", strings.ReplaceAll(content, "→", "\t"))
			_, said := judge(t, src)
			if len(said) == 0 {
				return "fine"
			}
			for _, x := range src.X {
				name, _, _ := strings.Cut(x, "=")
				refused[general(strings.NewReplacer("[", ".", "]", "").Replace(name))] = true
			}
			return strings.ReplaceAll(strings.Join(said, "\n"), "\t", "→")
		})
	})
	for _, k := range keys {
		if !refused[k.Key] && !takesAnything[k.Key] {
			t.Errorf("testdata/settings has no value of %s that is refused: every key needs one", k.Key)
		}
	}
}

// takesAnything are keys of which every text is a value.
var takesAnything = map[string]bool{"kafka.rack": true, "kafka.tls.server_name": true, "state.dir": true}
