package child

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// What a child tells and what it is told arrive as they were.
func TestMessagesTravel(t *testing.T) {
	at := time.Date(2026, 11, 22, 1, 2, 3, 456, time.UTC)
	partitions := []processor.TopicPartition{{Topic: "delays", Partition: 3}, {Topic: "delays.eu-1", Partition: 0}}
	for _, want := range []Message{
		{Heeds: true},
		{Admin: "127.0.0.1:9464"},
		{Counts: &Counts{At: at, Live: 1, Pending: 2, Standbys: 3, Warm: 4, Heap: 5, Topics: map[string]TopicCounts{"delays": {Pending: 1, Bytes: 2, Open: 3, Carried: 4}}, Delivered: map[string]int64{"orders": 6}, Kept: map[string]float64{"load": 0.02}}},
		{Event: &processor.Event{Kind: processor.EventCommitted, At: at, Lane: 1, Partitions: partitions, Records: 7}},
		{Event: &processor.Event{Kind: processor.EventRestored, At: at, Partitions: partitions[:1], LowWater: 5, Start: 9}},
		{Event: &processor.Event{Kind: processor.EventFenced, At: at, Partitions: partitions[1:], Writer: "g-a-0-0"}},
		{Event: &processor.Event{Kind: processor.EventStopped, At: at, Partitions: partitions[1:], Error: "no"}},
	} {
		if got := travel(t, want); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	order := Order{
		Config: processor.Config{
			Group: "g", Instance: "a", Guarantee: processor.AtLeastOnce, Lanes: 2, NearWindow: time.Second, MemoryBudget: 1 << 30,
			Routes: []topics.Route{{Topic: "delays", Allow: []string{"orders.*"}, MaxDelay: time.Hour, DeadLetter: "dead"}},
		},
		Reach: json.RawMessage(`{"a":1}`), CountEvery: time.Second,
	}
	if got := travel(t, order); !reflect.DeepEqual(got, order) {
		t.Errorf("got %+v, want %+v", got, order)
	}
}

func travel[T any](t *testing.T, v T) (got T) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A child that tells what cannot be read is ended, and the error says what it was. Other lines are passed over.
func TestUnreadableMessage(t *testing.T) {
	cmd := exec.Command("sh", "-c", `read order; echo hello; echo '{"Heeds":true}'; echo '{"Event":1}'; exec sleep 60`)
	cmd.Stderr = os.Stderr
	heard := 0
	p, err := Start(cmd, Order{}, func(*Process, Message) { heard++ })
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Exited():
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), `cannot be read`) || heard != 1 {
		t.Errorf("after %d messages it ended with %v", heard, err)
	}
}

// However a log is cut into writes, it is passed on line by line.
func TestLines(t *testing.T) {
	for size := range 8 {
		var got []string
		w := Lines(func(line string) error { got = append(got, line); return nil })
		for piece := range slices.Chunk([]byte("one\n\ntwo three\nfour"), size+1) {
			if n, err := w.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		if !slices.Equal(got, []string{"one", "", "two three"}) {
			t.Errorf("in pieces of %d: %q", size+1, got)
		}
	}
	full := errors.New("full")
	if _, err := Lines(func(string) error { return full }).Write([]byte("one\n")); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}
