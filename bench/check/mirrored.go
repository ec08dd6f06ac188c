package check

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// In a mirror of a delay topic a copy or a retry is a request, whose delay counts from when what it is of was written; a resolve record is nothing.

// mirrors reads the records of a partition as what was written into another one.
type mirrors struct{ *source }

func mirrorsOf(rt *route, partition int32) mirrors {
	return mirrors{&source{partition: partition, route: rt}}
}

// began is from when the delay of a request counts, in ms.
func (m mirrors) began(r *kgo.Record) int64 {
	for _, said := range []struct {
		value       []byte
		numbers, at int
	}{{unnamed(lastOf(r.Headers, "delay-retry")), 5, 1}, {lastOf(r.Headers, "delay-seq"), 3, 2}} {
		if numbers, is := m.numbers(said.value, said.numbers); is {
			if numbers[said.at] < 0 {
				break
			}
			return numbers[said.at]
		}
	}
	return r.Timestamp.UnixMilli()
}

// resolves tells whether a record is a resolve record of another topic or partition.
func (m mirrors) resolves(r *kgo.Record) bool {
	if len(r.Key) > 0 || r.Value != nil || len(r.Headers) != 1 || r.Headers[0].Key != "delay-resolve" {
		return false
	}
	parts := strings.Split(string(r.Headers[0].Value), ":")
	return len(parts) > 3 && m.author([]byte(strings.Join(parts[:3], ":")), 1, nil) == elsewhere
}

// numbers reads those behind a mark that was written for another topic or partition.
func (m mirrors) numbers(v []byte, count int) (numbers []int64, is bool) {
	parts := strings.Split(string(v), ":")
	if len(parts) != 3+count || m.author([]byte(strings.Join(parts[:3], ":")), 1, nil) != elsewhere {
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
