package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// What has outlived the log that it was written to goes by the handle that its producer was given: it is listed, shown, cancelled and delivered now.
func TestCarriedGoesByItsHandle(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1, "delays.dead": 1})
	keeps := "2000"
	if _, err := kadm.NewClient(client(t, addr)).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "retention.ms", Value: &keeps}}, "delays"); err != nil {
		t.Fatal(err)
	}
	var handles []string
	for _, value := range []string{"first", "second", "third"} {
		out, err := command(t, "", "produce", "-b", addr, "-g", "g", "-t", "delays", "--to", "orders", "--for", "1h", "-k", "k", "-v", value)
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, strings.TrimSpace(out[strings.LastIndex(out, " "):]))
	}
	stop, _ := start(t, addr, t.TempDir(), "-X", "near_window=1s")
	low := int64(0)
	await(t, func() string {
		out, _ := command(t, "", "checkpoints", "-b", addr, "-g", "g", "-t", "delays", "-o", "json")
		var rows []struct {
			LowWater int64 `json:"low_water"`
		}
		if err := json.Unmarshal([]byte(out), &rows); err == nil && len(rows) == 1 {
			low = rows[0].LowWater
		}
		if low < 3 {
			return "nothing was carried; checkpoints say " + out
		}
		return ""
	})
	if err := c.DeleteRecords("delays", 0, low); err != nil {
		t.Fatal(err)
	}
	flags := []string{"-b", addr, "-g", "g", "-t", "delays"}
	ask := func(args ...string) string {
		t.Helper()
		out, err := command(t, "", append(args, flags...)...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		return out
	}
	list := ask("ls", "-o", "json")
	for _, h := range handles {
		if !strings.Contains(list, `"handle":"`+h+`"`) {
			t.Errorf("%s is not listed:\n%s", h, list)
		}
		if got := ask("get", h); !strings.Contains(got, "pending, due") || !strings.Contains(got, "delay-for ") || strings.Contains(got, "delay-seq") {
			t.Errorf("%s is shown so:\n%s", h, got)
		}
	}
	ask("cancel", handles[0])
	ask("deliver-now", handles[1])
	if r := fetch(t, addr, "orders", 1)[0]; string(r.Value) != "second" {
		t.Errorf("delivered was %s", r.Value)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if list = ask("ls", "-o", "json"); strings.Count(list, "\n") != 1 || !strings.Contains(list, handles[2]) {
		t.Errorf("left is\n%s", list)
	}
}
