package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A batch gets memory for its records and not for much more, whatever was put back before: a fetch may have tens of thousands of batches
// with one record each.
func TestFetchPoolFitsTheBatch(t *testing.T) {
	var p fetchPool
	for _, n := range []int{0, 1, 2, 3, 4, 5, 511, 512, 513, 100_000} {
		for range 3 {
			s := p.GetRecords(n)
			if len(s) != 0 || cap(s) < n || cap(s) > 2*max(n, 1) {
				t.Fatalf("for %d records: length %d, capacity %d", n, len(s), cap(s))
			}
			p.PutRecords(s)
			p.PutRecords(make([]kgo.Record, 0, n+1)) // another's, of any size
		}
	}
	p.PutRecords(nil)
}

// What an unusually large batch took is not kept for ever.
func TestFetchPoolKeepsNoLargeBuffer(t *testing.T) {
	var p fetchPool
	for range 100 { // a pool may drop whatever it likes
		p.PutDecompressBytes(make([]byte, 0, maxPooled+1))
		if got := cap(p.GetDecompressBytes(make([]byte, 10), 0)); got > maxPooled {
			t.Fatalf("%d MiB are kept", got>>20)
		}
	}
}
