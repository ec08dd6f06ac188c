package main

import (
	"bytes"
	"errors"
	"fmt"
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
