package check

import (
	"fmt"
	"hash/crc32"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Where a record lies that was delivered is judged by the partitioner of its own route, also while the target had fewer partitions; what has no key may be anywhere, but for a route
// that keeps the number of the partition.
func TestPartitionsOfSeveralRoutes(t *testing.T) {
	const partitions, source = 12, 1
	java := kgo.StickyKeyPartitioner(nil).ForTopic("")
	for _, tt := range []struct {
		route string
		by    Partitioner
		of    func(key []byte, n int) int // negative: any
	}{
		{"java", ByKey, func(key []byte, n int) int {
			if key == nil {
				return -1
			}
			return java.Partition(&kgo.Record{Key: key}, n)
		}},
		{"crc32", ByCRC32, func(key []byte, n int) int {
			if len(key) == 0 {
				return -1
			}
			return int(crc32.ChecksumIEEE(key) % uint32(n))
		}},
		{"source", AsInItsTopic, func([]byte, int) int { return source }},
	} {
		for _, key := range [][]byte{nil, {}, []byte("k"), []byte("key-7")} {
			for _, surveyed := range []bool{true, false} {
				for _, first := range []string{"request", "arrival"} {
					t.Run(fmt.Sprintf("%s/%q/surveyed=%t/%s first", tt.route, key, surveyed, first), func(t *testing.T) {
						for partition := range int32(partitions) {
							w := newWorld()
							w.config.Routes[0].Partitioner = tt.by
							w.config.Targets = []Target{{Topic: "orders", Partitions: partitions}}
							if surveyed {
								w.config.Survey = knows{}
							}
							c := newChecker(t, w.config)
							c.Window("requests", source, 0, math.MaxInt64)
							q := w.request("", "v", "delay-until="+millis(due), "delay-target-topic=orders")
							q.Key = key
							d := w.deliver(q, due)
							d.Partition = partition
							if first == "request" {
								feed(c, q)
							}
							c.Delivered(d, due)
							if first == "arrival" {
								feed(c, q)
							}
							want := tt.of(key, partitions)
							right := want < 0 || want == int(partition)
							for n := int(partition) + 1; surveyed && tt.by != AsInItsTopic && n < partitions; n++ {
								right = right || tt.of(key, n) == int(partition)
							}
							right = right || first == "arrival" && tt.by != AsInItsTopic // its key is not there any more
							if got := c.Report().Count(Altered); got != map[bool]int64{true: 0, false: 1}[right] {
								t.Errorf("in partition %d: %d altered, and it is right: %t", partition, got, right)
							}
						}
					})
				}
			}
		}
	}
}
