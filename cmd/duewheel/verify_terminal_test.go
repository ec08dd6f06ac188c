//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/twmb/franz-go/pkg/kgo"
)

// On a terminal, how far it is is drawn while all is read once. With --watch lines go on for ever, and nothing is drawn between them.
func TestVerifyDrawsNoBarBetweenNews(t *testing.T) {
	t.Setenv("TERM", "xterm")
	c, addr := cluster(t, map[string]int32{"delays": 1, "delays.dead": 1, "orders": 1})
	if err := client(t, addr).ProduceSync(t.Context(), &kgo.Record{Topic: "delays", Headers: []kgo.RecordHeader{{Key: "delay-for", Value: []byte("1h")}}}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	id := c.TopicInfo("delays").TopicID
	commit(t, addr, "delays", 0, 0, fmt.Sprintf("dw1 t=%x w=1:0 l=0 c=0:p1", id[:4]))
	for _, watch := range []bool{false, true} {
		master, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		args := []string{"verify", "-b", addr, "-g", "g", "-X", "routes[0].topic=delays", "-X", "routes[0].target=orders"}
		if watch {
			args = append(args, "--watch", "--listen", "off", "--every", "1s")
		}
		printed := make(chan string, 1)
		go func() {
			var b strings.Builder
			for part := make([]byte, 1<<12); ; {
				n, err := master.Read(part)
				b.Write(part[:n])
				if err != nil { // the other side is closed
					break
				}
				if watch && strings.Contains(b.String(), "faults 0\r\n") {
					stop()
				}
			}
			printed <- b.String()
		}()
		err = run(ctx, args, strings.NewReader(""), tty, tty)
		tty.Close()
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(<-printed, "\r\n", "\n")
		if drawn := strings.Contains(text, "\r"); drawn == watch {
			t.Errorf("with --watch (%v) a terminal is sent %q", watch, text)
		}
	}
}
