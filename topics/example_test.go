package topics_test

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// A record of a delay topic, on its way to its target.
func Example() {
	routes, err := topics.NewRoutes(topics.Route{
		Topic:      "delay-requests",
		Allow:      []string{"orders", "billing.*"},
		MaxDelay:   366 * 24 * time.Hour,
		DeadLetter: "delay-requests.dead",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	route := routes[0]
	record := kgo.Record{
		Partition: 3, Offset: 42, Timestamp: time.UnixMilli(1767225600000),
		Headers: []kgo.RecordHeader{
			{Key: "delay-for", Value: []byte("5m")},
			{Key: "delay-target-topic", Value: []byte("billing.eu")},
			{Key: "tenant", Value: []byte("7")},
		},
	}
	mark, now := topics.NewMark([4]byte{0xa8, 0x09, 0x8c, 0x1a}, "billing", record.Partition), record.Timestamp.UnixMilli()
	request, err := route.Parser().Parse(record.Headers, topics.Stamp{Millis: now}, record.Offset, mark)
	if err != nil {
		fmt.Println(err)
		return
	}
	if refusal := route.Refuse(&request, now); refusal != nil {
		fmt.Println(refusal)
		return
	}
	headers, _ := topics.AppendDelivered(nil, record.Headers, &topics.Delivered{
		Topic: route.Topic, Partition: record.Partition, Origin: request.First(record.Offset, now), Fired: request.Due + 3,
	}, nil)
	fmt.Printf("to %s\n", request.Target)
	for _, h := range headers {
		fmt.Printf("%s: %s\n", h.Key, h.Value)
	}
	// Output:
	// to billing.eu
	// tenant: 7
	// delay-due: 1767225900000
	// delay-source: delay-requests/3/42
}

// What cannot be delivered says why.
func ExampleRefusal() {
	parser, _ := topics.ParserFor("p1")
	for _, h := range []kgo.RecordHeader{
		{Key: "delay-until", Value: []byte("20454")},
		{Key: "delay-for", Value: []byte("5 minutes")},
		{Key: "delay-untill", Value: []byte("2026-01-01T00:00:00Z")},
	} {
		_, err := parser.Parse([]kgo.RecordHeader{h}, topics.Stamp{Millis: 1767225600000}, 42, topics.Mark{})
		fmt.Println(err)
	}
	// Output:
	// due_out_of_range: header delay-until: epoch times begin at 1e8 s, in 1973, and a delay belongs in delay-for; in days it is 2026-01-01T00:00:00.000Z; in s it is 1970-01-01T05:40:54.000Z; in ms it is 1970-01-01T00:00:20.454Z; in µs it is 1970-01-01T00:00:00.021Z; in ns it is 1970-01-01T00:00:00.001Z
	// unparsable_due: header delay-for: a delay is a number of milliseconds, or like 5m, 1h30m, 1.5s, 2d, PT5M, P1DT2H or 0:05:00
	// unsupported_header: header delay-untill: names that begin with delay- belong to duewheel, and this one is unknown: did you mean delay-until?
}
