package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// traced is an error that prints more of itself when it is asked to, as those of the store do.
type traced struct{ error }

func (e traced) Format(s fmt.State, verb rune) {
	fmt.Fprint(s, e.Error())
	if s.Flag('+') {
		fmt.Fprint(s, "\n-- stack trace")
	}
}

func TestLogHasNoStackTraces(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		s := settings{LogFormat: format}
		s.logger(&b).Error("store", "error", traced{errors.New("no space left on device")})
		if got := b.String(); strings.Contains(got, "stack trace") || !strings.Contains(got, "no space left") {
			t.Errorf("%s: got %s", format, got)
		}
	}
}

// A log is read by people, in either format.
func TestLogIsReadable(t *testing.T) {
	for format, want := range map[string]*regexp.Regexp{
		"text": regexp.MustCompile(`^time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\S* level=INFO msg="partition is live" after=1\.5s watermark=7:8 severity=warning\n$`),
		"json": regexp.MustCompile(`^{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[^"]*","level":"INFO","msg":"partition is live","after":"1\.5s","watermark":"7:8","severity":"warning"}\n$`),
	} {
		var b bytes.Buffer
		s := settings{LogFormat: format}
		s.logger(&b).Info("partition is live", "after", 1500*time.Millisecond, "watermark", state.Key{Due: 7, Seq: 8}, "severity", topics.Warning)
		if !want.MatchString(b.String()) {
			t.Errorf("%s: got %s", format, b.String())
		}
	}
}

// With log.format json all that run says after the configuration was read is a line of JSON, its last words, too; and main prints nothing more. For
// people that is as it is of other commands.
func TestAllOfALogIsJSON(t *testing.T) {
	file := writeFile(t, "file", "")
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: [127.0.0.1:1]}\ngroup: {id: g}\nstate: {dir: "+t.TempDir()+"}\nadmin: {listen: off}\nroutes:\n  - topic: delays\n    targets: {allow: [orders]}\n")
	for _, wrong := range []string{"lanes=-1", "state.dir=" + file, "admin.listen=127.0.0.1:99999"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "run", "-c", config, "-X", "log.format=json", "-X", wrong)
		out, err := cmd.CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		for _, line := range lines {
			var said struct{ Level, Msg, Error string }
			if err := json.Unmarshal([]byte(line), &said); err != nil {
				t.Errorf("%s: not JSON: %s", wrong, line)
			} else if line == lines[len(lines)-1] && (said.Level != "ERROR" || said.Msg != "not started" || said.Error == "") {
				t.Errorf("%s: the last words are %s", wrong, line)
			}
		}
		if cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%s: exit code %d, %v", wrong, cmd.ProcessState.ExitCode(), err)
		}
		if out, _ = exec.CommandContext(t.Context(), os.Args[0], "run", "-c", config, "-X", wrong).CombinedOutput(); !strings.HasPrefix(string(out), "duewheel: ") {
			t.Errorf("%s, for people: %s", wrong, out)
		}
	}
}
