package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
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
func TestLogHasReadableDurations(t *testing.T) {
	for format, want := range map[string]string{"text": "after=1.5s", "json": `"after":"1.5s"`} {
		var b bytes.Buffer
		s := settings{LogFormat: format}
		s.logger(&b).Info("partition is live", "after", 1500*time.Millisecond)
		if got := b.String(); !strings.Contains(got, want) {
			t.Errorf("%s: got %s", format, got)
		}
	}
}
