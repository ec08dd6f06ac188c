package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// Without --listen it finds a port beside the processors of its machine, which take the next free one, too.
func TestVerifyWatchFindsAPort(t *testing.T) {
	if taken, err := net.Listen("tcp", "127.0.0.1:9465"); err == nil {
		defer taken.Close()
	}
	_, config := spoiled(t)
	ctx, cancel := context.WithCancel(t.Context())
	var notes heard
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fmt.Fprintln(&notes, run(ctx, []string{"verify", "-c", config, "--watch"}, strings.NewReader(""), io.Discard, &notes))
	}()
	at := notes.await(t, `(?m)^(.*127\.0\.0\.1:\d+.*)$`)
	cancel()
	<-ended
	if !strings.HasPrefix(at, "metrics are at ") || strings.Contains(at, ":9465/") {
		t.Errorf("printed %q", at)
	}
}
