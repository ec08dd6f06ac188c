package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What could not be told any more when it was stopped is not said to be well.
func TestVerifyWatchEndsInTheDark(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1, "delays.dead": 1})
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, target: orders}\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, notes heard
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"verify", "-c", config, "--watch", "--every", "1s", "--listen", "127.0.0.1:0"}, strings.NewReader(""), &out, &notes)
	}()
	out.await(t, `faults 0`)
	c.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return denyGroup(req), nil, true
	})
	notes.await(t, `could not tell`)
	resp, err := http.Get(notes.await(t, `metrics are at (http://\S+)`))
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	if resp.Body.Close(); err != nil || strings.Contains(string(page), `passes_total{outcome="failed"} 0`) {
		t.Errorf("%v\n%s", err, page)
	}
	cancel()
	if err := <-ended; exitCode(err) != 2 {
		t.Errorf("exit code %d, %v\n%s", exitCode(err), err, out.String())
	}
}
