//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// A pipe cannot be read again: duewheel ls -X kafka.sasl.password_file=<(pass kafka).
func TestLoginFromAPipe(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := in.WriteString("one-secret\n"); err != nil {
		t.Fatal(err)
	}
	in.Close()
	s, err := load(sources{X: []string{"bootstrap.servers=" + locked(t).ListenAddrs()[0], "sasl.mechanism=PLAIN", "sasl.username=old",
		fmt.Sprintf("kafka.sasl.password_file=/dev/fd/%d", out.Fd())}})
	opts, optsErr := s.clientOpts()
	if err := errors.Join(err, optsErr); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := ping(t, opts); err != nil {
			t.Error(err)
		}
	}
}
