package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/processor/kafka"
)

// The spots of all partitions come in the order in which they are due, as they were added.
func TestMergedSpots(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all []*spotsOf
	var want []spot
	names := []kafka.TopicPartition{{Topic: "b", Partition: 1}, {Topic: "a", Partition: 1}, {Topic: "b", Partition: 0}, {Topic: "c", Partition: 0}}
	for of, name := range names {
		s := &spotsOf{of: int32(of), got: &ahead.Looked{TopicPartition: name}}
		all = append(all, s)
		for offset := range int64(of * 100) { // none of the first
			due := random.Int64N(50)
			p := spot{due: due, key: due, offset: offset, place: offset, of: int32(of), late: due == 7, atOnce: due == 8}
			if offset%3 == 0 {
				p.place += 1000
			}
			if offset%5 == 0 {
				p.key--
			}
			s.add(p)
			want = append(want, p)
		}
	}
	slices.SortFunc(want, func(a, b spot) int {
		x, y := names[a.of], names[b.of]
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition), cmp.Compare(a.offset, b.offset))
	})
	next := merged(all)
	for i, w := range want {
		if got, more := next(); !more || got != w {
			t.Fatalf("%d: %+v, %v, want %+v", i, got, more, w)
		}
	}
	if _, more := next(); more {
		t.Error("there is one more")
	}
	if size := unsafe.Sizeof(briefSpot{}); size > 24 {
		t.Errorf("%d bytes", size)
	}
}

// A window of rows takes no more memory than it may, however large they are and in whatever order they come: it holds those that are due first.
func TestRowWindow(t *testing.T) {
	for _, size := range []int{1, 10_000, mostRowBytes / 3, mostRowBytes * 2} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			n := min(8*mostRowBytes/size, 50_000)
			w, row := rowWindow{rows: make([][]byte, n)}, make([]byte, size)
			put := 0
			for _, i := range rand.New(rand.NewPCG(3, uint64(size))).Perm(n) {
				if !w.wants(i) {
					continue
				}
				w.put(i, row)
				if put++; w.bytes > mostRowBytes && len(w.rows) > 1 {
					t.Fatalf("%d bytes of %d rows", w.bytes, len(w.rows))
				}
			}
			sum := 0
			for i, row := range w.rows {
				if row == nil {
					t.Fatalf("row %d of %d is not there", i, len(w.rows))
				}
				sum += rowBytes(row)
			}
			if least := min(n, mostRowBytes/rowBytes(row)*7/8); sum != w.bytes || len(w.rows) < max(least-1, 1) {
				t.Errorf("%d rows of %d bytes, and %d are counted; want %d rows at least", len(w.rows), sum, w.bytes, least)
			}
		})
	}
}

// All that is pending is listed in the order in which it is due, although there is no room for all its rows at once.
func TestListOfLargeRows(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 2, "orders": 1})
	const n = 500
	cl := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	key := bytes.Repeat([]byte("k"), mostRowBytes*5/4/n)
	first := time.Now().Add(time.Hour).UnixMilli()
	for i := range int64(n) {
		r := &kgo.Record{Topic: "delays", Partition: int32(i % 2), Key: key, Headers: []kgo.RecordHeader{
			{Key: "delay-until", Value: fmt.Append(nil, first+i*7919%n)}, {Key: "delay-target-topic", Value: []byte("orders")}}}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	out, _, err := both(t, "ls", "-b", addr, "-g", "g", "-t", "delays", "--limit", "0", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	next := first
	for line := range strings.Lines(out) {
		var row pendingRow
		if err := json.Unmarshal([]byte(line), &row); err != nil || row.Due != next || len(*row.Key) != len(key) {
			t.Fatalf("%v, due %d, want %d", err, row.Due, next)
		}
		next++
	}
	if next != first+n {
		t.Errorf("%d rows", next-first)
	}
}

// What is due first of all that is pending is listed in its order, also where so many rows are asked for that they are not sought while the log is read.
func TestListOfManyRows(t *testing.T) {
	_, addr := cluster(t, map[string]int32{"delays": 2, "orders": 1})
	const n, most = mostSoonest + 2000, mostSoonest + 1
	cl := client(t, addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	first := time.Now().Add(time.Hour).UnixMilli()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: "delays", Partition: int32(i % 2), Headers: []kgo.RecordHeader{
			{Key: "delay-until", Value: fmt.Append(nil, first+int64(i)*7919%n)}, {Key: "delay-target-topic", Value: []byte("orders")}}}
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	out, said, err := both(t, "ls", "-b", addr, "-g", "g", "-t", "delays", "--limit", strconv.Itoa(most), "-o", "json")
	if err != nil || !strings.Contains(said, "12,000 records are pending") {
		t.Fatalf("%v: %s", err, said)
	}
	next := first
	for line := range strings.Lines(out) {
		var row pendingRow
		if err := json.Unmarshal([]byte(line), &row); err != nil || row.Due != next {
			t.Fatalf("%v, due %d, want %d", err, row.Due, next)
		}
		next++
	}
	if next != first+most {
		t.Errorf("%d rows", next-first)
	}
}

// What was found before brokers refuse to go on is printed, to the end of a line.
func TestListThatFailsHalfWay(t *testing.T) {
	c, addr := cluster(t, map[string]int32{"delays": 1, "orders": 1})
	const n = 1000
	cl := client(t, addr)
	key := bytes.Repeat([]byte("k"), 50_000) // a row is less than what is written at once
	first := time.Now().Add(time.Hour).UnixMilli()
	for i := range int64(n) {
		r := &kgo.Record{Topic: "delays", Key: key, Headers: []kgo.RecordHeader{
			{Key: "delay-until", Value: fmt.Append(nil, first+i)}, {Key: "delay-target-topic", Value: []byte("orders")}}}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	printed := writerFunc(func(b []byte) (int, error) {
		if out.Len() == 0 { // the first rows; others are to be read
			c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				resp := req.ResponseKind().(*kmsg.FetchResponse)
				for _, asked := range req.(*kmsg.FetchRequest).Topics {
					topic := kmsg.NewFetchResponseTopic()
					topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
					p := kmsg.NewFetchResponseTopicPartition()
					p.ErrorCode = kerr.TopicAuthorizationFailed.Code
					topic.Partitions = append(topic.Partitions, p)
					resp.Topics = append(resp.Topics, topic)
				}
				return resp, nil, true
			})
		}
		return out.Write(b)
	})
	err := run(t.Context(), []string{"ls", "-b", addr, "-g", "g", "-t", "delays", "--limit", "0", "-o", "json"}, nil, printed, io.Discard)
	rows := strings.Count(out.String(), "\n")
	if exitCode(err) != 2 || !errors.Is(err, kerr.TopicAuthorizationFailed) || rows == 0 || rows == n || !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("exit code %d (%v), %d rows in %d bytes", exitCode(err), err, rows, out.Len())
	}
	for line := range strings.Lines(out.String()) {
		if !json.Valid([]byte(line)) {
			t.Fatalf("a row of %d bytes is cut", len(line))
		}
	}
}
