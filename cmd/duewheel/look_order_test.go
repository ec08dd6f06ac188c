package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is due at the same time comes in the order of partitions, whichever was read first: one looks twice, and sees the same.
func TestSameOrderOfPartitions(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 2, "orders": 1})
	cl := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	due := time.Now().Add(time.Hour).UnixMilli()
	ask := func(partition int32, due int64, id string) *kgo.Record {
		return &kgo.Record{Topic: "delays", Partition: partition, Headers: []kgo.RecordHeader{
			{Key: "delay-until", Value: fmt.Append(nil, due)}, {Key: "delay-target-topic", Value: []byte("orders")}, {Key: "delay-id", Value: []byte(id)}}}
	}
	records := []*kgo.Record{ask(0, due, "a"), ask(1, due, "a")}
	for i := range int64(20_000) { // which take longer to read
		records = append(records, ask(0, due+1000+i, fmt.Sprint("b", i)))
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ls", "--limit", "1"}, {"ls", "--limit", "2"}, {"get", "a"}} {
		out, _, err := both(t, append(args, "-b", addr, "-g", "g", "-t", "delays", "-o", "json")...)
		if err != nil {
			t.Fatal(err)
		}
		n := int32(0)
		for line := range strings.Lines(out) {
			var row struct{ Partition int32 }
			if err := json.Unmarshal([]byte(line), &row); err != nil || row.Partition != n {
				t.Errorf("%v: row %d is of partition %d, %v", args, n, row.Partition, err)
			}
			n++
		}
	}
}
