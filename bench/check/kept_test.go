package check

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// In whatever order faults are found, those of the first requests are kept, and two reports that found as many tell whether they are the same.
func TestKeepsThoseOfTheFirstRequests(t *testing.T) {
	const each = 40
	for keep := range 5 {
		var want []string
		sums := map[uint64]bool{}
		for seed := range uint64(10) {
			w := newWorld()
			w.config.Keep = keep + 1
			c := newChecker(t, w.config)
			var arrivals []*kgo.Record
			for partition := range int32(3) {
				for range each {
					q := w.append(&kgo.Record{Topic: "requests", Partition: partition, Timestamp: now, Value: []byte("v"), Headers: parse([]string{"delay-until=" + millis(due), "delay-target-topic=orders"})})
					feed(c, q)
					arrivals = append(arrivals, w.deliver(q, due), w.deliver(q, due), w.deliver(q, due))
				}
			}
			random := rand.New(rand.NewPCG(seed, 1))
			random.Shuffle(len(arrivals), func(i, j int) { arrivals[i], arrivals[j] = arrivals[j], arrivals[i] })
			for i, r := range arrivals {
				r.Offset = int64(i)
				if i == len(arrivals)/2 { // what is told meanwhile changes nothing
					c.Report()
				}
				feed(c, r)
			}
			found := c.Report().Found[Doubled]
			var got []string
			for _, f := range found.First {
				got = append(got, f.Source.String())
			}
			if want = []string{"requests/0@0", "requests/0@0", "requests/0@1", "requests/0@1", "requests/0@2"}[:keep+1]; found.Count != 2*3*each || !slices.Equal(got, want) {
				t.Fatalf("keep %d, seed %d: of %d those of %v were kept, want %v", keep+1, seed, found.Count, got, want)
			}
			sums[found.Sum] = true
		}
		if len(sums) != 1 {
			t.Errorf("of the same faults the sums are %v", sums)
		}
	}
}

// Of one request those come first that arrived first, and then what is said of them counts.
func TestOrderOfKept(t *testing.T) {
	at := func(topic string, offset int64) *kgo.Record { return &kgo.Record{Topic: topic, Offset: offset} }
	all := []Fault{
		{Source: Source{"a", 0, 9}}, {Source: Source{"a", 1, 2}}, {Source: Source{"a", 1, 3}, Detail: "x"}, {Source: Source{"a", 1, 3}, Detail: "y"},
		{Source: Source{"a", 1, 3}, Arrived: at("n", 7)}, {Source: Source{"a", 1, 3}, Arrived: at("o", 5)}, {Source: Source{"a", 1, 3}, Arrived: at("o", 6)}, {Source: Source{"b", 0, 0}},
	}
	for most := 1; most <= len(all)+1; most++ {
		var f Found
		for _, i := range []int{7, 3, 5, 0, 6, 4, 2, 1} {
			if f.mayKeep(&all[i], most) {
				f.add(all[i], most)
			}
		}
		f.sort(most)
		if got, want := fmt.Sprint(f.First), fmt.Sprint(all[:min(most, len(all))]); got != want {
			t.Errorf("of the first %d: %s, want %s", most, got, want)
		}
	}
}
