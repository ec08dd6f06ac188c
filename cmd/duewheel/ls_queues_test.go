package main

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Of partitions with a fixed delay no more is read than is shown: that there are more is said if one of them has more, in whatever order they were read. One that
// was not read on because of what is due too late has been counted.
func TestMoreOfSeveralQueues(t *testing.T) {
	const partitions = 6
	for name, c := range map[string]struct {
		in    [partitions]int // records that are asked for
		later bool            // one lies behind them that is due too late
		args  []string
		says  string
	}{
		"one has more than is shown":       {[partitions]int{3, 1, 1, 1, 1, 1}, false, []string{"--limit", "2"}, "shown: the first 2; more are pending (--limit 0 shows all)\n"},
		"all of them have":                 {[partitions]int{2, 2, 2, 2, 2, 2}, true, []string{"--limit", "2", "--before", "20h"}, "12 records are pending; shown: the first 2 (--limit 0 shows all)\n"},
		"as many are shown as there are":   {[partitions]int{1, 1, 0, 0, 0, 0}, true, []string{"--limit", "2", "--before", "20h"}, "2 records are pending\n"},
		"none has more than is shown here": {[partitions]int{1, 1, 1, 0, 0, 0}, false, []string{"--limit", "2"}, "3 records are pending; shown: the first 2 (--limit 0 shows all)\n"},
	} {
		_, addr := cluster(t, map[string]int32{"fixed": partitions, "orders": 1})
		config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: fixed, target: orders, delay: 24h}\n")
		cl := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		write := func(partition int, at time.Time) {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "fixed", Partition: int32(partition), Timestamp: at}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		for p, n := range c.in {
			for range n {
				write(p, time.Now().Add(-10*time.Hour))
			}
			if c.later {
				write(p, time.Now())
			}
		}
		for range 8 { // in which order they are read is chance
			if out, err := command(t, "", append([]string{"ls", "-c", config}, c.args...)...); err != nil || !strings.HasSuffix(out, c.says) {
				t.Errorf("%s: printed %q, %v; want %q", name, out, err, c.says)
				break
			}
		}
	}
}
