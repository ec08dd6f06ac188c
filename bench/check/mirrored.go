package check

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// In a mirror of a delay topic a copy or a retry is a request, whose delay counts from when what it is of was written; a resolve record is nothing.

// began is from when the delay of a request counts, in ms.
func (rt *route) began(r *kgo.Record) int64 {
	for _, said := range []struct {
		header      string
		numbers, at int
	}{{"delay-retry", 5, 1}, {"delay-seq", 3, 2}} {
		if numbers, is := rt.mirrored(lastOf(r.Headers, said.header), r.Partition, said.numbers); is {
			if numbers[said.at] < 0 {
				break
			}
			return numbers[said.at]
		}
	}
	return r.Timestamp.UnixMilli()
}

// ofMirror tells whether a record is a resolve record of another topic or partition.
func (rt *route) ofMirror(r *kgo.Record) bool {
	if len(r.Key) > 0 || r.Value != nil || len(r.Headers) != 1 || r.Headers[0].Key != "delay-resolve" {
		return false
	}
	parts := strings.Split(string(r.Headers[0].Value), ":")
	return len(parts) > 3 && (&source{partition: r.Partition, route: rt}).author([]byte(strings.Join(parts[:3], ":")), 1, nil) == elsewhere
}

// mirrored reads the numbers behind a mark that was written for another topic or partition.
func (rt *route) mirrored(v []byte, partition int32, count int) (numbers []int64, is bool) {
	parts := strings.Split(string(v), ":")
	if len(parts) != 3+count || (&source{partition: partition, route: rt}).author([]byte(strings.Join(parts[:3], ":")), 1, nil) != elsewhere {
		return nil, false
	}
	for _, part := range parts[3:] {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n < -1 || strconv.FormatInt(n, 10) != part {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, true
}
