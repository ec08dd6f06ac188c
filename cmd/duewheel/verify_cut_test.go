package main

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A dead letter of which a replica has cut the value, the key or all headers, because its topic takes no more, is not altered: it says so.
func TestVerifyLettersCut(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	if err := c.CreateTopic("delays.dead", 1, map[string]string{"max.message.bytes": "4096"}); err != nil {
		t.Fatal(err)
	}
	random, noise := rand.NewChaCha8([32]byte{1}), make([]byte, 9000) // which does not compress
	random.Read(noise)
	config := writeFile(t, "duewheel.yaml", "kafka: {brokers: '"+addr+"'}\ngroup: {id: g}\nroutes:\n  - {topic: delays, target: orders}\n")
	cl := client(t, addr)
	for _, r := range []*kgo.Record{
		{Key: []byte("k"), Value: noise},
		{Key: noise, Value: []byte("v")},
		{Key: noise, Value: noise},
		{Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "of users", Value: noise}}},
		{Value: noise, Headers: []kgo.RecordHeader{{Key: "delay-until", Value: []byte("soon")}, {Key: "of users", Value: noise}}},
	} {
		r.Topic = "delays"
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil { // nothing says when it is due
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"run", "-c", config, "-X", "state.dir=" + t.TempDir(), "-X", "admin.listen=off"}, strings.NewReader(""), io.Discard, io.Discard)
	}()
	waits, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for from, letters := client(t, addr, kgo.ConsumeTopics("delays.dead"), kgo.FetchIsolationLevel(kgo.ReadCommitted())), 0; letters < 5; {
		all := from.PollFetches(waits)
		if err := all.Err0(); err != nil {
			t.Fatal(err)
		}
		for _, letter := range all.Records() {
			if letters++; !slices.ContainsFunc(letter.Headers, func(h kgo.RecordHeader) bool { return h.Key == "__delay.errors.cut" }) {
				t.Errorf("the dead letter at offset %d is whole", letter.Offset)
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	r, err := verified(t, "-c", config)
	if err != nil || r.Counts.DeadLettered != 5 {
		t.Errorf("%v: %+v, %+v", err, r.Counts, r.Faults)
	}
}
