package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What has outlived the log that it was written to goes by the handle that its producer was given: it is listed, shown, cancelled and delivered now.
func TestCarriedGoesByItsHandle(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1, "delays.dead": 1})
	keepShortly(t, addr, "delays")
	var handles []string
	for _, value := range []string{"first", "second", "third"} {
		out, err := command(t, "", "produce", "-b", addr, "-g", "g", "-t", "delays", "--to", "orders", "--for", "1h", "-k", "k", "-v", value)
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, strings.TrimSpace(out[strings.LastIndex(out, " "):]))
	}
	stop, _ := start(t, addr, t.TempDir(), "-X", "near_window=1s")
	outlive(t, c, addr, "delays", 3)
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

// So does what a retry route holds, carried on by its turn and carried since: it is shown with what its consumer has written, and what is made of that.
func TestCarriedRetryGoesByItsHandle(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"again": 1, "again.dead": 1, "parked": 1, "orders": 1})
	keepShortly(t, addr, "again")
	r := &kgo.Record{Topic: "again", Key: []byte("17"), Value: []byte("failed"), Headers: []kgo.RecordHeader{
		{Key: "delay-target-topic", Value: []byte("orders")}, {Key: "delay-attempt", Value: []byte("2")}, {Key: "mine", Value: []byte("stays")},
	}}
	if err := client(t, addr).ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	route := []string{"-X", "routes[0].topic=again", "-X", "routes[0].retry.max_attempts=5", "-X", "routes[0].retry.parking=parked",
		"-X", "routes[0].retry.backoff.initial=1h", "-X", "routes[0].retry.backoff.max=1h", "-X", "routes[0].targets.allow=orders"}
	stop, _ := start(t, addr, t.TempDir(), append([]string{"-X", "near_window=1s"}, route...)...)
	outlive(t, c, addr, "again", 2) // the request, and what its turn has made of it
	flags := append([]string{"-b", addr, "-g", "g"}, route...)
	list, err := command(t, "", append([]string{"ls", "-o", "json"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	var row struct{ Handle, Target string }
	if err := json.Unmarshal([]byte(list), &row); err != nil || row.Target != "orders" {
		t.Fatalf("listed is %s: %v", list, err)
	}
	got, err := command(t, "", append([]string{"get", row.Handle}, flags...)...)
	if err != nil || !strings.Contains(got, "pending, due") || !strings.Contains(got, "it was delivered 2 times before") || strings.Contains(got, "delay-seq") {
		t.Errorf("shown is %v\n%s", err, got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// keepShortly has a topic keep its log for two seconds.
func keepShortly(t *testing.T, addr, topic string) {
	t.Helper()
	keeps := "2000"
	if _, err := kadm.NewClient(client(t, addr)).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "retention.ms", Value: &keeps}}, topic); err != nil {
		t.Fatal(err)
	}
}

// outlive waits until the low water of group g in a topic of one partition has passed as many records, and has the log lose all below it.
func outlive(t *testing.T, c *kfake.Cluster, addr, topic string, records int64) {
	t.Helper()
	low := int64(0)
	await(t, func() string {
		out, _ := command(t, "", "checkpoints", "-b", addr, "-g", "g", "-t", topic, "-o", "json")
		var rows []struct {
			LowWater int64 `json:"low_water"`
		}
		if err := json.Unmarshal([]byte(out), &rows); err == nil && len(rows) == 1 {
			low = rows[0].LowWater
		}
		if low < records {
			return "nothing was carried; checkpoints say " + out
		}
		return ""
	})
	if err := c.DeleteRecords(topic, 0, low); err != nil {
		t.Fatal(err)
	}
}
